"""Records the files that the user's code reads while it creates a model; a cached model depends on them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from espalier.model.cache.files import WEIGHTS

PYTHON = (".py",)
_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("app", "kernels", "model", "passes", "verilog")
_OWN = (str(Path(__file__).parents[2]) + os.sep, *(str(_ROOT / name) + os.sep for name in _PACKAGES))
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/")
_HUBS = ("huggingface.co", "hf.co")  # downloads are read from files later
_OUTSIDE = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork")


@dataclass(slots=True)
class Watched:
    """`files` were read, `folders` listed. `unknown`: it also depends on another program or a network host."""

    files: set[str] = field(default_factory=set)  # type: ignore[assignment]
    folders: set[str] = field(default_factory=set)  # type: ignore[assignment]
    unknown: bool = False

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Record an audit event of Python."""
        if event == "open":
            self._opened(*args[:3])
        elif event in ("os.listdir", "os.scandir") and isinstance(args[0], str | os.PathLike):
            self.folders.add(os.path.abspath(os.fspath(args[0])))
        elif event == "socket.getaddrinfo":
            host = args[0].decode() if isinstance(args[0], bytes) else str(args[0])
            self.unknown |= not host.endswith(_HUBS)
        elif event in _OUTSIDE:
            self.unknown = True

    def _opened(self, path: Any, mode: Any, flags: Any) -> None:
        writes = any(c in (mode or "") for c in "wax+") or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
        if isinstance(path, str | bytes | os.PathLike) and not writes:
            self.files.add(os.path.abspath(os.fsdecode(path)))


_ACTIVE: list[Watched] = []


@cache
def _install() -> None:
    """Install the audit hook. Hooks cannot be removed, so there is a single one, installed at first use."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        for watched in _ACTIVE:
            watched.on_event(event, args)

    sys.addaudithook(hook)


@contextlib.contextmanager
def watching() -> Generator[Watched]:
    """Record the files read within the context; files opened by C libraries are not recorded."""
    _install()
    watched = Watched()
    _ACTIVE.append(watched)
    try:
        yield watched
    finally:
        _ACTIVE.remove(watched)


def read_files(watched: Watched, file: Path) -> set[Path]:
    """The user's files on which a model depends: read files, loaded modules, and weights in the same folders."""
    paths = {_source(p) for p in watched.files} | _modules()
    own = {p for p in paths if p.is_file() and not is_library(p)} | {file}
    weights = {other for folder in {p.parent for p in own} for other in _weights(folder)}
    return own | weights


def listed_folders(watched: Watched, file: Path) -> set[Path]:
    """Folders listed by the user's code, without those on Python's module path."""
    searched = {os.path.abspath(p or ".") for p in sys.path} | {str(file.parent)}
    folders = (Path(p) for p in watched.folders - searched)
    return {p for p in folders if p.is_dir() and not is_library(p)}


def _weights(folder: Path) -> list[Path]:
    """Files of weights in a folder; they are mostly read by C libraries, which are not recorded."""
    with contextlib.suppress(OSError):
        return [Path(e.path) for e in os.scandir(folder) if e.name.endswith(WEIGHTS) and e.is_file()]
    return []


def _source(path: str) -> Path:
    """The source file of compiled bytecode."""
    with contextlib.suppress(ValueError):
        return Path(importlib.util.source_from_cache(path))
    return Path(path)


def _modules() -> set[Path]:
    """Files of all loaded modules; those loaded earlier are not read again."""
    files = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    return {Path(f) for f in files if isinstance(f, str) and f.endswith(PYTHON)}


@cache
def _libraries() -> tuple[str, ...]:
    paths = {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.realpath(p) + os.sep for p in paths) + tuple(p + os.sep for p in paths)


def is_library(path: Path) -> bool:
    """Whether a file belongs to Python, an installed package, the system or Espalier, which versions identify."""
    text = str(path) + (os.sep if path.is_dir() else "")
    return text.startswith((*_libraries(), *_SYSTEM, *_OWN)) or f"{os.sep}site-packages{os.sep}" in text


def libraries() -> set[Path]:
    """The first file of each loaded package; an update of the package changes its time."""
    tops = [m for name, m in list(sys.modules.items()) if "." not in name]
    files = (getattr(m, "__file__", None) for m in tops)
    return {Path(f) for f in files if isinstance(f, str) and "site-packages" in f and Path(f).is_file()}
