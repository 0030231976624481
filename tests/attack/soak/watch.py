"""What a soak looks out for: whatever is a bug, and what the window and its worker hold when they rest."""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from espalier.app.errors import CRASHES, install_hooks
from espalier.app.shell.window import Window
from espalier.app.widgets.collector import without_garbage_collection
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import TERMINAL, Failed, JobEvent
from tests.attack.soak.memory import details, pool_threads, qt_objects

INSIDE, DEAD, UNSAVED = "An internal error occurred", "worker process ended", "could not be saved ("
QUIET = ("propagateSizeHints", "This plugin does not support")  # what the offscreen platform says of itself
FOREIGN = ("torch", "transformers")  # only the worker may have them
HEAVY = (*FOREIGN, "optuna", "numba", "scipy", "sklearn", "datasets", "pandas", "pyqtgraph")
BAD = (QtMsgType.QtWarningMsg, QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is held at rest: no document, no job, no dialog. `objects`: QObjects; `tracked`: those of Python.

    `pooled`: threads of Qt's pools, one descriptor each, which `threads` and `descriptors` leave out: Qt ends its own,
    for images, after 30 s without work. They are at most two for each processor.
    """

    minute: float
    action: int
    rss_mb: float
    widgets: int
    objects: int
    threads: int
    descriptors: int
    tracked: int
    worker_rss_mb: float
    worker_descriptors: int
    worker_pid: int
    pooled: int
    folders: int  # files and folders below the system's folder for temporary ones


class Watch:
    """Hears all that goes wrong in this process and its worker; what a user can mend is no bug, only counted.

    `windows` returns those of the open tabs.
    """

    def __init__(self, windows: Callable[[], Sequence[Window]]) -> None:
        self.problems: list[dict[str, Any]] = []
        self.told: Counter[str] = Counter()
        self.trail: deque[str] = deque(maxlen=8)
        self.loaded: dict[str, str] = {}
        self.action, self.longest = 0, (0.0, "")
        self._seen: set[str] = set()
        self._windows, self._begun = windows, time.monotonic()
        install_hooks()
        sys.unraisablehook = lambda found: self.wrong("unraisable", _text(found.exc_value, str(found.object)))
        qInstallMessageHandler(self._qt)
        CRASHES.happened.connect(self._crashed)

    def follow(self, window: Window) -> Window:
        """Hear what goes wrong in a window; returns it."""
        window.session.problem.connect(self._problem)
        window.session.job_event.connect(self._job)
        return window

    def wrong(self, kind: str, text: str) -> None:
        """Take down a problem, once for each place that it comes from."""
        key = f"{kind} {text[-300:]}"
        if key in self._seen:
            return
        self._seen.add(key)
        minute = round((time.monotonic() - self._begun) / 60, 2)
        self.problems.append({"kind": kind, "minute": minute, "action": self.action, "text": text[-3000:],
                              "trail": list(self.trail)})  # fmt: skip
        sys.stderr.write(f"problem at action {self.action}: {kind}: {text}\n  after {list(self.trail)}\n")

    def look(self) -> None:
        """What the banner says, and what has been imported into the window's process."""
        for name in HEAVY:
            if name in sys.modules and name not in self.loaded:
                self.loaded[name] = f"{self.action}: {list(self.trail)[-1:]}"
                if name in FOREIGN:
                    self.wrong("import", f"{name} is in the window's process.")
        for window in self._windows():
            if INSIDE in window.banner.text:
                self.wrong("banner", window.banner.text.split(" The report is")[0])

    def turn(self, act: Callable[[], object]) -> None:
        """Do something in the window's thread, and remember what took longest of its own time."""
        begun = time.thread_time()
        act()
        took = time.thread_time() - begun
        if took > self.longest[0]:
            self.longest = took, self.trail[-1] if self.trail else ""

    def _qt(self, kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
        if kind in BAD and not any(word in text for word in QUIET):
            self.wrong("Qt", text)

    def _crashed(self, path: str, error: BaseException) -> None:
        if isinstance(error, EspalierError):
            self.told[str(error)[:160]] += 1
        else:
            self.wrong("exception", _text(error))

    def _problem(self, error: EspalierError) -> None:
        self.told[str(error)[:160]] += 1

    def _job(self, heard: JobEvent) -> None:
        event, folder = heard.event, getattr(heard.job.job, "workdir", None)
        if folder is not None and folder.name != "on-disk" and not isinstance(event, TERMINAL) and not folder.exists():
            self.wrong("folder", f"{heard.job.title} works in a folder that is gone: {type(event).__name__}")
        if isinstance(event, Failed) and (event.details or DEAD in event.message or UNSAVED in event.message):
            self.wrong("job", f"{heard.job.title}: {event.message} {event.details}")

    def sample(self, minute: float) -> Sample:
        """Count what is held; the window must be at rest."""
        gc.collect()
        mine, worker, mebi = psutil.Process(), self.worker(), 1 << 20
        pooled = pool_threads()
        with without_garbage_collection():
            widgets = len(QApplication.allWidgets())
        return Sample(
            minute=round(minute, 2), action=self.action, rss_mb=round(mine.memory_info().rss / mebi, 1),
            widgets=widgets, objects=qt_objects(*(w.session for w in self._windows())).total(),
            threads=mine.num_threads() - pooled, descriptors=mine.num_fds() - pooled, pooled=pooled,
            tracked=len(gc.get_objects()),
            worker_rss_mb=round(worker.memory_info().rss / mebi, 1) if worker else 0.0,
            worker_descriptors=worker.num_fds() if worker else 0, worker_pid=worker.pid if worker else 0,
            folders=sum(1 for _ in Path(tempfile.gettempdir()).rglob("*")),
        )  # fmt: skip

    def details(self, found: Sample) -> dict[str, Any]:
        """A count with all that it consists of."""
        return {**asdict(found), **details(*(w.session for w in self._windows()))}

    def worker(self) -> psutil.Process | None:
        """The worker's process."""
        pid = self._windows()[0].session._runner.worker_pid  # type: ignore[attr-defined]
        return psutil.Process(pid) if pid and psutil.pid_exists(pid) else None


def _text(error: BaseException | None, more: str = "") -> str:
    return "".join(traceback.format_exception(error)) + more if error else more


GROWING = ("rss_mb", "widgets", "objects", "threads", "descriptors", "tracked", "worker_rss_mb", "worker_descriptors",
           "folders")  # fmt: skip
SOME = 3  # counts: one alone may fall on a thread that is about to end


def ratios(samples: list[Sample], reference: float) -> dict[str, float]:
    """The last counts by the first ones after the reference minute, figure by figure; of some each, the median."""
    at = [asdict(s) for s in samples if s.minute >= reference] or [asdict(samples[-1])]
    some = min(SOME, max(1, len(at) // 2))
    ends = [{n: median(s[n] for s in part) for n in GROWING} for part in (at[:some], at[-some:])]
    return {name: round(ends[1][name] / ends[0][name], 3) for name in GROWING if ends[0][name]}
