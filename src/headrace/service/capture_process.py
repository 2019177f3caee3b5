"""The process of one capture: reads its settings from stdin, runs until it is told to stop or its parent is gone."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading

from headrace.connect.postgres.capture import Capture, CaptureSettings
from headrace.model.errors import HeadraceError
from headrace.service.folder import Folder

log = logging.getLogger("headrace.capture")


def main() -> int:
    folder: Folder
    settings: CaptureSettings
    folder, settings = pickle.load(sys.stdin.buffer)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stop, parent = threading.Event(), os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    ledger = folder.ledger()
    try:
        capture = Capture(settings, ledger, folder.store())
        try:
            while not stop.is_set() and os.getppid() == parent:
                capture.step(0.3)
        finally:
            capture.close()
    except HeadraceError as error:
        log.error("%s", error)
        return 1
    finally:
        ledger.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
