"""Decides how far back a page has to look: below some place nothing can be on it, whatever is found there."""

from __future__ import annotations

from headrace.run.feeds.page import (
    SECOND,
    FeedRead,
    PageCursor,
    PageRules,
    Place,
    count_enough,
    find_eligible,
    first_of_each,
)

MOST_FEW = 1_000
"""Producers that are looked at one after the other. For who follows more, the newest events of all are walked."""
STEPS = 10_000
"""Producers after which a walk gives up: who follows only people who are silent is better off the other way."""


def find_floor(rules: PageRules, read: FeedRead, cursor: PageCursor | None = None) -> Place | None:
    """The place below which no entry can change the page or where it ends; None if there are too few to say."""
    eligible, enough = find_eligible(rules, read.entries, cursor), count_enough(rules)
    if rules.more_than is None:
        return eligible[enough - 1].place if len(eligible) >= enough else None
    few = first_of_each(eligible, rules.more_than)
    if len(few) < enough:
        return None
    oldest = (read.as_of if cursor is None else cursor.as_of) - int(rules.within_s * SECOND)
    heads = [entry for entry in first_of_each(eligible, 1) if entry.time >= oldest]
    floor = min(eligible[enough - 1].place, few[enough - 1].place)
    # Everybody with a recent event may have to be on the page, unless they are too many for it.
    return floor if len(heads) > rules.limit else min(floor, (oldest, ""))
