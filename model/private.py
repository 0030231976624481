"""Hides passwords in texts; the program's own folders, readable only by the user."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Literal

# A password ends at the last @ of a word, so that one with an @ or a / is hidden completely.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@'\"]{0,200}):\S{0,2000}@")
_NAMED = re.compile(r"(?i)\b((?:pg)?pass(?:word|wd)|espalier_token|api_?key)(\s*=\s*)"
                    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s&,;\"')\]}]+)")  # fmt: skip
HIDDEN = "…"
_XDG_DEFAULTS = {"cache": ".cache", "state": ".local/state"}


def redacted(text: str) -> str:
    """The text without passwords in URLs (`postgresql://me:…@host/db`) or after keys such as `password=`."""
    if "://" in text and "@" in text:
        text = _URL.sub(rf"\1:{HIDDEN}@", text)
    return _NAMED.sub(rf"\1\2{HIDDEN}", text) if "=" in text else text


def own_folder(kind: Literal["cache", "state"]) -> Path:
    """$ESPALIER_CACHE or $ESPALIER_STATE, otherwise `espalier` in the user's XDG folder of that kind."""
    own = os.environ.get(f"ESPALIER_{kind.upper()}")
    shared = os.environ.get(f"XDG_{kind.upper()}_HOME") or Path.home() / _XDG_DEFAULTS[kind]
    return Path(own) if own else Path(shared) / "espalier"


def private_folder(folder: Path) -> Path:
    """Create the folder if it is missing and restrict it to this user. Raises OSError."""
    for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
        with contextlib.suppress(FileExistsError):
            missing.mkdir(mode=0o700)
    if os.name == "posix":
        facts = folder.stat()
        if facts.st_uid == os.getuid() and facts.st_mode & 0o077:
            folder.chmod(0o700)
    return folder
