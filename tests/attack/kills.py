"""kill -9 at random moments of a sweep, a search, its workers, a training and exports, each gone on with to its end.

    python -m tests.attack.kills [--kills 200] [--kinds sweep,search,worker,training,crew,openvino] [--seed 0]

Held after every kill: all files can be read, nothing that was told as finished is missing, and no process that the
dead one started lives 5 s later. Held after every run that comes to its end: the result is that of an unbroken run,
and nothing is left of those that died. Commands run in forks of one process that has imported all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

SOURCE = "demo:digits-mlp"
POINTS, TRIALS = 12, 10
ORPHANS = 5.0  # seconds after which none may live
RECIPE = """
[[steps]]
pass = "prune"
options = {sparsity = 0.1, method = "random"}
"""
TUNE = """
[[steps]]
pass = "finetune"
[steps.options]
data = "demo:digits"
max_steps = 400
train_limit = 512
validation_limit = 64
checkpoint_every = 10
"""
SPEC = f"""
goals = ["accuracy", "weight_bits"]
sampler = "random"
trials = {TRIALS}
[[space]]
per = "module"
values = "integer(width=2|3|4|5|6|7|8)"
[score]
limit = 200
"""


@dataclass
class Run:
    """A command in a fork: its process, and where it says what it does."""

    pid: int
    log: Path
    code: int | None = None

    def said(self) -> str:
        """What it told so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def ended(self) -> bool:
        """Whether it came to its end by itself."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def kill(self) -> list[psutil.Process]:
        """End it as a crash would; returns the processes that it had started."""
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self.pid).children(recursive=True)
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)
            return below
        return []


def begin(words: list[str], folder: Path, modules: Path | None = None) -> Run:
    """Start a command with its state and temporary files below `folder`."""

    def work() -> int:
        from espalier.app.cli import main

        code = main(words)
        if modules:
            modules.write_text("\n".join(sys.modules))
        return code

    return fork(work, folder)


def fork(work: Callable[[], int], folder: Path) -> Run:
    """Do it in a process of its own, with its state and temporary files below `folder`."""
    log = folder / "log"
    pid = os.fork()
    if pid:
        return Run(pid, log)
    code = 99
    try:
        os.setsid()
        sys.stdout.flush()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 2)
        os.dup2(os.open(folder / "answer", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        for name in ("tmp", "state"):
            (folder / name).mkdir(exist_ok=True)
        os.environ.update({"TMPDIR": str(folder / "tmp"), "ESPALIER_STATE": str(folder / "state")})
        tempfile.tempdir = None
        code = work()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001  # a fork that went on would be a second harness
        traceback.print_exc()
    finally:
        os._exit(code)


@dataclass
class Tally:
    """What came of one kind."""

    kills: int = 0
    amid: int = 0  # of them, with something finished on disk
    whole: int = 0  # runs that came to their end
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds until the last orphan was gone


class Kind(ABC):
    """A command, what must hold after a kill, and what must hold at its end."""

    name = ""
    files: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: Path) -> None:
        self.folder, self.known, self.expected = folder, 0, ""

    def renew(self) -> None:
        """An empty folder with what the command reads."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.known = 0
        for name, text in self.files.items():
            (self.folder / name).write_text(text)

    @abstractmethod
    def words(self) -> list[str]:
        """The command."""

    @abstractmethod
    def stored(self) -> int:
        """How much is finished by what is on disk; raises where that cannot be read."""

    @abstractmethod
    def result(self) -> str:
        """What an unbroken run would have given as well."""

    def told(self, said: str) -> int:
        """How much the run has told as finished: `[3/12] …` is told when the third is on disk."""
        return max((int(n) for n in re.findall(r"^\[(\d+)/\d+\]", said, re.M)), default=0)

    def after_kill(self, said: str) -> list[str]:
        """What is wrong."""
        try:
            count = self.stored()
        except Exception as error:  # noqa: BLE001  # whatever it is, a file cannot be read
            return [f"unreadable: {type(error).__name__}: {error}"]
        before, self.known = self.known, max(self.known, count, self.told(said))
        lost = self.known - count
        return [f"{lost} finished lost (told {self.told(said)}, known {before}, on disk {count})"] if lost > 0 else []

    def at_once(self) -> list[str]:
        """What is wrong after two commands that wrote to one place at once; nothing for kinds that do not."""
        return []

    def after_end(self) -> list[str]:
        """What is wrong with a whole result, and what is left of the dead."""
        found, result = list[str](), self.result()
        self.expected = self.expected or result
        if result != self.expected:
            found.append(f"another result: {result[:200]} instead of {self.expected[:200]}")
        return found + self.left()

    def left(self) -> list[str]:
        """Partial files and scratch that are still there."""
        left = [p for p in self.folder.rglob("*") if p.name.startswith((".espalier-", "espalier-"))]
        left += [p for p in (self.folder / "tmp").iterdir() if p not in left and not p.name.startswith("torchinductor")]
        return [f"left: {p.relative_to(self.folder)}" for p in left]


