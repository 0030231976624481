"""Runs the window on a temporary project file, which is deleted afterwards unless it was saved.

The process is started by `espalier.app.api.showing`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from espalier.app.shell.starting import open_window
from espalier.model.store.open_files import Version


def show(path: Path) -> int:
    """Run the window on the project; delete the project's folder if the file is unchanged. Returns the exit status."""
    before = Version.of(path)
    try:
        return open_window(str(path))
    finally:
        if Version.of(path) == before:
            shutil.rmtree(path.parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(show(Path(sys.argv[1])))
