"""The one way to write a file: whole or not at all, under its own name only when it is on the disk.

What the system refuses comes out as the caller's kind of EspalierError, in two sentences; the old file stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Generator
from pathlib import Path
from typing import IO

from espalier.model.errors import EspalierError, FileError
from espalier.model.leftovers import part_folder_in, part_in

Kind = type[EspalierError]
_HINTS = {
    errno.ENOSPC: "Free some space there, or choose another folder.",
    errno.EDQUOT: "Free some space there, or choose another folder.",
    errno.EFBIG: "Choose a folder that holds files of this size.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOENT: "Make the folder, or choose another.",
    errno.ENOTDIR: "Choose a folder that exists.",
    errno.EIO: "Check the drive, or choose another folder.",
    errno.ESTALE: "Check the network drive, or choose another folder.",
}
_HINT = "Choose a folder that may be written."
_RUST = re.compile(r"\(os error (\d+)\)")  # as safetensors tells an error of the system


@contextlib.contextmanager
def explained(path: Path | str, kind: Kind = FileError) -> Generator[None]:
    """Errors of the system while `path` is written, as `kind`."""
    try:
        yield
    except OSError as error:
        raise _told(path, error, kind) from error
    except Exception as error:  # safetensors has an error of its own, which imports here would be paid for by all
        if type(error).__name__ != "SafetensorError" or not (found := _RUST.search(str(error))):
            raise
        number = int(found[1])
        raise _told(path, OSError(number, os.strerror(number)), kind) from error


def _told(path: Path | str, error: OSError, kind: Kind) -> EspalierError:
    reason, other = _reason(error), error.filename2 or error.filename
    if isinstance(other, str) and not _is_of(Path(other), Path(path)):
        reason = f"{other}: {reason}"
    return kind(f"{path} could not be written ({reason}).", hint_of(error))


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def hint_of(error: OSError) -> str:
    """What to do about an error of the system."""
    return _HINTS.get(error.errno or 0, _HINT)


def told(error: OSError) -> FileError:
    """An error of the system that nobody else has put into words, in two sentences."""
    name = error.filename2 or error.filename
    where = f"{os.fsdecode(name)} could not be read or written" if isinstance(name, str | bytes) else "A file failed"
    return FileError(f"{where} ({_reason(error)}).", hint_of(error))


def _is_of(other: Path, path: Path) -> bool:
    """Whether a file is the one that is written, the folder it goes to, or what it is called meanwhile."""
    return any(".espalier-" in p for p in other.parts) or os.path.abspath(other) in (
        os.path.abspath(path), os.path.realpath(path), os.path.dirname(os.path.realpath(path)))  # fmt: skip


@contextlib.contextmanager
def placing(path: Path | str, kind: Kind = FileError, mode: int = 0o666) -> Generator[Path]:
    """A new file to be written by its name, which takes the place of `path` at the end."""
    with explained(path, kind):
        target = _target(Path(path), kind)
        with part_in(target.parent, mode) as part:
            yield part
            _like(target, part)
            sync(part)
            os.replace(part, target)
        sync_folder(target.parent)


@contextlib.contextmanager
def replacing(path: Path | str, kind: Kind = FileError, mode: int = 0o666) -> Generator[IO[bytes]]:
    """A handle to write to; at the end, what was written takes the place of `path`."""
    with placing(path, kind, mode) as part, part.open("r+b") as handle:
        yield handle
        handle.close()


def make_folder(path: Path, kind: Kind = FileError) -> None:
    """A folder, with those above it, unless it is there."""
    with explained(path, kind):
        path.mkdir(parents=True, exist_ok=True)


def check_target(path: Path | str, kind: Kind = FileError) -> None:
    """Raise `kind` where no file can be written, before hours are spent on what it shall hold."""
    with explained(path, kind), part_in(_target(Path(path), kind).parent):
        pass


def write_bytes(path: Path | str, data: bytes, kind: Kind = FileError, mode: int = 0o666) -> None:
    """A file of these bytes."""
    with replacing(path, kind, mode) as handle:
        handle.write(data)


def write_text(path: Path | str, text: str, kind: Kind = FileError, mode: int = 0o666) -> None:
    """A file of this text in UTF-8, its line ends as they are."""
    write_bytes(path, text.encode(), kind, mode)


def write_private(path: Path, text: str) -> None:
    """Write a file that this user alone may read; raises FileError, also where the path is a link."""
    if path.is_symlink():
        raise FileError(f"{path} is a link.", "Remove it.")
    if path.exists() and os.name == "posix":
        with contextlib.suppress(OSError):
            path.chmod(0o600)  # the new file takes over the mode of the old
    write_text(path, text, mode=0o600)


def append(path: Path | str, data: bytes, kind: Kind = FileError, mode: int = 0o666) -> None:
    """Add to a file all of `data` or nothing, synced; behind a line that a dead process left unfinished, a new one."""
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
    """A new folder to be filled, which takes the place of `path` and all in it at the end, in one go."""
    with explained(path, kind):
        target = Path(path).resolve()
        with part_folder_in(target.parent) as part:
            yield part
            _sync_tree(part)
            if target.exists():
                _swap(part, target)  # what `part` names now is the old one, which goes
            else:
                os.rename(part, target)
        sync_folder(target.parent)


@contextlib.contextmanager
def filling(path: Path | str, kind: Kind = FileError) -> Generator[Path]:
    """A new folder to be filled, whose files are moved into `path` when all are whole; others there stay."""
    target = Path(path).resolve()
    if not target.exists():
        with replacing_folder(target, kind) as part:
            yield part
        return
    with explained(path, kind):
        if not target.is_dir():
            raise kind(f"{path} is a file.", "Choose a folder.")
        with part_folder_in(target) as part:
            yield part
            _sync_tree(part)
            for file in sorted((p for p in part.rglob("*") if not p.is_dir()), reverse=True):  # x.data before x
                place = target / file.relative_to(part)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
        sync_folder(target)


def sync(path: Path) -> None:
    """Wait until a file is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where its system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync_tree(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            sync(Path(place, name))
        sync_folder(Path(place))


def _target(path: Path, kind: Kind) -> Path:
    """The file behind links; refuses what is no file, and a file that may not be written."""
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))
        facts = target.stat()
    except FileNotFoundError:
        return target
    except ValueError as error:  # a zero byte, or half a character
        raise kind(f"{str(path)!r} is no name of a file.", "Choose another name.") from error
    if stat.S_ISDIR(facts.st_mode):
        raise kind(f"{path} is a folder.", "Choose a file.")
    if not stat.S_ISREG(facts.st_mode):
        raise kind(f"{path} is a device or a pipe.", "Choose a file.")
    if not os.access(target, os.W_OK):
        with target.open("ab"):  # says why
            pass
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def _like(old: Path, new: Path) -> None:
    """Mode and owner of the file that goes."""
    if not old.exists():
        return
    shutil.copymode(old, new)
    if hasattr(os, "chown"):
        facts, own = old.stat(), new.stat()
        if (facts.st_uid, facts.st_gid) != (own.st_uid, own.st_gid):
            with contextlib.suppress(OSError):
                os.chown(new, facts.st_uid, facts.st_gid)


def _swap(new: Path, old: Path) -> None:
    """Exchange two folders in one go; where the system cannot, one after the other."""
    if _exchanged(new, old):
        return
    aside = new.with_name(f"{new.name}-old{new.suffix}")
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


def _exchanged(one: Path, other: Path) -> bool:
    import ctypes

    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2 if sys.platform == "linux" else None
    except (OSError, AttributeError):
        rename = None
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
