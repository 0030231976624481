"""Writes tracebacks of bugs to crash reports."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from pathlib import Path

from espalier.model.errors import FileError
from espalier.model.files import write_private
from espalier.model.private import private_folder, redacted

MAX_REPORTS = 20


def crash_folder() -> Path:
    """Folder of crash reports, shared with the window."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(os.environ.get("ESPALIER_STATE") or home / "espalier") / "crashes"


def write_crash_report(error: BaseException, words: list[str]) -> Path | None:
    """Write a crash report and return its path; None if it cannot be written."""
    folder = crash_folder()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = folder / f"crash-{stamp}-{os.getpid()}.txt"
    loaded = [
        f"{n} {getattr(sys.modules[n], '__version__', '?')}" for n in ("torch", "transformers") if n in sys.modules
    ]
    head = [f"Espalier crash report, {stamp}", f"Python {platform.python_version()}, {platform.platform()}", *loaded]
    text = "\n".join([*head, f"arguments: {words}", "", *traceback.format_exception(error)])
    try:
        write_private(private_folder(folder) / path.name, redacted(text))
        for old in sorted(folder.glob("crash-*.txt"))[:-MAX_REPORTS]:
            old.unlink(missing_ok=True)
    except (OSError, FileError):
        return None
    return path
