"""Files of strangers through the command line, a window and a worker: nothing of them runs, fails inside or hangs.

Each of `strangers` is a file whose payload writes a marker. What they are opened with is counted and told. A run draws
by its seed which of them it opens by which surface; all of them by every surface under `make test-all`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from random import Random
from typing import Any

import psutil
import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.model.errors import EspalierError
from espalier.model.trust import NAMED, SESSION, Origin
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, Failed, Job, JobEvent, OpenJob, OpenResult, ReplayJob
from tests.attack.mutants.calling import Failed as ExitOne
from tests.attack.mutants.calling import command
from tests.attack.strangers.made import Place, Stranger, seeds
from tests.attack.strangers.models import MODELS
from tests.attack.strangers.others import MODEL, OTHERS
from tests.chance import number, whole
from tests.patience import PATIENCE

SECONDS, MEGABYTES = 20.0, 500.0
ALL = {**MODELS, **OTHERS}
FEW, SHARE = 6, 0.25  # of the files, in the quick form and in a run of all tests


@dataclass(slots=True)
class Counts:
    """What came of the files on one surface, by name: each of these is to stay empty."""

    opened: int = 0
    executed: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    late: list[str] = field(default_factory=list[str])
    large: list[str] = field(default_factory=list[str])

    @property
    def told(self) -> str:
        """In a line."""
        return (f"{self.opened} files, {len(self.executed)} executions {self.executed}, "
                f"{len(self.failed)} failures {self.failed}, {len(self.late)} over {SECONDS:g} s {self.late}, "
                f"{len(self.large)} over {MEGABYTES:g} MB {self.large}")  # fmt: skip

    @property
    def clean(self) -> bool:
        """Whether nothing of all this happened."""
        return not (self.executed or self.failed or self.late or self.large)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound seeds, made once."""
    folder = tmp_path_factory.mktemp("strangers")
    seeds(folder / "seeds")
    return folder


@pytest.fixture(autouse=True)
def nothing_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder of its own, where nobody has allowed anything."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ESPALIER_PLUGINS", "")
    monkeypatch.setenv("ESPALIER_NO_CACHE", "1")
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr("espalier.model.trust._typed", set())


def made(name: str, home: Path, surface: str) -> tuple[Stranger, Path]:
    """The file of a name, fresh, and its marker."""
    folder = home / surface / f"{sorted(ALL).index(name):03}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    marker = home / surface / f"ran-{folder.name}"
    return ALL[name](Place(folder, marker, home / "seeds")), marker


def _status(pid: int, entry: str) -> float:
    """Megabytes, from Linux's account of a process; 0 where there is none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(entry):
                return int(line.split()[1]) / 1024
    return 0.0


def _spent(pid: int) -> float:
    """Processor seconds of a process and of the children that it has waited for."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(pid).cpu_times()
        return found.user + found.system + found.children_user + found.children_system
    return 0.0


@contextlib.contextmanager
def counted(name: str, marker: Path, counts: Counts, pids: Callable[[], list[int]]) -> Generator[None]:
    """Count what is done within: the marker, time and memory, and whatever is raised that is no clear error."""
    before, begun = {p: (_status(p, "VmRSS"), _spent(p)) for p in pids()}, time.monotonic()
    for pid in before:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")
    try:
        yield
    except EspalierError as error:
        if not error.message.strip() or not error.hint.strip():
            counts.failed.append(f"{name}: no two sentences: {error}")
    except Exception as error:  # noqa: BLE001
        counts.failed.append(f"{name}: {type(error).__name__} {error} {error.__cause__!r}")
    counts.opened += 1
    spent = max((_spent(p) - s for p, (_, s) in before.items()), default=0.0)  # whatever else the machine does
    if spent > SECONDS or time.monotonic() - begun > PATIENCE:
        counts.late.append(f"{name}: {spent:.0f} s of the processor, {time.monotonic() - begun:.0f} s")
    grown = max((_status(p, "VmHWM") - b for p, (b, _) in before.items()), default=0.0)
    if grown > MEGABYTES:
        counts.large.append(f"{name}: {grown:.0f} MB")
    for touched in marker.parent.glob(f"{marker.name}*"):
        counts.executed.append(name)
        touched.unlink() if touched.is_file() else shutil.rmtree(touched)


# -- the command line


