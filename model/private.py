"""What others are not to read: passwords in texts, and files of the program's own on a shared machine."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from model.errors import FileError
from model.files import write_text

# The last @ of a word ends its password: one that holds an @ or a / is hidden whole.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@'\"]{0,200}):\S{0,2000}@")
_NAMED = re.compile(r"(?i)\b((?:pg)?pass(?:word|wd)|espalier_token|api_?key)(\s*=\s*)"
                    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s&,;\"')\]}]+)")  # fmt: skip
HIDDEN = "…"


def redacted(text: str) -> str:
    """The text without passwords: of URLs (`postgresql://me:…@host/db`) and behind `password=` and its like."""
    if "://" in text and "@" in text:
        text = _URL.sub(rf"\1:{HIDDEN}@", text)
    return _NAMED.sub(rf"\1\2{HIDDEN}", text) if "=" in text else text


def private_folder(folder: Path) -> Path:
    """The folder, made if need be, for this user alone; raises OSError."""
    for missing in reversed([p for p in (folder, *folder.parents) if not p.exists()]):
        with contextlib.suppress(FileExistsError):
            missing.mkdir(mode=0o700)
    if os.name == "posix":
        facts = folder.stat()
        if facts.st_uid == os.getuid() and facts.st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def write_private(path: Path, text: str) -> None:
    """Write a file that this user alone may read; raises FileError, also where the path is a link."""
    if path.is_symlink():
        raise FileError(f"{path} is a link.", "Remove it.")
    if path.exists() and os.name == "posix":
        with contextlib.suppress(OSError):
            path.chmod(0o600)  # the new file takes over the mode of the old
    write_text(path, text, mode=0o600)
