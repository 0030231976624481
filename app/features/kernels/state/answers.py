"""Facts for the tab How it works: measurements by the worker, runs of the tab Run, the model's memory ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.features.kernels.state.measurement import MeasurementResult, measurement_of
from espalier.app.features.kernels.state.runs import kernel_runs_of
from espalier.app.translation import message, tr
from espalier.kernels.bench import results as files
from espalier.kernels.bench.answers.measured_data import Fact, MeasuredData, merge_measurements
from espalier.kernels.bench.answers.questions import question
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import DEVICES
from espalier.model.borders import parse_json
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.passes.analysis.memory import MemoryOptions
from espalier.passes.jobs.kernel import AnswerJob
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, PartialResult, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MEMBER = "kernel_answers.json"  # of the project file
VERSION = 1
PAUSE = 150  # milliseconds between two updates while results stream in
LEDGER, LEDGER_TITLE = "memory", "Memory ledger"
UNREAD = OptionsError("The answers about kernels in the project cannot be read.", "Measure them again.")


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """Facts of a device stored in a project, and the machine's name (may be empty)."""

    machine: str
    measured: MeasuredData


class KernelAnswers(QObject):
    """Runs one measurement at a time; emits `changed` at facts and states, `stored` when the project is modified."""

    changed = Signal()
    stored = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._measured: dict[str, MeasuredData] = {d: MeasuredData(d) for d in DEVICES}
        self._stored: dict[str, StoredFacts] = {}
        self.job: JobInfo | None = None
        self.last_question = ""  # the question measured last
        self.error: EspalierError | None = None
        self.stopped = False
        self.runs = kernel_runs_of(session)
        self.ledger = measurement_of(session, LEDGER, LEDGER_TITLE, MemoryOptions)  # shared with the tab Memory
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.changed)
        self.runs.lab_changed.connect(self.changed)
        self.runs.listed.connect(self._soon)
        self.runs.changed.connect(lambda _: self._soon())
        self.ledger.changed.connect(self._soon)
        session.job_event.connect(self._on_event)
        session.opened.connect(self._read)
        self._read()

    # -- facts

    def measured(self, device: str) -> MeasuredData:
        """All facts of a device: from answers, from runs, and of the open model's memory."""
        parts: list[object] = []
        for run in self.runs.runs.values():
            if self.runs.is_own(run) and run.device == device:
                parts += [run.results.ceilings, *run.rows]
        # Measurements for answers take precedence: their sizes were chosen for the answer.
        facts = self._own(device, merge_measurements(device, parts))
        ledger = self._current_ledger
        if ledger is None or str(getattr(ledger.options, "device", "cpu")) != device:
            return facts
        name = self._session.document.project.source.spec if self._session.document else tr("the model")
        return replace(facts, project=ledger.rows, project_name=name)

    def _own(self, device: str, previous: MeasuredData | None = None) -> MeasuredData:
        """Facts measured for answers: those stored by this machine, then those of this session."""
        stored, current = self._stored.get(device), self._measured[device]
        if stored and not self.runs.elsewhere(device, stored.machine):
            previous = merge_measurements(device, _parts(stored.measured), previous)
        return merge_measurements(device, _parts(current), previous)

    @property
    def other_machine(self) -> str:
        """Name of another machine whose facts the project stores, or empty."""
        return next((k.machine for d, k in self._stored.items() if self.runs.elsewhere(d, k.machine)), "")

    @property
    def _current_ledger(self) -> MeasurementResult | None:
        """The ledger of the model, unless it is outdated."""
        ledger = self.ledger.result if self._session.document else None
        return ledger if ledger is not None and not self.ledger.stale else None

    def why_not(self, device: str) -> str:
        """Why a device is unavailable; empty if it is available or still unknown."""
        return self.runs.lab.missing.get(device, "") if self.runs.lab else ""

    @property
    def busy(self) -> bool:
        """Whether a measurement is running or queued."""
        return self.job is not None

    # -- measuring

    def start(self, key: str, device: str) -> None:
        """Measure the facts of a question; raises OptionsError if busy or the device is unavailable."""
        if self.job:
            raise OptionsError("A question is being measured already.", "Wait for it, or stop it.")
        if reason := self.why_not(device):
            raise OptionsError(f"Kernels cannot run on {device}: {reason}.", "Choose the CPU.")
        self.error, self.stopped, self.last_question = None, False, key
        title = tr("Measure: {}", question(key).name)
        self.job = self._session.submit(title, AnswerJob(key, device), lambda _: None, failed=self._failed)
        if key == "memory" and self._session.document and self.ledger.job is None:
            self.ledger.start(MemoryOptions(device=cast("Any", device)))
        self.changed.emit()

    def stop(self) -> None:
        """Stop the measurement and keep its results."""
        if self.job:
            self._session.cancel(self.job.id)
        if self.last_question == "memory":
            self.ledger.stop()

    @property
    def status(self) -> str:
        """Status text."""
        job = self.job
        if job is None:
            if self.stopped:
                return tr("Stopped: partial results are shown.")
            return (
                tr("The project's results are of {}, so they are not shown.", name)
                if (name := self.other_machine)
                else ""
            )
        if job.state != "running":
            return tr("Queued behind other jobs.")
        text = message(job.progress.text) if job.progress else tr("starting")
        return f"{text[:1].upper()}{text[1:]} …"

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _on_event(self, job_event: JobEvent) -> None:
        if self.job is None or job_event.job.id != self.job.id:
            return
        if isinstance(job_event.event, PartialResult):
            device = self.job.job.device if isinstance(self.job.job, AnswerJob) else "cpu"
            self._measured[device] = merge_measurements(device, [job_event.event.part], self._measured[device])
        if isinstance(job_event.event, TERMINAL):
            self.job, self.stopped = None, isinstance(job_event.event, Stopped)
            self._store()
            self.changed.emit()
            return
        self._soon()

    def _soon(self) -> None:
        if not self._wait.isActive():
            self._wait.start()

    # -- the project

    def _store(self) -> None:
        """Write the facts into the project."""
        if document := self._session.document:
            measured = {d: self._own(d) for d in DEVICES}
            machines = self.runs.lab.machines if self.runs.lab else {}
            self._stored = {d: StoredFacts(str(machines.get(d, {}).get("name", "")), k) for d, k in measured.items()}
            document.keep(MEMBER, to_bytes(self._stored))
            self.stored.emit()

    def _read(self) -> None:
        """Read the facts stored in another document."""
        self.error, self._stored = None, {}
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if raw is not None:
            try:
                self._stored = from_bytes(raw)
            except OptionsError as error:
                self.error = error
        self.changed.emit()