def by_command(names: tuple[str, ...], home: Path) -> Counts:
    """A report of each, and the command that is made for it."""
    counts = Counts()
    command("evaluate", MODEL, "--data", MODEL, "--limit", "4")  # what is imported is no part of what is timed
    for name in names:
        stranger, marker = made(name, home, "command")
        with counted(name, marker, counts, lambda: [os.getpid()]):
            with contextlib.suppress(EspalierError), contextlib.chdir(stranger.cwd or "."):
                command("report", "." if stranger.cwd else stranger.path)
            if stranger.words:
                command(*stranger.words)
    return counts


# -- a worker


class Asked:
    """A runner whose jobs are waited for."""

    def __init__(self) -> None:
        from espalier.app.jobs.runner import JobRunner

        self._events: Queue[JobEvent] = Queue()
        self.runner = JobRunner(self._events.put)
        self.folder = 0

    def ask(self, job: Job) -> Any:
        """The result of a job; raises what it failed with."""
        number = self.runner.submit("job", job).id
        while True:
            heard = self._events.get(timeout=PATIENCE)
            if heard.job.id == number and isinstance(heard.event, TERMINAL):
                break
        if isinstance(heard.event, Failed):
            if heard.event.details or not heard.event.hint:
                raise ExitOne(f"{heard.event.message}\n{heard.event.details}")
            raise EspalierError(heard.event.message, heard.event.hint)
        return heard.event.result if isinstance(heard.event, Done) else None

    def pids(self) -> list[int]:
        """Of the worker."""
        pid = self.runner.worker_pid
        return [pid] if pid else []


def by_worker(names: tuple[str, ...], home: Path, work: Path) -> Counts:
    """Open each and run its recipe; add a recipe's steps to a model; measure a model on data."""
    counts, asked = Counts(), Asked()
    try:
        (work / "demo").mkdir(parents=True)
        sound: OpenResult = asked.ask(OpenJob(MODEL, work / "demo", origin=Origin.TYPED))
        for at, name in enumerate(names):
            stranger, marker = made(name, home, "worker")
            (work / f"{at}").mkdir()
            with counted(name, marker, counts, asked.pids):
                try:
                    _work(stranger, asked, work / f"{at}", sound, work / "demo")
                except Empty:
                    counts.late.append(name)
                    break
    finally:
        asked.runner.close()
    return counts


def _work(stranger: Stranger, asked: Asked, work: Path, sound: OpenResult, demo: Path) -> None:
    from espalier.model.document.recipe import Step
    from espalier.passes.recipes.pasted import load_recipe_file
    from espalier.passes.running.splits import EvaluateOptions

    source = sound.project.source
    if stranger.role == "recipe":
        recipe = load_recipe_file(stranger.path)
        asked.ask(ReplayJob(sound.project.base, recipe, sound.locations, demo, source))
    elif stranger.role == "data":
        step = Step("evaluate", EvaluateOptions(data=str(stranger.path), limit=4))
        asked.ask(AnalyseJob(sound.project.graph, step, sound.locations, demo, source))
    else:
        held: OpenResult = asked.ask(OpenJob(str(stranger.path), work))
        project = held.project
        asked.ask(ReplayJob(project.base, project.recipe, held.locations, work, project.source))


# -- a window


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Any]:
    """A real window over a real worker."""
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.app.shell.window import Window
    from espalier.app.widgets.style import Appearance

    settings = Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    made = Window(Session(), settings, Appearance(qapp, "light"))
    made.resize(1400, 900)
    made.show()
    made.build_panels()
    yield made
    made.session.close()
    made.close_now()
    made.session.shutdown()
    made.deleteLater()


def by_window(names: tuple[str, ...], home: Path, window: Any, qtbot: QtBot) -> Counts:
    """Drop each: models are opened and edited, so that their recipes run; recipes and data go to a model."""
    counts, session = Counts(), window.session
    heard: list[Failed] = []
    session.job_event.connect(lambda h: heard.append(h.event) if isinstance(h.event, Failed) else None)
    for name in names:
        stranger, marker = made(name, home, "window")

        def pids() -> list[int]:
            worker = session._runner.worker_pid
            return [os.getpid(), *([worker] if worker else [])]

        with counted(name, marker, counts, pids), contextlib.chdir(stranger.cwd or "."):
            _use(stranger, window, lambda name=name: _rest(window, qtbot, name, counts))
        counts.failed += [f"{name}: {f.message} {f.details}" for f in heard if f.details]
        if "Something went wrong inside" in window.banner.text:
            counts.failed.append(f"{name}: {window.banner.text}")
        heard.clear()
        window.banner.clear()
    return counts


