"""The texts that were run, over sessions, in a file that only the user can read. Free of Qt."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from espalier.model.private import redacted

MOST = 1000  # texts that are kept
LONGEST = 20_000  # characters of a text that is kept


class History:
    """Walks through the texts. `path`: the file, or None; it is appended to, so that two windows can share it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.texts = self._read()
        self._at = len(self.texts)
        self._draft = ""

    def _read(self) -> list[str]:
        """The texts of the file, which is cut where it has grown to twice the limit; lines of another kind are left."""
        if self._path is None:
            return []
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        texts = [t for line in lines if isinstance(t := _parsed(line), str)]
        if len(lines) > 2 * MOST:
            self._write(texts[-MOST:], os.O_TRUNC)
        return texts[-MOST:]

    def _write(self, texts: list[str], flag: int) -> None:
        """A history that cannot be written is one of this session."""
        assert self._path is not None
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o600)
            with os.fdopen(handle, "a" if flag & os.O_APPEND else "w", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(t)}\n" for t in texts))

    def add(self, text: str) -> None:
        """Add a text, unless it is the last one; passwords in URLs are not stored."""
        if text.strip() and (not self.texts or self.texts[-1] != text):
            self.texts.append(text)
            if self._path is not None and len(text) <= LONGEST:
                self._write([redacted(text)], os.O_APPEND)
        self._at, self._draft = len(self.texts), ""

    def step(self, by: int, text: str) -> str | None:
        """The text `by` steps on, None at the ends; the one being written comes back behind the last."""
        at = self._at + by
        if not 0 <= at <= len(self.texts):
            return None
        if self._at == len(self.texts):
            self._draft = text
        self._at = at
        return self._draft if at == len(self.texts) else self.texts[at]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
