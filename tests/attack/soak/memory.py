"""Which memory a process holds: by kind of region, by allocator, and by class of the objects that live.

None of it makes Python objects for widgets: QObjects are counted from the text that Qt writes of its own tree.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, qInstallMessageHandler

from tests.attack.soak.inner import windows

REGION = re.compile(r"^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+ *(.*)$")
PYTHON = re.compile(r"^# (arenas allocated current|bytes in allocated blocks) *= *([\d,]+)", re.MULTILINE)
MEBI = 1 << 20
MOST = 60  # classes of which the numbers are listed


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc from 2.33 on."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                                     "fsmblks", "uordblks", "fordblks", "keepcost")]  # fmt: skip


def regions() -> dict[str, float]:
    """Resident MiB by kind of mapping; empty where the system does not tell."""
    found, kind = Counter[str](), ""
    with contextlib.suppress(OSError):
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
    """MiB that Python's allocator and glibc have handed out, hold free, or mapped for single large blocks."""
    with _written() as text:
        sys._debugmallocstats()
    figures = {name: int(value.replace(",", "")) for name, value in PYTHON.findall("".join(text))}
    found = {"python used": figures.get("bytes in allocated blocks", 0) / MEBI,
             "python arenas": figures.get("arenas allocated current", 0)}  # fmt: skip
    library = ctypes.CDLL(None)
    if hasattr(library, "mallinfo2"):
        library.mallinfo2.restype = _Mallinfo
        info = library.mallinfo2()
        found |= {"glibc used": info.uordblks / MEBI, "glibc free": info.fordblks / MEBI,
                  "glibc mapped": info.hblkhd / MEBI}  # fmt: skip
    return {name: round(value, 2) for name, value in found.items()}


@contextlib.contextmanager
def _written() -> Iterator[list[str]]:
    """What C code writes to the standard error meanwhile, once it is over."""
    text = list[str]()
    sys.stderr.flush()
    with tempfile.TemporaryFile("w+b") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            text.append(file.read().decode(errors="replace"))


def qt_objects(*roots: QObject) -> Counter[str]:
    """QObjects by class, of all windows and of `roots`."""
    lines = list[str]()

    def take(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        lines.append(text)

    before = qInstallMessageHandler(take)
    try:
        for top in [*windows(), *roots]:
            if top.parent() is None:
                top.dumpObjectTree()
    finally:
        qInstallMessageHandler(before)
    return Counter(line.strip().split("::")[0] for line in lines if line.strip())


def descriptors() -> list[str]:
    """What each descriptor of this process is."""
    found = list[str]()
    with contextlib.suppress(OSError):
        for path in sorted(Path("/proc/self/fd").iterdir(), key=lambda p: int(p.name)):
            with contextlib.suppress(OSError):  # that of the listing itself
                found.append(str(path.readlink()))
    return found


def caches() -> dict[str, int]:
    """How many entries each function of ours has cached."""
    found = dict[str, int]()
    for name, module in list(sys.modules.items()):
        for key, value in list(vars(module).items()) if name.startswith("espalier.") else ():
            if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == name:
                found[f"{name}.{key}"] = value.cache_info().currsize
    return found


def pool_threads() -> int:
    """How many threads of Qt's pools live, by the name that Qt gives them; 0 where the system does not tell."""
    names = list[str]()
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            names.append(path.read_text().strip())
    return names.count("Thread (pooled)")


def details(*roots: QObject) -> dict[str, Any]:
    """All of these figures; a line of a file that tells which memory grows."""
    classes = Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())
    return {"regions": regions(), "allocators": allocators(), "modules": len(sys.modules),
            "qt": dict(qt_objects(*roots).most_common(MOST)), "python": dict(classes.most_common(MOST)),
            "open_files": descriptors(), "caches": caches()}  # fmt: skip
