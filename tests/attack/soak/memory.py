"""Which kind of memory a process holds: by region, by allocator, and by class of the objects that live.

Nothing here makes Python objects for widgets: QObjects are counted from the text that Qt writes of its own tree.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

REGION = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)$")
FIGURE = re.compile(r"^# (arenas allocated current|bytes in allocated blocks) *= *([\d,]+)", re.MULTILINE)
MEBI = 1 << 20


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc ≥ 2.33."""

    _fields_ = [(name, ctypes.c_size_t) for name in
                ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]]  # fmt: skip


def regions() -> dict[str, float]:
    """Resident MiB by kind of mapping: heap, anonymous, stacks, code and data of libraries, other files."""
    found, kind = Counter[str](), ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if head := REGION.match(line):
            kind = _kind(head[1], head[2])
        elif line.startswith("Rss:"):
            found[kind] += int(line.split()[1])
    return {name: round(size / 1024, 2) for name, size in found.items()}


def _kind(rights: str, name: str) -> str:
    if name.startswith("[") or not name:
        return "heap" if name == "[heap]" else "stack" if name.startswith("[stack") else "anonymous"
    if ".so" in name or "/bin/" in name:
        return "library code" if "x" in rights else "library data" if "w" in rights else "library constants"
    return "other files"


def allocators() -> dict[str, float]:
    """MiB that glibc and Python's own allocator hold and use; where glibc is not there, only Python's."""
    found = {}
    with contextlib_fd() as text:
        sys._debugmallocstats()
    figures = {name: int(value.replace(",", "")) for name, value in FIGURE.findall(text())}
    found["python used"] = figures.get("bytes in allocated blocks", 0) / MEBI
    found["python arenas"] = figures.get("arenas allocated current", 0)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = _Mallinfo
        info = libc.mallinfo2()
        found |= {"glibc used": info.uordblks / MEBI, "glibc free": info.fordblks / MEBI,
                  "glibc mapped": info.hblkhd / MEBI}  # fmt: skip
    return {name: round(value, 2) for name, value in found.items()}


class contextlib_fd:
    """What C code writes to the standard error."""

    def __enter__(self):
        sys.stderr.flush()
        self._file, self._kept = tempfile.TemporaryFile("w+b"), os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self._text

    def __exit__(self, *found: object) -> None:
        os.dup2(self._kept, 2)
        os.close(self._kept)
        self._file.seek(0)
        self._read = self._file.read().decode(errors="replace")
        self._file.close()

    def _text(self) -> str:
        return self._read


def trim() -> None:
    """Give back what glibc keeps without using it."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def widgets(*roots: QObject) -> Counter[str]:
    """QObjects by class, of all windows and of `roots`, as Qt itself counts them."""
    lines = list[str]()

    def take(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        lines.append(text)

    before = qInstallMessageHandler(take)
    try:
        for top in [*QApplication.topLevelWidgets(), *roots]:
            if top.parent() is None:
                top.dumpObjectTree()
    finally:
        qInstallMessageHandler(before)
    return Counter(line.strip().split("::")[0] for line in lines if line.strip())


def python_objects() -> Counter[str]:
    """What the collector tracks, by class; what is frozen, too."""
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def descriptors() -> list[str]:
    """What each descriptor of this process is."""
    found = []
    for path in sorted(Path("/proc/self/fd").iterdir(), key=lambda p: int(p.name)):
        try:
            found.append(re.sub(r"\d{3,}", "N", str(path.readlink())))
        except OSError:
            continue  # that of the listing itself
    return found
