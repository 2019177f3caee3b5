"""How many files a process may open is asked of the system as it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import resource, sys
from headrace.connect.machine import allow_open_files
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(allow_open_files(wanted), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("limits", "wanted", "allowed"), [((256, 2000), 1500, 1500), ((256, 700), 1500, 700), ((1900, 2000), 1500, 1900)]
)
def test_a_process_opens_as_many_files_as_it_wants_or_may(limits: tuple[int, int], wanted: int, allowed: int) -> None:
    words = [sys.executable, "-c", ASK, *map(str, (*limits, wanted))]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() == [str(allowed)] * 2


def test_a_server_has_fewer_streams_where_it_may_not_open_as_many_files() -> None:
    ask = ASK.rpartition("print")[0] + "from headrace.doors.api.feed_streams import find_most_streams as most\n"
    for hard, streams in ((2000, 1000), (700, 200), (400, 1)):
        words = [sys.executable, "-c", ask + "print(most())", "256", str(hard), "0"]
        said = subprocess.run(words, capture_output=True, text=True, check=True)
        assert int(said.stdout) == streams and ("ulimit -Hn" in said.stderr) is (streams < 1000)
