"""Atomic writing of files and folders: data are synced before they replace the old file.

Errors of the system are converted to the caller's subclass of EspalierError; the old file is unchanged then.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO

from espalier.model.errors import EspalierError, FileError
from espalier.model.filled import Stale, exchanged, nothing, place, renamed, replaceable
from espalier.model.leftovers import clear_parts, part_folder_in, part_in

Kind = type[EspalierError]
_HINTS = {
    errno.ENOSPC: "Free some space there or choose another folder.",
    errno.EDQUOT: "Free some space there or choose another folder.",
    errno.EFBIG: "Choose a folder whose file system supports files of this size.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOENT: "Create the folder or choose another.",
    errno.ENOTDIR: "Choose a folder that exists.",
    errno.EIO: "Check the drive or choose another folder.",
    errno.ESTALE: "Check the network drive or choose another folder.",
}
_HINT = "Choose a writable folder."
_RUST = re.compile(r"\(os error (\d+)\)")  # the form of system errors in safetensors


@contextlib.contextmanager
def explained(path: Path | str, kind: Kind = FileError) -> Generator[None]:
    """Convert errors of the system while `path` is written to `kind`."""
    try:
        yield
    except OSError as error:
        raise _error(path, error, kind) from error
    except Exception as error:  # SafetensorError; importing it here would slow down every start
        if type(error).__name__ != "SafetensorError" or not (match := _RUST.search(str(error))):
            raise
        number = int(match[1])
        raise _error(path, OSError(number, os.strerror(number)), kind) from error


def _error(path: Path | str, error: OSError, kind: Kind) -> EspalierError:
    reason, other = _reason(error), error.filename2 or error.filename
    if isinstance(other, str) and not _is_of(Path(other), Path(path)):
        reason = f"{other}: {reason}"
    return kind(f"{path} could not be written ({reason}).", hint_of(error))


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def hint_of(error: OSError) -> str:
    """The hint for an error of the system."""
    return _HINTS.get(error.errno or 0, _HINT)


def file_error(error: OSError) -> FileError:
    """Convert an unhandled error of the system to FileError."""
    name = error.filename2 or error.filename
    where = (
        f"{os.fsdecode(name)} could not be read or written"
        if isinstance(name, str | bytes)
        else "A file could not be accessed"
    )
    return FileError(f"{where} ({_reason(error)}).", hint_of(error))


def _is_of(other: Path, path: Path) -> bool:
    """Whether `other` is the written file, its folder or its temporary file."""
    return any(".espalier-" in p for p in other.parts) or os.path.abspath(other) in (
        os.path.abspath(path), os.path.realpath(path), os.path.dirname(os.path.realpath(path)))  # fmt: skip


@contextlib.contextmanager
def placing(path: Path | str, kind: Kind = FileError, mode: int = 0o666) -> Generator[Path]:
    """Yield the path of a new file, which replaces `path` at the end."""
    with explained(path, kind):
        target = _target(Path(path), kind)
        with part_in(target.parent, mode) as part:
            yield part
            _copy_mode(target, part)
            sync(part)
            os.replace(part, target)
        sync_folder(target.parent)


@contextlib.contextmanager
def replacing(path: Path | str, kind: Kind = FileError, mode: int = 0o666) -> Generator[IO[bytes]]:
    """Yield a handle of a new file, which replaces `path` at the end."""
    with placing(path, kind, mode) as part, part.open("r+b") as handle:
        yield handle
        handle.close()


def make_folder(path: Path, kind: Kind = FileError) -> None:
    """Create a folder and its parents if they are missing."""
    with explained(path, kind):
        path.mkdir(parents=True, exist_ok=True)


def check_target(path: Path | str, kind: Kind = FileError) -> None:
    """Raise `kind` if `path` cannot be written; to be called before long computations."""
    with explained(path, kind), part_in(_target(Path(path), kind).parent):
        pass


def write_bytes(path: Path | str, data: bytes, kind: Kind = FileError, mode: int = 0o666) -> None:
    """Write bytes to a file."""
    with replacing(path, kind, mode) as handle:
        handle.write(data)


def write_text(path: Path | str, text: str, kind: Kind = FileError, mode: int = 0o666) -> None:
    """Write a text to a file in UTF-8, with unchanged line ends."""
    write_bytes(path, text.encode(), kind, mode)


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read. Raises FileError, also if the path is a link."""
    if path.is_symlink():
        raise FileError(f"{path} is a link.", "Remove it.")
    if path.exists() and os.name == "posix":
        with contextlib.suppress(OSError):
            path.chmod(0o600)  # the new file inherits the mode of the old one
    write_text(path, text, mode=0o600)


