"""Moves several files into a folder as one: whatever ends the program, a reader finds all old files, all new ones, or
a text in place of the file that it begins with. Other files of the folder stay.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from itertools import islice
from pathlib import Path

from espalier.model.leftovers import PREFIX, locked

INTERRUPTED = b"Espalier was ended while it replaced the files of this export. Export it again.\n"
MOST_OTHERS = 200  # files and folders that are carried along
Stale = Callable[[Path, Path], Iterable[str]]


def nothing(new: Path, old: Path) -> tuple[str, ...]:
    """No file is stale."""
    return ()


def renamed(part: Path, target: Path) -> bool:
    """Rename the new folder to a target that is missing or empty; False if there is another."""
    if part.parent != target.parent:
        return False
    try:
        os.rename(part, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def place(part: Path, target: Path, entry: Sequence[str], stale: Stale, *, replace: bool) -> None:
    """Move the files of a new folder into another; `replace`: in one step where that is possible."""
    with locked(target):
        _place(part, target, entry, stale, replace=replace)


def _place(part: Path, target: Path, entry: Sequence[str], stale: Stale, *, replace: bool) -> None:
    names = [file.relative_to(part) for file in sorted(part.rglob("*")) if not file.is_dir()]
    gone = {Path(name) for name in stale(part, target)}
    if replace and replaceable(target) and _carried(part, target, {*names, *gone}) and exchanged(part, target):
        _saved(part, target, {*names, *gone})
    else:
        _moved(part, target, names, [Path(name) for name in entry if Path(name) in names], gone)


def replaceable(folder: Path) -> bool:
    """Whether another folder may stand in place of this one: it is small, of this user, and no process works in it."""
    try:
        own = not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()
        names = list(islice((n for _, folders, files in os.walk(folder) for n in (*folders, *files)), MOST_OTHERS + 1))
    except OSError:
        return False
    others = any(name.startswith(PREFIX) for name in names)  # another program writes there
    if not own or others or len(names) > MOST_OTHERS or folder.is_mount() or not os.access(folder.parent, os.W_OK):
        return False
    return not any(work == folder or folder in work.parents for work in _working_folders())


def _working_folders() -> Generator[Path]:
    """The working folders of this process and, on Linux, of this user's others: they would be left in the old one."""
    with contextlib.suppress(OSError):
        yield Path.cwd()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # of another user, or ended
            yield Path(os.readlink(link))


def _carried(part: Path, target: Path, others: Collection[Path]) -> bool:
    """Whether all further files of the target are in the new folder, too, and it has the same owner and rights."""
    try:
        for old in sorted(target.rglob("*")):
            new, inside = part / old.relative_to(target), old.is_dir() and not old.is_symlink()
            if inside and not new.exists():
                new.mkdir()
                shutil.copystat(old, new)
            if not inside and old.relative_to(target) not in others:
                os.link(old, new, follow_symlinks=False)
        shutil.copystat(target, part)
        os.utime(part)
        facts, own = target.stat(), part.stat()
        return (facts.st_uid, facts.st_gid, facts.st_mode) == (own.st_uid, own.st_gid, own.st_mode)
    except (OSError, NotImplementedError):  # a system without links, or a file of another user
        return False


def _saved(old: Path, target: Path, others: Collection[Path]) -> None:
    """Move what another program wrote into the old folder while it was replaced."""
    for file in old.rglob("*"):
        new = target / file.relative_to(old)
        if not file.is_dir() and file.relative_to(old) not in others and not _same(file, new):
            new.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, new)


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(one.lstat(), other.lstat())
    return False


def _moved(part: Path, target: Path, names: Sequence[Path], entry: Sequence[Path], gone: Collection[Path]) -> None:
    """Move the files one by one."""
    if len(names) + len(gone) > 1:
        for name in entry:
            mark = part / f"{name.name}.interrupted"
            mark.write_bytes(INTERRUPTED)
            os.replace(mark, target / name)
    for name in gone:
        (target / name).unlink(missing_ok=True)
    for name in (*(n for n in reversed(names) if n not in entry), *entry):  # x.data before x
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(part / name, target / name)


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system cannot."""
    import ctypes

    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2 if sys.platform == "linux" else None
    except (OSError, AttributeError):
        rename = None
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
