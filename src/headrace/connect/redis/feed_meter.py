"""Counts the processor seconds of a Valkey or Redis server, which tells them itself, from wherever it runs.

A server is one process for everybody: what others ask of it meanwhile is counted too.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import RedisError

from headrace.model.errors import ConnectError


class RedisFeedMeter:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def read_seconds(self) -> float:
        try:
            told: Any = self._client.info("cpu")
        except RedisError as error:
            raise ConnectError(f"the store does not say what it does: {error}") from error
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    def close(self) -> None:
        self._client.close()
