"""Logs are read by people: every line names datasets in words."""

from __future__ import annotations

import logging

from headrace.model.words import put_in_words


class LogWords(logging.Formatter):
    """Tracebacks keep ids: they are for us."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as logging calls it
        return put_in_words(super().formatMessage(record))


LOG_WORDS = LogWords("%(asctime)s %(levelname)s %(name)s: %(message)s")
