"""A folder for what tests of one process share."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def kept_folder() -> Path:
    """A new one, that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="espalier-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
