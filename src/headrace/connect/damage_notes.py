"""Notes about damaged files, in a folder of the store: `ROOT/.damaged/SITE/FILE` says what is wrong, and since when.

Whoever reads a file may find that it is damaged: a worker of Spark, a command, the service. The service is the one that
can mend it, so the others leave a note. A note that is lost costs nothing: the next reader finds the damage again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from headrace.model.damage import DamageKind, FileDamage

NOTED = ".damaged"
"""No folder of a site begins with a dot."""


@dataclass(frozen=True, slots=True)
class DamageNotes:
    """`root` is that of the store."""

    root: Path

    def add(self, folder: str, damage: FileDamage) -> None:
        """`folder` is the name of the site's folder. A note that is there stays: it says since when."""
        noted = self.root / NOTED / folder
        with suppress(OSError):  # on a full disk, say
            noted.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = noted / f".{damage.file}.{os.getpid()}"
            unfinished.touch(mode=0o600)
            unfinished.write_text(json.dumps({"kind": damage.kind, "why": damage.why, "since": damage.since}))
            try:
                os.link(unfinished, noted / damage.file)
            finally:
                unfinished.unlink()

    def read(self) -> Sequence[FileDamage]:
        found = []
        for path in sorted((self.root / NOTED).glob("*/[!.]*")):
            with suppress(OSError, ValueError, KeyError, TypeError):  # forgotten meanwhile, or of another version
                noted = json.loads(path.read_bytes())
                what = DamageKind(noted["kind"]), str(noted["why"]), float(noted["since"])
                found.append(FileDamage(unquote(path.parent.name), path.name, *what))
        return found

    def forget(self, folder: str, file: str) -> None:
        (self.root / NOTED / folder / file).unlink(missing_ok=True)
