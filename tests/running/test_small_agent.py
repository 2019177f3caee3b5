"""The process of a site stays small: it loads no library that it does not use, and gives back what it has freed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOT_FOR_SITES = ("sqlglot", "scipy", "deltalake", "ruamel.yaml", "pyspark", "duckdb", "pandas")
NOT_UNTIL_ASKED = ("uvloop", "fastapi", "uvicorn", "cryptography")
LARGE = (*NOT_FOR_SITES, *NOT_UNTIL_ASKED)
LOADED = f"""
import sys
import headrace.app.site_agent, headrace.app.late_server, headrace.doors.cli.agent, headrace.connect.postgres.process
print(*(name for name in {LARGE!r} if name in sys.modules))
"""
MAPPED = """
import ctypes, threading
import pyarrow as pa
import pyarrow.compute as pc
from headrace.connect.small_memory import SMAPS, give_back_memory, use_few_pools

def resident():
    lines = SMAPS.with_name("smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

use_few_pools()
rows = pa.table({"a": pa.array(range(3_000_000))})
total = pc.sum(rows["a"]).as_py()
before = resident()
small = rows.slice(0, 10).combine_chunks()
del rows
give_back_memory()
assert resident() < before - 30_000, (before, resident())
rows = pa.table({"a": pa.array(range(3_000_000))})
assert pc.sum(rows["a"]).as_py() == total
answers = []
threads = [threading.Thread(target=lambda: answers.append(pc.sum(rows["a"]).as_py())) for _ in range(4)]
for thread in threads: thread.start()
give_back_memory()
for thread in threads: thread.join()
assert answers == [total] * 4
"""


ROWS_STAY = """
import ctypes, sys
import pyarrow as pa
from headrace.connect.small_memory import _find_read_only

with open(sys.argv[1], "wb") as file:
    file.write(bytes(4 << 20))
mapped = pa.memory_map(sys.argv[1])
address = mapped.read_buffer().address
assert not any(start <= address < end for start, end in _find_read_only())
assert any(_find_read_only()), "libraries are given back"
"""


def run(program: str, *words: str) -> str:
    return subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True).stdout


def test_the_process_of_a_site_loads_nothing_that_parses_plans_or_delivers() -> None:
    assert run(LOADED).split() == []


def test_memory_is_given_back_and_everything_works_as_before() -> None:
    run(MAPPED)


def test_mapped_rows_are_not_given_back_while_a_thread_may_read_them(tmp_path: Path) -> None:
    run(ROWS_STAY, str(tmp_path / "rows"))
