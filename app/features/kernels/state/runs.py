"""Runs of kernels: asked of the worker, heard row by row, read from files, kept in the project; and what there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.app.words import plural
from espalier.kernels.bench import results as files
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import Lab
from espalier.model.borders import parse_json, tried
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import TERMINAL, Found, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.document.document import Document

MEMBER = "kernels.json"  # of the project file
VERSION = 1
PAUSE = 150  # milliseconds between two tellings of rows that stream in
UNREAD = OptionsError("The measurements of kernels in the project cannot be read.", "Run the kernels again.")


@dataclass(slots=True)
class Run:
    """Rows of one request, or of a file. `home`: the document that keeps them; None while none does."""

    name: str
    results: Results
    rows: list[Row] = field(default_factory=list[Row])
    file: str = ""
    job: JobInfo | None = None
    error: str = ""
    stopped: bool = False
    gives_way: bool = False  # to a job that waits; it goes on behind it
    home: Document | None = None
    _kept: str = ""

    def kept(self) -> str:
        """As JSON, made once: a run that has ended stays as it is."""
        if not self._kept:
            told = {"file": self.file, "stopped": self.stopped, "error": self.error,
                    "results": files.dumped(self.whole)}  # fmt: skip
            self._kept = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        return self._kept

    @property
    def title(self) -> str:
        """What it is of: kernels, and whether on a curve."""
        wish = self.results.settings.get("kernels") or dict.fromkeys(r.kernel for r in self.rows)
        names = list(wish)
        what = (
            names[0].replace("_", " ") if len(names) == 1 else plural(len(names), "kernel") if names else "all kernels"
        )
        return f"{what}, sweep" if self.results.settings.get("sweep") else what

    @property
    def device(self) -> str:
        """cpu or cuda."""
        return str(self.results.machine.get("device") or (self.rows[0].device if self.rows else ""))

    @property
    def machine(self) -> str:
        """The processor's or the card's name."""
        return str(self.results.machine.get("name") or "an unknown machine")

    @property
    def whole(self) -> Results:
        """The results with the rows so far."""
        return replace(self.results, rows=tuple(self.rows))


def kernel_runs_of(session: Session) -> KernelBench:
    """The runs of a session: one object for all that read them."""
    return session.findChild(KernelBench) or KernelBench(session)


class KernelBench(QObject):
    """`changed`: rows, the end or an error of a run; `listed`: another list of runs; `known`: the lab, or its error."""

    changed = Signal(object)
    listed = Signal()
    known = Signal()
    kept = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.runs: dict[str, Run] = {}
        self.lab: Lab | None = None
        self.lab_error: EspalierError | None = None
        self.unread: EspalierError | None = None
        self._asked: JobInfo | None = None
        self._count = 0
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(lambda: self.running and self.changed.emit(self.running))
        session.opened.connect(self._read)
        session.job_event.connect(self._hear)
        session.queued.connect(self._make_room)
        self._read()

    # -- what there is

    def want_lab(self) -> None:
        """Ask the worker what kernels there are, once."""
        if self.lab is None and self._asked is None:
            self.lab_error = None
            self._asked = self._session.submit("List the kernels", LabJob(), self._know, urgent=True,
                                               failed=self._unknown)  # fmt: skip

    def _know(self, lab: Lab) -> None:
        self.lab = lab
        self.known.emit()

    def _unknown(self, error: JobError) -> None:
        self.lab_error = error
        self.known.emit()

    @property
    def running(self) -> Run | None:
        """The run whose job waits or is under way."""
        return next((r for r in self.runs.values() if r.job), None)

    def measured(self, device: str = "") -> Iterator[Row]:
        """Rows with a time that were measured here, perhaps on one device; the newest runs come last."""
        for run in self.runs.values():
            if self.is_own(run):
                yield from (r for r in run.rows if r.seconds and (not device or r.device == device))

    def is_own(self, run: Run) -> bool:
        """Whether a run is of this machine: not from a file, nor from the project of somebody else."""
        return not run.file and not self.elsewhere(run.device, str(run.results.machine.get("name") or ""))

    def elsewhere(self, device: str, name: str) -> bool:
        """Whether figures of a machine called so are another's; not before it is known what this one is."""
        here = self.lab.machines.get(device, {}) if self.lab else None
        return bool(name) and here is not None and here.get("name") != name

    # -- running

    def start(self, request: Request) -> Run:
        """Measure; raises OptionsError while another run is under way."""
        if self.running:
            raise OptionsError("Kernels are being measured already.", "Wait for them, or cancel first.")
        title = _title(request)
        run = self._add(Results({"device": request.device}, "", settings={"kernels": list(request.kernels),
                                                                          "sweep": request.sweep}))  # fmt: skip
        self._submit(run, title, KernelsJob(request))
        self.listed.emit()
        return run

    def _submit(self, run: Run, title: str, job: KernelsJob) -> None:
        run.job = self._session.submit(title, job, lambda _: None, failed=lambda e: _fail(run, e))

    def _make_room(self) -> None:
        """Let jobs that wait go first, once the size at hand is measured: a run of all kernels takes minutes."""
        run = self.running
        if run is None or run.job is None or run.gives_way or run.job.state != "running":
            return
        if any(j.state == "waiting" for j in self._session.jobs if j is not run.job):
            run.gives_way = self._session.give_way(run.job.id, partial(_rest, run))

    def stop(self) -> None:
        """End the run; its rows stay."""
        if (run := self.running) and run.job:
            self._session.cancel(run.job.id)

    def remove(self, run: Run) -> None:
        """Forget a run, in the project too; one that runs is stopped."""
        self.runs.pop(run.name, None)
        if run.job:
            self._session.cancel(run.job.id)
        self._keep()
        self.listed.emit()

    # -- files

    def load(self, path: Path) -> Run:
        """Read a file that the command line or a window wrote; raises KernelError."""
        found = files.load(path)
        run = self._add(replace(found, rows=()), list(found.rows), path.name)
        self._keep()
        self.listed.emit()
        return run

    def save(self, run: Run, path: Path) -> None:
        """Write a file that `kernels --compare` reads; raises KernelError."""
        files.save(run.whole, path)

    def _add(self, results: Results, rows: list[Row] | None = None, file: str = "") -> Run:
        self._count += 1
        run = Run(f"run {self._count}", results, rows or [], file)
        self.runs[run.name] = run
        return run

    # -- what comes

    def _hear(self, heard: JobEvent) -> None:
        if self._asked and heard.job.id == self._asked.id and isinstance(heard.event, TERMINAL):
            self._asked = None
            if isinstance(heard.event, Stopped):
                self._unknown(JobError("The list of kernels was stopped.", ""))
        run = self.running
        if run is None or run.job is None or heard.job.id != run.job.id:
            return
        if isinstance(heard.event, Found):
            self._take(run, heard.event.part)
            self._make_room()
        elif isinstance(heard.event, TERMINAL):
            run.job, run.stopped = None, isinstance(heard.event, Stopped)
            self._ended(run)
        if self.running and not self._wait.isActive():
            self._wait.start()

    def _take(self, run: Run, part: object) -> None:
        match part:
            case Row():
                run.rows.append(part)
            case Ceilings():
                run.results = replace(run.results, ceilings=part)
            case Results():
                run.results = part
            case _:
                pass

    def _ended(self, run: Run) -> None:
        self._wait.stop()
        if not run.rows and (run.stopped or run.error):
            self.runs.pop(run.name)  # nothing came of it
            if run.error:
                self._session.problem.emit(JobError(run.error, ""))
            self.listed.emit()
        else:
            self._keep()
        self.changed.emit(run)

    # -- the project

    def _keep(self) -> None:
        """Put all that has ended into the project, so that saving keeps it."""
        document = self._session.document
        if document is None:
            return
        held = [run for run in self.runs.values() if not run.job]
        for run in held:
            run.home = document
        text = f'{{"version":{VERSION},"runs":[{",".join(run.kept() for run in held)}]}}'
        document.keep(MEMBER, text.encode() if held else None)
        self.kept.emit()

    def _read(self) -> None:
        """Take what the project of another document holds; runs that no document keeps yet go along."""
        staying = [run for run in self.runs.values() if run.job or run.home is None]
        self.runs.clear()
        self.unread = None
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        for told, results in _runs(raw, self._cannot) if raw is not None else ():
            run = self._add(replace(results, rows=()), list(results.rows), str(told.get("file", "")))
            run.stopped, run.error, run.home = bool(told.get("stopped")), str(told.get("error", "")), document
        self.runs |= {run.name: run for run in staying}
        self.listed.emit()

    def _cannot(self) -> None:
        self.unread = UNREAD


def _runs(raw: bytes, cannot: Callable[[], None]) -> list[tuple[dict[str, Any], Results]]:
    """The runs of a project's member; none, and `cannot`, where it cannot be read."""

    def read() -> list[tuple[dict[str, Any], Results]]:
        data = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(data["version"])
        return [(told, files.parsed(told["results"], "the project")) for told in data["runs"]]

    found = tried(read, None)
    if found is None:
        cannot()
    return found or []


def _fail(run: Run, error: JobError) -> None:
    run.error = f"{error.message} {error.hint}".strip()


def _rest(run: Run, left: int) -> Rest | None:
    """The sizes from the one numbered `left` on; None where none is left."""
    run.gives_way = False
    work = run.job.job if run.job else None
    return (
        Rest(replace(work, first=left, limits=run.results.ceilings)) if left and isinstance(work, KernelsJob) else None
    )


def _title(request: Request) -> str:
    names = request.kernels
    return f"Kernels: {names[0] if len(names) == 1 else plural(len(names), 'kernel') if names else 'all'}"