def append(path: Path | str, data: bytes, kind: Kind = FileError, mode: int = 0o666) -> None:
    """Append `data` to a file, completely or not at all, and sync; starts a new line after an incomplete one."""
    with explained(path, kind):
        target = _target(Path(path), kind)
        handle = os.open(target, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), mode)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n" if hasattr(os, "pread") else False
            _write_all(handle, b"\n" * torn + data, size)
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes, size: int) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


@contextlib.contextmanager
def replacing_folder(path: Path | str, kind: Kind = FileError) -> Generator[Path]:
    """Yield a new folder, which atomically replaces `path` and its contents at the end."""
    with explained(path, kind):
        target = Path(path).resolve()
        with part_folder_in(target.parent) as part:
            yield part
            sync_tree(part)
            if target.exists():
                _swap(part, target)  # `part` is now the old folder and will be deleted
            else:
                os.rename(part, target)
        sync_folder(target.parent)


@contextlib.contextmanager
def filling(
    path: Path | str, kind: Kind = FileError, entry: Sequence[str] = (), stale: Stale = nothing,
    *, whole: bool = False,
) -> Generator[Path]:  # fmt: skip
    """Yield a new folder, whose files are moved into `path` at the end; other files there are unchanged.

    entry: names of the files with which readers begin. Where files are moved one by one, they come last, and hold
    INTERRUPTED until then. stale: (new folder, `path`) → names in `path` of files that do not go with the new ones and
    are removed; it may raise. whole: the folder is one export; where the system can, it is replaced in one step.
    Of programs that write at once, each moves its files before or after the other. Raises `kind`.
    """
    target = Path(path).resolve()
    with explained(path, kind):
        if target.exists() and not target.is_dir():
            raise kind(f"{path} is a file.", "Choose a folder.")
        beside = not target.exists() or (whole and replaceable(target))
        for folder in (target, target.parent):
            clear_parts(folder)
        with part_folder_in(target.parent if beside else target) as part:
            yield part
            sync_tree(part)
            if not renamed(part, target):
                place(part, target, entry, stale, replace=beside and whole)
        sync_folder(target)
        sync_folder(target.parent)


def sync(path: Path) -> None:
    """Sync a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_tree(folder: Path) -> None:
    """Sync the files and folders in a folder."""
    for root, _, names in os.walk(folder):
        for name in names:
            sync(Path(root, name))
        sync_folder(Path(root))


def _target(path: Path, kind: Kind) -> Path:
    """The target of links. Raises `kind` for anything but a file, OSError for a read-only file."""
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))
        facts = target.stat()
    except FileNotFoundError:
        return target
    except ValueError as error:  # a zero byte or an invalid character
        raise kind(f"{str(path)!r} is not a valid file name.", "Choose another name.") from error
    if stat.S_ISDIR(facts.st_mode):
        raise kind(f"{path} is a folder.", "Choose a file.")
    if not stat.S_ISREG(facts.st_mode):
        raise kind(f"{path} is a device or a pipe.", "Choose a file.")
    if not os.access(target, os.W_OK):
        with target.open("ab"):  # raises the reason
            pass
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _copy_mode(old: Path, new: Path) -> None:
    """Copy mode and owner of the replaced file."""
    if not old.exists():
        return
    shutil.copymode(old, new)
    if hasattr(os, "chown"):
        facts, own = old.stat(), new.stat()
        if (facts.st_uid, facts.st_gid) != (own.st_uid, own.st_gid):
            with contextlib.suppress(OSError):
                os.chown(new, facts.st_uid, facts.st_gid)


def _swap(new: Path, old: Path) -> None:
    """Exchange two folders, atomically if the system supports it."""
    if exchanged(new, old):
        return
    aside = new.with_name(f"{new.name}-old{new.suffix}")
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    os.rename(aside, new)
