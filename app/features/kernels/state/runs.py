"""Kernel runs: measured by the worker, loaded from files, stored in the project; and the list of kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.app.number_text import plural
from espalier.app.translation import error_text, tr
from espalier.kernels.bench import results as files
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import Lab
from espalier.model.borders import parse_json, tried
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.passes.jobs.kernel import KernelsJob, LabJob
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, PartialResult, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.document.document import Document

MEMBER = "kernels.json"  # of the project file
VERSION = 1
PAUSE = 150  # milliseconds between two updates while rows stream in
UNREAD = OptionsError("The measurements of kernels in the project cannot be read.", "Run the kernels again.")


@dataclass(slots=True)
class Run:
    """Rows of one request or file. `home`: the document that stores them, or None."""

    name: str
    results: Results
    rows: list[Row] = field(default_factory=list[Row])
    file: str = ""
    job: JobInfo | None = None
    error: str = ""
    stopped: bool = False
    gives_way: bool = False  # yields to a queued job and continues after it
    home: Document | None = None
    _json: str = ""

    def to_json(self) -> str:
        """The finished run as JSON, cached."""
        if not self._json:
            data = {"file": self.file, "stopped": self.stopped, "error": self.error,
                    "results": files.to_json(self.all_results)}  # fmt: skip
            self._json = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        return self._json

    @property
    def title(self) -> str:
        """Title: kernels, and whether it is a sweep."""
        kernels = self.results.settings.get("kernels") or dict.fromkeys(r.kernel for r in self.rows)
        names = list(kernels)
        subject = (
            names[0].replace("_", " ")
            if len(names) == 1
            else plural(len(names), "kernel")
            if names
            else tr("all kernels")
        )
        return tr("{}, sweep", subject) if self.results.settings.get("sweep") else subject

    @property
    def device(self) -> str:
        """Device: cpu or cuda."""
        return str(self.results.machine.get("device") or (self.rows[0].device if self.rows else ""))

    @property
    def machine(self) -> str:
        """Name of the processor or GPU."""
        return str(self.results.machine.get("name") or "an unknown machine")

    @property
    def all_results(self) -> Results:
        """The results with the present rows."""
        return replace(self.results, rows=tuple(self.rows))


def kernel_runs_of(session: Session) -> KernelBench:
    """The session's KernelBench, created once."""
    return session.findChild(KernelBench) or KernelBench(session)