def _use(stranger: Stranger, window: Any, rest: Callable[[], None]) -> None:
    from espalier.passes.running.splits import EvaluateOptions

    session, takes = window.session, stranger.role in ("recipe", "data")
    session.close()
    if takes:
        window.begin_opening(MODEL)
    else:
        window.services.opening.open_path(stranger.path)
    rest()
    if session.document is None:
        return
    if stranger.role == "recipe":
        window.services.opening.add_steps(stranger.path)
    elif stranger.role == "data":
        session.evaluate(EvaluateOptions(data=str(stranger.path), limit=4))
    else:
        weighed = [n.id for n in session.document.graph if n.op == "linear"][:1]
        session.set_sparsity(weighed, 0.25)
    rest()


def _rest(window: Any, qtbot: QtBot, name: str, counts: Counts) -> None:
    """Wait until no job runs; what runs too long is stopped and counted."""
    begun, session = time.monotonic(), window.session
    while session.jobs or window.live.waiting:
        qtbot.wait(5)
        if time.monotonic() - begun > PATIENCE:
            counts.late.append(name)
            for job in list(session.jobs):
                session.cancel(job.id)
            begun = time.monotonic()


# -- counted


def drawn(config: pytest.Config, surface: str, count: int) -> tuple[str, ...]:
    """As many of the files as this run opens by a surface; all in a thorough run."""
    names = sorted(ALL)
    return tuple(names if whole() else sorted(Random(number(config, surface)).sample(names, count)))


def test_there_are_fifty_of_many_kinds() -> None:
    assert len(ALL) >= 50 and len(MODELS) >= 30 and len(OTHERS) >= 20


@pytest.mark.slow
def test_the_command_line_runs_nothing(home: Path, pytestconfig: pytest.Config) -> None:
    counts = by_command(drawn(pytestconfig, "command", FEW), home)
    assert counts.clean, counts.told


@pytest.mark.slow
@pytest.mark.gui
def test_a_worker_runs_nothing(home: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    counts = by_worker(drawn(pytestconfig, "worker", FEW), home, tmp_path / "work")
    assert counts.clean, counts.told


@pytest.mark.slow
@pytest.mark.gui
def test_a_window_runs_nothing(home: Path, window: Any, qtbot: QtBot, pytestconfig: pytest.Config) -> None:
    counts = by_window(drawn(pytestconfig, "window", FEW), home, window, qtbot)
    assert counts.clean, counts.told


@pytest.mark.slow
@pytest.mark.gui
def test_nothing_of_many_runs(
    home: Path, window: Any, qtbot: QtBot, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The same files by every surface."""
    names = drawn(pytestconfig, "all", round(SHARE * len(ALL)))
    found = {"command line": by_command(names, home), "worker": by_worker(names, home, tmp_path / "all"),
             "window": by_window(names, home, window, qtbot)}  # fmt: skip
    for surface, counts in found.items():
        sys.stderr.write(f"{surface}: {counts.told}\n")
    assert all(c.opened == len(names) and c.clean for c in found.values()), {s: c.told for s, c in found.items()}


@pytest.mark.slow
def test_processes_import_nothing_of_the_working_folder(home: Path) -> None:
    """A command, and a worker that a program starts there, which begins as `python -c`."""
    stranger, marker = made("a folder of modules, opened from within", home, "process")
    root = Path(__file__).resolve().parents[2]
    start = (f"import sys; sys.path[:] = [{str(root)!r}, *sys.path[1:]]\n"
             "from espalier.app.jobs.worker_process import WorkerProcess\nw = WorkerProcess()\nw.process.join(2)\n"
             "alive = w.process.is_alive()\nw.stop()\nassert alive\n")  # fmt: skip
    file = home / "start.py"
    file.write_text(f"if __name__ == '__main__':\n    {start.replace(chr(10), chr(10) + '    ')}")
    check = ["export", "demo:digits-mlp", "--as", "onnx", "-o", str(home / "m.onnx"), "--check", "--runs", "1"]
    for words in ([str(root / "main.py"), "report", "."], [str(root / "main.py"), *check], [str(file)]):
        done = subprocess.run([sys.executable, *words], cwd=stranger.cwd, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        assert not marker.exists(), words
