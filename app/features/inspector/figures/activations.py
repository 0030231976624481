"""Activation samples of the open model by recipe state, measured on request."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.session.streamed_analysis import StreamedAnalysis
from espalier.app.translation import tr
from espalier.model.document.recipe import Step
from espalier.passes.analysis.activations import ActivationOptions, ActivationSample
from espalier.passes.jobs.kinds import AnalyseJob, Done, JobEvent
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SAMPLES = 16  # samples of the data
STATES = 4  # recipe states that are cached


@dataclass(frozen=True, slots=True)
class PortSample:
    """A sample; `number` identifies the measurement, `present`: it is of the present recipe."""

    sample: ActivationSample
    number: int
    present: bool


class ActivationSamples(QObject):
    """Caches samples per recipe state, so that undo restores them; emits `changed` at new samples."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._asking = StreamedAnalysis(session, self)
        self._samples: OrderedDict[str, dict[tuple[str, str], PortSample]] = OrderedDict()
        self._state, self._number = "", 0
        self._options: EvaluateOptions | None = None
        self._asking.part_found.connect(self._take)
        self._asking.ended.connect(lambda _: self.changed.emit())
        session.job_event.connect(self._on_event)
        session.opened.connect(self._clear)

    @property
    def busy(self) -> bool:
        """Whether a measurement is running."""
        return self._asking.busy

    @property
    def options(self) -> EvaluateOptions | None:
        """Data options of the last evaluation, else the source's data, else None."""
        document = self._session.document
        own = document.project.source.data if document else None
        return self._options or (EvaluateOptions(data=own) if own else None)

    def measure(self) -> None:
        """Measure samples of all ports under the present recipe; no effect without data."""
        options = self.options
        if options is None or self.busy:
            return
        self._state, self._number = self._present(), self._number + 1
        values: dict[str, Any] = {**asdict(options), "limit": SAMPLES}
        self._asking.ask(tr("Activations"), Step("activations", ActivationOptions(**values)))
        self.changed.emit()

    def sample(self, node: str, port: str) -> PortSample | None:
        """The newest sample of a port, or None."""
        samples = self._samples.get(self._present(), {})
        if (node, port) in samples:
            return samples[node, port]
        older = (samples[node, port] for samples in reversed(self._samples.values()) if (node, port) in samples)
        newest = next(older, None)
        return None if newest is None else replace(newest, present=False)

    def _present(self) -> str:
        document = self._session.document
        return recipe_key(document.recipe) if document else ""

    def _take(self, part: object) -> None:
        if isinstance(part, ActivationSample):
            self._samples.setdefault(self._state, {})[part.node, part.port] = PortSample(part, self._number, True)
            self._samples.move_to_end(self._state)
            while len(self._samples) > STATES:
                self._samples.popitem(last=False)

    def _on_event(self, job_event: JobEvent) -> None:
        """Adopt the data options of a finished evaluation."""
        job = job_event.job.job
        if isinstance(job, AnalyseJob) and isinstance(job_event.event, Done) and job.step.pass_name == "evaluate":
            options = job.step.options
            own = {f.name: getattr(options, f.name) for f in fields(EvaluateOptions)}  # without the subclass's fields
            self._options = EvaluateOptions(**own)

    def _clear(self) -> None:
        self._samples.clear()
        self._options = None
        self.changed.emit()