def kernel_answers_of(session: Session) -> KernelAnswers:
    """The session's KernelAnswers, created once."""
    return session.findChild(KernelAnswers) or KernelAnswers(session)


def _parts(measured: MeasuredData) -> list[Row | Fact | Ceilings | None]:
    return [measured.ceilings, *measured.rows, *measured.facts]


def to_bytes(stored: Mapping[str, StoredFacts]) -> bytes:
    """Serialise rows, facts and ceilings by device."""
    data = {d: {"results": files.to_json(Results({"device": d, "name": k.machine}, "", k.measured.ceilings,
                                                 k.measured.rows)),
                "facts": [asdict(f) for f in k.measured.facts]}
            for d, k in stored.items() if k.measured.rows or k.measured.facts}  # fmt: skip
    return json.dumps({"version": VERSION, "devices": data}, separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(raw: bytes) -> dict[str, StoredFacts]:
    """Inverse of `to_bytes`; raises OptionsError if the data is damaged."""
    try:
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(data["version"])
        return {d: _read(d, entry) for d, entry in data["devices"].items() if d in DEVICES}
    except Exception as error:
        raise UNREAD from error


def _read(device: str, entry: dict[str, Any]) -> StoredFacts:
    results = files.from_json(entry["results"], "the project")
    facts = [Fact(str(f["name"]), float(f["value"]), str(f["unit"]), int(f["at"]), device) for f in entry["facts"]]
    machine = str(results.machine.get("name") or "")
    return StoredFacts(machine, merge_measurements(device, [results.ceilings, *results.rows, *facts]))
