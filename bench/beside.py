"""What runs in a thread of its own beside a benchmark: who writes, and who watches."""

from __future__ import annotations

import threading


class Beside:
    """Subclasses say what `run` does until `stopping` is set."""

    def __init__(self, name: str) -> None:
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def run(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when it has ended; it may not have been started."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join()
