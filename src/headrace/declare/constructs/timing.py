"""Windows in time."""

from __future__ import annotations

from headrace.declare.constructs.construct import NOTHING, ONE_ROW, Construct

SESSION_STATE = "the input, sorted by key and stretch of time"
SESSION_COST = "the rows of the sessions that it touches"

TIMING = (
    Construct(
        "`GROUP BY window(ts, size)`, `window_time(window)`",
        "SELECT window.start AS start, window_time(window) AS last, count(*) AS n FROM visits "
        "GROUP BY window(at, '10 minutes')",
        "totals for each group",
        "one group",
        in_spark="SELECT window.start AS start, window.end - INTERVAL '0.000001' SECOND AS last, count(*) AS n "
        "FROM visits GROUP BY window(at, '10 minutes')",
    ),
    Construct(
        "sliding: `window(ts, size, slide)`",
        "SELECT window.end AS upto, sum(seconds) AS seconds FROM visits GROUP BY window(at, '1 hour', '15 minutes')",
        "totals for each group",
        "as many groups as windows hold the row",
    ),
    Construct(
        "`GROUP BY session_window(ts, gap)`: sessions of rows with equal other keys",
        "SELECT customer, session_window.start AS start, session_window.end AS upto, count(*) AS n FROM visits "
        "GROUP BY customer, session_window(at, '30 minutes')",
        SESSION_STATE,
        SESSION_COST,
    ),
    Construct(
        "`FROM TUMBLE(t, ts, size)`, `TUMBLE(TABLE t, DESCRIPTOR(ts), size)`",
        "SELECT page, at, window_start, window_end FROM TUMBLE(visits, at, INTERVAL '10 minutes')",
        NOTHING,
        ONE_ROW,
        in_spark="SELECT page, at, w.start AS window_start, w.end AS window_end "
        "FROM (SELECT *, window(at, '10 minutes') AS w FROM visits)",
    ),
    Construct(
        "`FROM HOP(t, ts, slide, size)`, `HOP(TABLE t, DESCRIPTOR(ts), slide, size)`",
        "SELECT page, window_start, count(*) AS n "
        "FROM HOP(TABLE visits, DESCRIPTOR(at), INTERVAL '15' MINUTES, INTERVAL '1' HOUR) "
        "GROUP BY page, window_start, window_end",
        "totals for each group; without `GROUP BY`, nothing",
        "as many groups or rows as windows hold the row",
        in_spark="SELECT page, window.start AS window_start, count(*) AS n FROM visits "
        "GROUP BY page, window(at, '1 hour', '15 minutes')",
    ),
    Construct(
        "`FROM SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), gap)`",
        "SELECT customer, window_start, max(seconds) AS longest "
        "FROM SESSION(TABLE visits PARTITION BY customer, DESCRIPTOR(at), INTERVAL '30' MINUTES) "
        "GROUP BY customer, window_start",
        SESSION_STATE,
        SESSION_COST,
        in_spark="SELECT customer, session_window.start AS window_start, max(seconds) AS longest FROM visits "
        "GROUP BY customer, session_window(at, '30 minutes')",
    ),
)