class KernelBench(QObject):
    """Emits `changed` with a changed run, `listed` at another list of runs, `lab_changed` at the lab or its error."""

    changed = Signal(object)
    listed = Signal()
    lab_changed = Signal()
    stored = Signal()

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
        session.job_event.connect(self._on_event)
        session.queued.connect(self._yield_to_queue)
        self._read()

    # -- kernels and runs

    def want_lab(self) -> None:
        """Ask the worker for the kernels, once."""
        if self.lab is None and self._asked is None:
            self.lab_error = None
            self._asked = self._session.submit(tr("List the kernels"), LabJob(), self._on_lab, urgent=True,
                                               failed=self._on_lab_error)  # fmt: skip

    def _on_lab(self, lab: Lab) -> None:
        self.lab = lab
        self.lab_changed.emit()

    def _on_lab_error(self, error: JobError) -> None:
        self.lab_error = error
        self.lab_changed.emit()

    @property
    def running(self) -> Run | None:
        """The run whose job is queued or running, or None."""
        return next((r for r in self.runs.values() if r.job), None)

    def measured(self, device: str = "") -> Iterator[Row]:
        """Timed rows of this machine, optionally of one device; the newest runs last."""
        for run in self.runs.values():
            if self.is_own(run):
                yield from (r for r in run.rows if r.seconds and (not device or r.device == device))

    def is_own(self, run: Run) -> bool:
        """Whether a run was measured on this machine."""
        return not run.file and not self.elsewhere(run.device, str(run.results.machine.get("name") or ""))

    def elsewhere(self, device: str, name: str) -> bool:
        """Whether a machine name is not this machine's; False while this machine is unknown."""
        here = self.lab.machines.get(device, {}) if self.lab else None
        return bool(name) and here is not None and here.get("name") != name

    # -- running

    def start(self, request: Request) -> Run:
        """Start a run; raises OptionsError while another is running."""
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

    def _yield_to_queue(self) -> None:
        """Yield to queued jobs after the present size: a run of all kernels takes minutes."""
        run = self.running
        if run is None or run.job is None or run.gives_way or run.job.state != "running":
            return
        if self._session.blocks(run.job.id):
            run.gives_way = self._session.give_way(run.job.id, partial(_remaining_job, run))

    def stop(self) -> None:
        """Stop the run and keep its rows."""
        if (run := self.running) and run.job:
            self._session.cancel(run.job.id)

    def remove(self, run: Run) -> None:
        """Remove a run, also from the project; stop it if it is running."""
        self.runs.pop(run.name, None)
        if run.job:
            self._session.cancel(run.job.id)
        self._store()
        self.listed.emit()

    # -- files

    def load(self, path: Path) -> Run:
        """Load a results file; raises KernelError."""
        results = files.load(path)
        run = self._add(replace(results, rows=()), list(results.rows), path.name)
        self._store()
        self.listed.emit()
        return run

    def save(self, run: Run, path: Path) -> None:
        """Write a results file; raises KernelError."""
        files.save(run.all_results, path)

    def _add(self, results: Results, rows: list[Row] | None = None, file: str = "") -> Run:
        self._count += 1
        run = Run(f"run {self._count}", results, rows or [], file)
        self.runs[run.name] = run
        return run

    # -- job events

    def _on_event(self, job_event: JobEvent) -> None:
        if self._asked and job_event.job.id == self._asked.id and isinstance(job_event.event, TERMINAL):
            self._asked = None
            if isinstance(job_event.event, Stopped):
                self._on_lab_error(JobError("The list of kernels was stopped.", ""))
        run = self.running
        if run is None or run.job is None or job_event.job.id != run.job.id:
            return
        if isinstance(job_event.event, PartialResult):
            self._take(run, job_event.event.part)
            self._yield_to_queue()
        elif isinstance(job_event.event, TERMINAL):
            run.job, run.stopped = None, isinstance(job_event.event, Stopped)
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
            self.runs.pop(run.name)  # no results
            if run.error:
                self._session.problem.emit(JobError(run.error, ""))
            self.listed.emit()
        else:
            self._store()
        self.changed.emit(run)

    # -- the project

    def _store(self) -> None:
        """Write the finished runs into the project."""
        document = self._session.document
        if document is None:
            return
        finished = [run for run in self.runs.values() if not run.job]
        for run in finished:
            run.home = document
        text = f'{{"version":{VERSION},"runs":[{",".join(run.to_json() for run in finished)}]}}'
        document.keep(MEMBER, text.encode() if finished else None)
        self.stored.emit()

    def _read(self) -> None:
        """Read the runs of another document; runs not stored in any document stay."""
        unsaved = [run for run in self.runs.values() if run.job or run.home is None]
        self.runs.clear()
        self.unread = None
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        for entry, results in _runs(raw, self._on_unreadable) if raw is not None else ():
            run = self._add(replace(results, rows=()), list(results.rows), str(entry.get("file", "")))
            run.stopped, run.error, run.home = bool(entry.get("stopped")), str(entry.get("error", "")), document
        self.runs |= {run.name: run for run in unsaved}
        self.listed.emit()

    def _on_unreadable(self) -> None:
        self.unread = UNREAD


def _runs(raw: bytes, on_error: Callable[[], None]) -> list[tuple[dict[str, Any], Results]]:
    """The runs of a project member; calls `on_error` and returns none if it is damaged."""

    def read() -> list[tuple[dict[str, Any], Results]]:
        data = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(data["version"])
        return [(entry, files.from_json(entry["results"], "the project")) for entry in data["runs"]]

    runs = tried(read, None)
    if runs is None:
        on_error()
    return runs or []


def _fail(run: Run, error: JobError) -> None:
    run.error = error_text(error)


def _remaining_job(run: Run, remaining: int) -> Rest | None:
    """A job of the sizes from number `left` on, or None."""
    run.gives_way = False
    work = run.job.job if run.job else None
    return (
        Rest(replace(work, first=remaining, limits=run.results.ceilings))
        if remaining and isinstance(work, KernelsJob)
        else None
    )


def _title(request: Request) -> str:
    names = request.kernels
    return tr("Kernels: {}", names[0] if len(names) == 1 else plural(len(names), "kernel") if names else tr("all"))
