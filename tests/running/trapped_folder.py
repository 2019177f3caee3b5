"""A folder with modules named like those that Headrace imports, which leave a trace when they are executed."""

from __future__ import annotations

from pathlib import Path

SHADOWED = (
    *("psycopg", "pyarrow", "numpy", "sqlglot", "typer", "pydantic", "ruamel", "uvicorn", "fastapi", "pyspark", "py4j"),
    *("json", "subprocess", "logging", "secrets", "sqlite3"),
)
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.executed').touch()\nraise SystemExit('executed')\n"


def make_trapped(folder: Path) -> Path:
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


def executed(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.executed"))