class Sweep(Kind):
    """`sweep -o t.csv`, whose record lies beside it until it is done."""

    name, files = "sweep", MappingProxyType({"r.toml": RECIPE})

    def words(self) -> list[str]:
        over = f"prune.sparsity={','.join(str(round(0.05 * (i + 1), 2)) for i in range(POINTS))}"
        return ["sweep", SOURCE, str(self.folder / "r.toml"), "--over", over, "--limit", "300", "-o",
                str(self.folder / "t.csv")]  # fmt: skip

    def stored(self) -> int:
        from espalier.passes.sweep import journal

        record = self.folder / "t.csv.jsonl"
        if (self.folder / "t.csv").exists():
            assert (self.folder / "t.csv").read_bytes().endswith(b"\n")
            return POINTS + 1  # and the baseline
        if not record.exists():
            return 0
        found = journal.read(record)
        assert found is not None, "the record cannot be read"
        return len(found.outcomes)

    def result(self) -> str:
        lines = (self.folder / "t.csv").read_text().splitlines()
        assert not (self.folder / "t.csv.jsonl").exists()
        at = lines[0].split(",").index("accuracy")
        return f"{len(lines)} {[line.split(',')[at] for line in lines]}"


class Search(Kind):
    """`search -o t.espalier`, whose journal lies beside it until it is done."""

    name, files = "search", MappingProxyType({"s.toml": SPEC})
    more: tuple[str, ...] = ()

    def words(self) -> list[str]:
        return ["search", SOURCE, str(self.folder / "s.toml"), "-o", str(self.folder / "t.espalier"), "--resume",
                *self.more]  # fmt: skip

    @property
    def journal(self) -> Path:
        return self.folder / "t.espalier.journal"

    def stored(self) -> int:
        project = self.folder / "t.espalier"
        if project.exists():
            with zipfile.ZipFile(project) as archive:
                assert archive.testzip() is None
                if not self.journal.exists():
                    assert any(n.startswith("studies/") for n in archive.namelist()), "no study in the project"
                    return TRIALS
        return len(self._ended()) if self.journal.exists() and self.journal.stat().st_size else 0

    def _ended(self) -> list[Any]:
        from espalier.passes.search.storage import journal_url, load_study, open_storage, study_names

        storage = open_storage(journal_url(self.journal))
        names = study_names(storage)
        return [t for t in load_study(storage, names[0]).trials if t.state.is_finished()
                and not t.user_attrs.get("lost")] if names else []  # fmt: skip

    def result(self) -> str:
        answer = json.loads((self.folder / "answer").read_text())
        done = answer["complete"] + answer["pruned"] + answer["failed"]
        assert not self.journal.exists()
        return f"{done} trials, {answer['failed']} failed"


class Worker(Search):
    """`worker`s that join a search from its storage, one after another; the search itself died at its beginning."""

    name = "worker"

    def renew(self) -> None:
        super().renew()
        first = begin(["search", SOURCE, str(self.folder / "s.toml"), "--storage", self.url], self.folder)
        while not first.ended() and not self.told(first.said()):
            time.sleep(0.01)
        first.kill()
        self.known = len(self._ended())

    @property
    def url(self) -> str:
        return f"journal:///{self.journal}"

    def words(self) -> list[str]:
        return ["worker", "--storage", self.url, "--timeout", "600"]

    def told(self, said: str) -> int:
        return 0

    def after_kill(self, said: str) -> list[str]:
        mine = len(re.findall(r"^trial \d+: ", said, re.M))
        self.known += mine
        return super().after_kill(said)

    def result(self) -> str:
        return f"{len(self._ended())} trials"


class Crew(Search):
    """A search with further workers, each a process of its own: none may outlive it."""

    name, more = "crew", ("--workers", "2")


