"""Files that are moved into a folder together, ended by a kill at each of their steps, and beside other programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from espalier.model import files, filled, leftovers
from espalier.model.errors import ExportError

ENTRY = ("config.json",)
OLD = {"config.json": "old", "model.safetensors": "old", "graph.json": "old", "mine.txt": "mine"}
NEW = {"config.json": "new", "model.safetensors": "new", "vocab.txt": "new", "adapter/w": "new", "mine.txt": "mine"}
STEPS = ("replace", "rename", "unlink", "link", "mkdir", "utime", "rmdir")


def fill(folder: Path, *, whole: bool, value: str = "new") -> None:
    with files.filling(folder, ExportError, ENTRY, lambda new, old: ["graph.json"], whole=whole) as part:
        (part / "adapter").mkdir()
        for name in (n for n in NEW if n != "mine.txt"):
            (part / name).write_text(value)


def content(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def begin(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in OLD.items():
        (folder / name).write_text(text)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do it in a fork that is killed before its system call of this number; returns whether it was."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    try:
        left = step

        def counted(real: Any) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **options)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        files.exchanged = filled.exchanged = counted(filled.exchanged)
        work()
    finally:
        os._exit(0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.slow
def test_a_kill_leaves_the_old_or_the_new(whole: bool, tmp_path: Path) -> None:
    """Moved one by one, the first file says that the export was ended."""
    marked, states = 0, set[str]()
    for step in range(100):
        folder = tmp_path / str(step) / "out"
        begin(folder)
        ended = killed_at(step, lambda folder=folder: fill(folder, whole=whole))
        now = {k: v for k, v in content(folder).items() if ".espalier-" not in k}
        assert now["mine.txt"] == "mine"
        marked += now.get("config.json") == filled.INTERRUPTED.decode()
        if now["config.json"] != filled.INTERRUPTED.decode():
            assert now in (OLD, NEW), step
            states.add(now["config.json"])
        fill(folder, whole=whole)
        assert content(folder) == NEW, "and the next run clears what was left"
        assert [p.name for p in folder.parent.iterdir()] == ["out"]
        if not ended:
            break
    else:
        pytest.fail("it never came to its end")
    assert states == {"old", "new"} and bool(marked) != whole and step > 5


def test_a_folder_where_somebody_works_stays_the_same(tmp_path: Path) -> None:
    begin(tmp_path / "out")
    before = (tmp_path / "out").stat().st_ino
    with subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path / "out", stdin=subprocess.PIPE) as child:
        fill(tmp_path / "out", whole=True)
        child.communicate(b"\n")
    assert (tmp_path / "out").stat().st_ino == before and content(tmp_path / "out") == NEW
    fill(tmp_path / "out", whole=True)
    assert (tmp_path / "out").stat().st_ino != before and content(tmp_path / "out") == NEW


def test_other_files_stay_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    begin(folder)
    (folder / "runs").mkdir()
    (folder / "runs" / "log").write_text("mine")
    (folder / "link").symlink_to("mine.txt")
    folder.chmod(0o750)
    before = [(folder / name).stat().st_ino for name in ("mine.txt", "runs/log")]
    fill(folder, whole=True)
    assert [(folder / name).stat().st_ino for name in ("mine.txt", "runs/log")] == before
    assert (folder / "link").is_symlink() and (folder / "link").read_text() == "mine"
    assert folder.stat().st_mode & 0o777 == 0o750 and not (folder / "graph.json").exists()


def test_what_is_written_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real = tmp_path / "out", filled.exchanged
    begin(folder)

    def slow(one: Path, other: Path) -> bool:
        (other / "more.txt").write_text("mine")
        (other / "new").write_text("other")
        os.replace(other / "new", other / "mine.txt")
        return real(one, other)

    monkeypatch.setattr(filled, "exchanged", slow)
    fill(folder, whole=True)
    assert content(folder) == {**NEW, "mine.txt": "other", "more.txt": "mine"}


def test_a_working_folder_is_filled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process holds its lock, for which no other call waits."""
    monkeypatch.setattr(leftovers, "WAIT", 60.0)
    begun = time.monotonic()
    with leftovers.scratch() as folder:
        fill(folder, whole=False)
        assert content(folder)["config.json"] == "new"
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("whole", [True, False])
def test_programs_that_write_at_once(whole: bool, tmp_path: Path) -> None:
    """Each folder is that of one of them."""
    for number in range(20):
        folder, values = tmp_path / str(number), ["a", "b", "c"]
        if number % 2:
            begin(folder)
        threads = [threading.Thread(target=fill, args=(folder,), kwargs={"whole": whole, "value": v}) for v in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({v for k, v in content(folder).items() if k != "mine.txt"}) == 1
        assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []
