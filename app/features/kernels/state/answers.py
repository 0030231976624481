"""What answers about kernels draw on: small measurements of the worker, runs of the tab Run, the model's memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.features.kernels.state.runs import kernel_runs_of
from espalier.app.features.kernels.state.timed import Measured, timed_of
from espalier.kernels.bench import results as files
from espalier.kernels.bench.answers.known import Fact, Known, gathered
from espalier.kernels.bench.answers.questions import question
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Results, Row
from espalier.kernels.bench.spec import DEVICES
from espalier.model.borders import parse_json
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.passes.analysis.memory import MemoryOptions
from espalier.passes.jobs.kernel import AnswerJob
from espalier.passes.jobs.kinds import TERMINAL, Found, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MEMBER = "kernel_answers.json"  # of the project file
VERSION = 1
PAUSE = 150  # milliseconds between two tellings of figures that stream in
LEDGER, LEDGER_TITLE = "memory", "Memory ledger"
UNREAD = OptionsError("The answers about kernels in the project cannot be read.", "Measure them again.")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a project holds of a device, and that device's name; empty where it was not known."""

    machine: str
    known: Known


class KernelAnswers(QObject):
    """One measurement at a time. `changed`: figures came, or its state is another; `kept`: the project has some."""

    changed = Signal()
    kept = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._known: dict[str, Known] = {d: Known(d) for d in DEVICES}
        self._kept: dict[str, Kept] = {}
        self.job: JobInfo | None = None
        self.asked = ""  # the question that was measured last
        self.error: EspalierError | None = None
        self.stopped = False
        self.runs = kernel_runs_of(session)
        self.ledger = timed_of(session, LEDGER, LEDGER_TITLE, MemoryOptions)  # that of the tab Memory
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.changed)
        self.runs.known.connect(self.changed)
        self.runs.listed.connect(self._soon)
        self.runs.changed.connect(lambda _: self._soon())
        self.ledger.changed.connect(self._soon)
        session.job_event.connect(self._hear)
        session.opened.connect(self._read)
        self._read()

    # -- what is known

    def known(self, device: str) -> Known:
        """All that was measured on a device: here, by runs, and of the open model's memory."""
        parts: list[object] = []
        for run in self.runs.runs.values():
            if self.runs.is_own(run) and run.device == device:
                parts += [run.results.ceilings, *run.rows]
        # What was asked for here is at sizes that were chosen for the answer; so it comes last.
        found = self._own(device, gathered(device, parts))
        made = self._ledger_made
        if made is None or str(getattr(made.options, "device", "cpu")) != device:
            return found
        name = self._session.document.project.source.spec if self._session.document else "the model"
        return replace(found, project=made.rows, project_name=name)

    def _own(self, device: str, before: Known | None = None) -> Known:
        """What was measured for answers: before the project was saved on this machine, then since it was opened."""
        held, now = self._kept.get(device), self._known[device]
        if held and not self.runs.elsewhere(device, held.machine):
            before = gathered(device, _parts(held.known), before)
        return gathered(device, _parts(now), before)

    @property
    def stranger(self) -> str:
        """The name of another machine that the project's figures are of; empty where there is none."""
        return next((k.machine for d, k in self._kept.items() if self.runs.elsewhere(d, k.machine)), "")

    @property
    def _ledger_made(self) -> Measured | None:
        """The ledger of the model as it is."""
        held = self.ledger.made if self._session.document else None
        return held if held is not None and not self.ledger.stale else None

    def why_not(self, device: str) -> str:
        """Why a device cannot be measured; empty where it can, or nobody knows yet."""
        return self.runs.lab.missing.get(device, "") if self.runs.lab else ""

    @property
    def busy(self) -> bool:
        """Whether something is being measured, or waits for it."""
        return self.job is not None

    # -- measuring

    def start(self, key: str, device: str) -> None:
        """Measure what answers a question; raises OptionsError while another is measured or the device is not here."""
        if self.job:
            raise OptionsError("A question is being measured already.", "Wait for it, or stop it.")
        if why := self.why_not(device):
            raise OptionsError(f"Kernels cannot run on {device}: {why}.", "Choose the CPU.")
        self.error, self.stopped, self.asked = None, False, key
        title = f"Measure: {question(key).name}"
        self.job = self._session.submit(title, AnswerJob(key, device), lambda _: None, failed=self._failed)
        if key == "memory" and self._session.document and self.ledger.job is None:
            self.ledger.start(MemoryOptions(device=cast("Any", device)))
        self.changed.emit()

    def stop(self) -> None:
        """End the measurement; what was found stays."""
        if self.job:
            self._session.cancel(self.job.id)
        if self.asked == "memory":
            self.ledger.stop()

    @property
    def doing(self) -> str:
        """What goes on, in words."""
        job = self.job
        if job is None:
            if self.stopped:
                return "Stopped: what was measured until then is shown."
            return f"The project's figures are of {name}, so they are not shown." if (name := self.stranger) else ""
        if job.state != "running":
            return "Queued behind other jobs."
        text = job.progress.text if job.progress else "begins"
        return f"{text[:1].upper()}{text[1:]} …"

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _hear(self, heard: JobEvent) -> None:
        if self.job is None or heard.job.id != self.job.id:
            return
        if isinstance(heard.event, Found):
            device = self.job.job.device if isinstance(self.job.job, AnswerJob) else "cpu"
            self._known[device] = gathered(device, [heard.event.part], self._known[device])
        if isinstance(heard.event, TERMINAL):
            self.job, self.stopped = None, isinstance(heard.event, Stopped)
            self._keep()
            self.changed.emit()
            return
        self._soon()

    def _soon(self) -> None:
        if not self._wait.isActive():
            self._wait.start()

    # -- the project

    def _keep(self) -> None:
        """Put what was measured into the project, so that saving keeps it."""
        if document := self._session.document:
            known = {d: self._own(d) for d in DEVICES}
            machines = self.runs.lab.machines if self.runs.lab else {}
            self._kept = {d: Kept(str(machines.get(d, {}).get("name", "")), k) for d, k in known.items()}
            document.keep(MEMBER, to_bytes(self._kept))
            self.kept.emit()

    def _read(self) -> None:
        """Take what the project of another document holds beside what was measured here."""
        self.error, self._kept = None, {}
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if raw is not None:
            try:
                self._kept = from_bytes(raw)
            except OptionsError as error:
                self.error = error
        self.changed.emit()


def kernel_answers_of(session: Session) -> KernelAnswers:
    """The answers of a session: one object for all that read them."""
    return session.findChild(KernelAnswers) or KernelAnswers(session)


def _parts(known: Known) -> list[Row | Fact | Ceilings | None]:
    return [known.ceilings, *known.rows, *known.facts]


def to_bytes(kept: Mapping[str, Kept]) -> bytes:
    """Rows, figures and ceilings by device, with its name."""
    data = {d: {"results": files.dumped(Results({"device": d, "name": k.machine}, "", k.known.ceilings, k.known.rows)),
                "facts": [asdict(f) for f in k.known.facts]}
            for d, k in kept.items() if k.known.rows or k.known.facts}  # fmt: skip
    return json.dumps({"version": VERSION, "devices": data}, separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(raw: bytes) -> dict[str, Kept]:
    """What `to_bytes` gave; raises OptionsError where it cannot be read."""
    try:
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(data["version"])
        return {d: _read(d, held) for d, held in data["devices"].items() if d in DEVICES}
    except Exception as error:
        raise UNREAD from error


def _read(device: str, held: dict[str, Any]) -> Kept:
    results = files.parsed(held["results"], "the project")
    facts = [Fact(str(f["name"]), float(f["value"]), str(f["unit"]), int(f["at"]), device) for f in held["facts"]]
    machine = str(results.machine.get("name") or "")
    return Kept(machine, gathered(device, [results.ceilings, *results.rows, *facts]))
