"""Runs an ASGI application on HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn

TICK_S = 0.5
END_WITHIN_S = 3
"""Requests that are not answered so long after the end was told are given up."""


class QuietServer(uvicorn.Server):
    """Looks twice a second whether it shall stop, instead of ten times: most projects are asked rarely.

    `before_end` is called first when it ends: streams would go on for ever.
    """

    def __init__(self, config: uvicorn.Config, before_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_end = before_end

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(TICK_S)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        self._before_end()
        await super().shutdown(sockets)
