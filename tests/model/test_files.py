"""A file is its old or its new content, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.model import files
from espalier.model.errors import ExportError, FileError
from espalier.model.leftovers import Scratch, clear_parts, clear_scratch, part_in


def rest(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


def test_new_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "one\r\n")
    assert path.read_bytes() == b"one\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    path.chmod(0o640)
    files.write_bytes(path, b"two")
    assert path.read_bytes() == b"two" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert rest(tmp_path) == []


def _umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_failure_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ExportError) as caught, files.replacing(path, ExportError) as handle:
        handle.write(b"new")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.message == f"{path} could not be written (No space left on device)."
    assert caught.value.hint == "Free some space there or choose another folder."
    assert path.read_text() == "old" and rest(tmp_path) == []
    with pytest.raises(KeyError), files.replacing(path):
        raise KeyError("a bug is not the disk's fault")
    assert path.read_text() == "old" and rest(tmp_path) == []


def test_other_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileError, match=r"a could not be written \(/nowhere/at/all: No such file"),
        files.replacing(tmp_path / "a"),
    ):
        Path("/nowhere/at/all").read_bytes()


@pytest.mark.parametrize("target", ["fifo", "folder", "folder/none/x", "x" * 300, "a\0b"])
def test_refused(target: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    for act in (files.write_bytes, files.append):
        with pytest.raises(FileError) as caught:
            act(tmp_path / target, b"x")
        assert caught.value.message.endswith(".") and caught.value.hint.endswith(".")
    assert sorted(os.listdir(tmp_path)) == before


def test_device_is_refused(tmp_path: Path) -> None:
    """A node of its own: a fault here must not take the system's."""
    node, link = tmp_path / "null", tmp_path / "link"
    try:
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError as error:
        pytest.skip(f"no device can be made here ({error.strerror})")
    link.symlink_to(node)
    for act in (files.write_bytes, files.append):
        for target in (node, link):
            with pytest.raises(FileError, match="is a device or a pipe"):
                act(target, b"x")
    assert node.is_char_device() and link.is_symlink()


def test_no_room(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    files.append(path, b"first\n")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, old[1]))
    try:
        for act in (files.append, files.write_bytes):
            with pytest.raises(FileError, match="File too large"):
                act(path, b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert path.read_bytes() == b"first\n" and rest(tmp_path) == []


def test_append_after_a_torn_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"whole\ntor")
    files.append(tmp_path / "a", b"next\n")
    assert (tmp_path / "a").read_bytes() == b"whole\ntor\nnext\n"


@pytest.mark.parametrize("swaps", [True, False])
def test_folder(swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not swaps:
        monkeypatch.setattr(files, "exchanged", lambda *_: False)
    target = tmp_path / "out"
    for number in range(2):
        with files.replacing_folder(target) as part:
            (part / f"f{number}").write_text("x")
        assert [p.name for p in target.iterdir()] == [f"f{number}"]
    with pytest.raises(FileError), files.replacing_folder(target) as part:
        raise OSError(errno.EIO, "Input/output error")
    with files.filling(target) as part:
        (part / "in").mkdir()
        (part / "in" / "more").write_text("x")
    assert sorted(p.name for p in target.rglob("*")) == ["f1", "in", "more"] and rest(tmp_path) == []


HOLD = """
import sys, time
from pathlib import Path
from espalier.model.leftovers import Scratch, part_folder_in, part_in
with part_in(Path(sys.argv[1])), part_folder_in(Path(sys.argv[1])):
    made = Scratch()
    print(made.folder, flush=True)
    time.sleep(60)
"""


def test_what_the_dead_left_goes(tmp_path: Path) -> None:
    root = Path(files.__file__).parents[1]
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert clear_parts(tmp_path) == 0 and len(rest(tmp_path)) == 2 and folder.is_dir()
        child.kill()
    with part_in(tmp_path) as own:
        assert rest(tmp_path) == [own.name]
        assert clear_parts(tmp_path) == 0
    clear_scratch()
    assert rest(tmp_path) == [] and not folder.exists()


def test_scratch_is_not_cleared_while_held() -> None:
    made = Scratch()
    clear_scratch()
    assert made.folder.is_dir()
    made.close()
    assert not made.folder.exists()


def test_cost(tmp_path: Path) -> None:
    """A small file is written in milliseconds: every edit may write one."""
    taken: list[float] = []
    for _ in range(20):
        begun = time.perf_counter()
        files.write_bytes(tmp_path / "a", b"x" * 1000)
        taken.append(time.perf_counter() - begun)
    assert min(taken) < 0.1, "whatever else the machine does in the other 19"
