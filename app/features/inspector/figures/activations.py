"""What is known of the activations of the open model: samples by state of the recipe, measured when asked for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.session.asking import Asking
from espalier.model.document.recipe import Step
from espalier.passes.analysis.activations import ActivationOptions, ActivationSample
from espalier.passes.jobs.kinds import AnalyseJob, Done, JobEvent
from espalier.passes.recipes.replay import recipe_key
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SAMPLES = 16  # of the data
KEPT = 4  # states of the recipe


@dataclass(frozen=True, slots=True)
class Known:
    """A sample; `number` tells measurements apart, `present` whether it is of the present recipe."""

    sample: ActivationSample
    number: int
    present: bool


class ActivationSamples(QObject):
    """`sample` gives the newest one of a port; undo finds those of earlier states again."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._asking = Asking(session, self)
        self._found: OrderedDict[str, dict[tuple[str, str], Known]] = OrderedDict()
        self._state, self._number = "", 0
        self._options: EvaluateOptions | None = None
        self._asking.found.connect(self._take)
        self._asking.ended.connect(lambda _: self.changed.emit())
        session.job_event.connect(self._overhear)
        session.opened.connect(self._forget)

    @property
    def busy(self) -> bool:
        """Whether they are being measured."""
        return self._asking.busy

    @property
    def options(self) -> EvaluateOptions | None:
        """The data of the last evaluation, or the source's own; None where neither is known."""
        document = self._session.document
        own = document.project.source.data if document else None
        return self._options or (EvaluateOptions(data=own) if own else None)

    def measure(self) -> None:
        """Ask for samples of all ports under the present recipe; does nothing where no data is known."""
        known = self.options
        if known is None or self.busy:
            return
        self._state, self._number = self._present(), self._number + 1
        values: dict[str, Any] = {**asdict(known), "limit": SAMPLES}
        self._asking.ask("Activations", Step("activations", ActivationOptions(**values)))
        self.changed.emit()

    def sample(self, node: str, port: str) -> Known | None:
        """The newest sample of a port; None before any was measured."""
        found = self._found.get(self._present(), {})
        if (node, port) in found:
            return found[node, port]
        older = (found[node, port] for found in reversed(self._found.values()) if (node, port) in found)
        newest = next(older, None)
        return None if newest is None else replace(newest, present=False)

    def _present(self) -> str:
        document = self._session.document
        return recipe_key(document.recipe) if document else ""

    def _take(self, part: object) -> None:
        if isinstance(part, ActivationSample):
            self._found.setdefault(self._state, {})[part.node, part.port] = Known(part, self._number, True)
            self._found.move_to_end(self._state)
            while len(self._found) > KEPT:
                self._found.popitem(last=False)

    def _overhear(self, heard: JobEvent) -> None:
        """What an evaluation was asked to run on is what activations are measured on."""
        job = heard.job.job
        if isinstance(job, AnalyseJob) and isinstance(heard.event, Done) and job.step.pass_name == "evaluate":
            given = job.step.options
            own = {f.name: getattr(given, f.name) for f in fields(EvaluateOptions)}  # less what it told besides
            self._options = EvaluateOptions(**own)

    def _forget(self) -> None:
        self._found.clear()
        self._options = None
        self.changed.emit()
