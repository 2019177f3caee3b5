"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.", show_default="here")]
