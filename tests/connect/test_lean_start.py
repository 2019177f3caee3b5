"""Arrow makes arrays without pandas until somebody asks for what needs it."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.connect.lean_start import _Hidden

SCRIPT = """
import sys
import pyarrow as pa
from headrace.connect.lean_start import keep_pandas_out
keep_pandas_out()
table = pa.table({"n": [1, 2], "word": ["a", None]})
assert table.to_pylist() == [{"n": 1, "word": "a"}, {"n": 2, "word": None}]
assert "pandas" not in sys.modules and len(sys.meta_path) == BEFORE
assert table.to_pandas()["n"].sum() == 3
assert "pandas" in sys.modules
keep_pandas_out()
assert pa.array(table.to_pandas()["word"]).to_pylist() == ["a", None]
"""


def test_pandas_is_kept_from_no_other_thread():
    """The engine starts meanwhile, and Spark does without pandas for good where it has not found it once."""
    with ThreadPoolExecutor(1) as other:
        finder = _Hidden(other.submit(threading.get_ident).result())
        with pytest.raises(ModuleNotFoundError):
            other.submit(finder.find_spec, "pandas", None).result()
    finder.find_spec("pandas", None)


def test_arrow_makes_arrays_without_pandas_and_finds_it_when_it_needs_it():
    script = "import sys\nBEFORE = len(sys.meta_path)\n" + SCRIPT
    subprocess.run([sys.executable, "-c", script], check=True)
