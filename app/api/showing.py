"""Opens the window on a model in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from espalier.app.cli import has_display
from espalier.model.errors import EspalierError

PREFIX = "espalier-shown-"


def open_window(path: Path, *, temporary: bool) -> subprocess.Popen[bytes]:
    """Start the window on a project.

    `temporary`: delete the file when the window closes, unless it was saved there.
    """
    root = str(Path(__file__).absolute().parents[3])
    places = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    module = "espalier.app.shell.temporary_project" if temporary else "espalier"
    words = [sys.executable, "-P", "-m", module, str(path)]  # -P: nothing of the working folder is imported
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": os.pathsep.join(places)}, stdin=quiet, stdout=quiet,
                            stderr=quiet, start_new_session=True)  # fmt: skip


def check_display() -> None:
    """Raise EspalierError without a display."""
    if not has_display():
        raise EspalierError("There is no display, so the window cannot open.",
                            "Save the model with m.save(path) and open it where there is one.")  # fmt: skip


def temporary_file(name: str) -> Path:
    """Path of a temporary project file."""
    stem = "".join(c if c.isalnum() or c in "-_ " else "-" for c in name).strip() or "model"
    return Path(tempfile.mkdtemp(prefix=PREFIX)) / f"{stem[:60]}.espalier"