class Training(Kind):
    """`run` of a finetuning with a checkpoint every few steps."""

    name, files = "training", MappingProxyType({"r.toml": TUNE})

    def words(self) -> list[str]:
        return ["run", SOURCE, str(self.folder / "r.toml"), "-o", str(self.folder / "t.espalier")]

    def stored(self) -> int:
        from espalier.passes.training.checkpoint import read
        from espalier.passes.training.checkpoint_folders import latest

        project = self.folder / "t.espalier"
        if project.exists():
            with zipfile.ZipFile(project) as archive:
                assert archive.testzip() is None
            return 400
        homes = self.folder / "state" / "training"
        found = [p for home in (homes.iterdir() if homes.exists() else ()) if (p := latest(home))]
        return max((int(read(p)["step"]) for p in found), default=0)

    def told(self, said: str) -> int:
        return 0

    def result(self) -> str:
        answer = json.loads((self.folder / "answer").read_text())
        return json.dumps(answer["after"]["accuracy"]) + json.dumps(answer["after"]["loss"])


KINDS: dict[str, Callable[[Path], Kind]] = {k.name: k for k in (Sweep, Search, Worker, Training, Crew)}


def kind_of(name: str, folder: Path) -> Kind:
    """A kind by its name, of those above or of exports."""
    from tests.attack.export_kills import EXPORTS

    return (KINDS | EXPORTS)[name](folder)


def attack(kind: Kind, kills: int, seed: int) -> Tally:
    """Kill it so often, each time somewhere in the time that it takes from where it was."""
    drawn, tally = random.Random(f"{kind.name} {seed}"), Tally()
    kind.renew()
    begun, run = time.monotonic(), begin([*kind.words(), "--json"], kind.folder)
    while not run.ended():
        time.sleep(0.01)
    took = time.monotonic() - begun
    if run.code != 0:
        tally.problems.append(f"unbroken: exit {run.code}: {run.said()[-300:]}")
        return tally
    tally.problems += kind.after_end()
    kind.renew()
    while tally.kills < kills:
        run, end = begin([*kind.words(), "--json"], kind.folder), time.monotonic() + drawn.uniform(0, 1.5 * took)
        while time.monotonic() < end and not run.ended():
            time.sleep(0.002)
        if run.ended():
            tally.whole += 1
            tally.problems += [f"exit {run.code}: {run.said()[-300:]}"] if run.code else kind.after_end()
            tally.problems += kind.at_once()
            kind.renew()
            continue
        said_before = run.said()
        below = run.kill()
        tally.kills += 1
        tally.problems += kind.after_kill(said_before)
        tally.amid += kind.known > 0
        tally.problems += orphans(below, tally)
    return tally


def orphans(below: list[psutil.Process], tally: Tally) -> list[str]:
    """Those that live for longer than they may, which are ended then."""
    begun = time.monotonic()
    while below and time.monotonic() - begun < ORPHANS:
        below = [p for p in below if _lives(p)]
        if below:
            time.sleep(0.02)
    tally.slowest = max(tally.slowest, time.monotonic() - begun)
    found = [f"orphan: {' '.join(p.cmdline()[:6])}" for p in below if _lives(p)]
    for process in below:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _import_all(kinds: list[str], folder: Path) -> None:
    """What the commands import, once: so that a kill falls into their work, not into their beginning."""
    for name in kinds:
        kind = kind_of(name, folder / "modules")
        if name not in ("crew", "worker"):
            kind.renew()
            run = begin(kind.words(), kind.folder, folder / "names")
            while not run.ended():
                time.sleep(0.05)
            for module in (folder / "names").read_text().splitlines():
                with contextlib.suppress(Exception):
                    importlib.import_module(module)


def main(words: list[str] | None = None) -> int:
    """Kill and tell: a line a kind; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kinds", default="sweep,search,worker,training")
    parser.add_argument("--seed", type=int, default=0)
    found = parser.parse_args(words)
    os.environ.update({f"{n}_NUM_THREADS": "1" for n in ("OMP", "MKL", "NUMBA")})
    os.environ["ESPALIER_NO_CACHE"] = "1"
    kinds, failed = found.kinds.split(","), False
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        folder = Path(place).resolve()
        _import_all(kinds, folder)
        for name in kinds:
            begun = time.monotonic()
            tally = attack(kind_of(name, folder / name), found.kills, found.seed)
            failed = failed or bool(tally.problems)
            counts = f"{tally.kills} kills, {tally.amid} amid finished work, {tally.whole} runs to their end"
            counts += f", {len(tally.problems)} problems"
            times = f"last child gone after {tally.slowest:.2f} s, {time.monotonic() - begun:.0f} s"
            sys.stdout.write(f"{name}: {counts}, {times}\n")
            sys.stdout.writelines(f"  {problem}\n" for problem in dict.fromkeys(tally.problems[:20]))
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
