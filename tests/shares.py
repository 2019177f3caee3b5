"""How tests are shared out when several processes run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer

SPARK = "spark"


def share_of(test: str) -> str:
    """What one process runs as a whole, by the id of a test: a file, or all files that need Spark.

    Files share what they start; Spark takes longest to start and to warm up, and half of the memory.
    """
    file = test.partition("::")[0]
    return SPARK if SPARK in file else file


class Shares(LoadScopeScheduling):  # type: ignore[misc]
    """Gives out shares in the order in which their first tests were collected.

    Marks are not used for this: pytest 9.2 has ids that xdist 3.8 cannot add the name of a group to.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)
