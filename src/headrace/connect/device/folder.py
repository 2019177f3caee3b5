"""Where a device keeps its state if nobody says where."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.model.device_messages import quote_id
from headrace.run.device.agent import Identity


def find_folder(identity: Identity) -> Path:
    """A folder of the user's, for this device of this project."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "headrace-device" / quote_id(identity.project) / quote_id(identity.device)
