"""Asks whether code that a project names may run; until then the project shows its stored graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from espalier.app.errors import Banner
from espalier.app.measured.live import is_evaluation
from espalier.app.number_text import plural
from espalier.app.session.session import Session
from espalier.app.translation import tr
from espalier.model.errors import EspalierError
from espalier.model.opening import needs_source
from espalier.model.trust import Decision, begin_session, beside, decide, refused, wanted_code
from espalier.passes.jobs.kinds import AnalyseJob, Failed, JobEvent, JobInfo
from espalier.passes.running.splits import EvaluateOptions


class Consent:
    """Asks in one window; its workers read the answer from the environment and from a file of the program."""

    def __init__(self, session: Session, banner: Banner) -> None:
        begin_session()
        self._session, self._banner = session, banner
        self._blocked: JobInfo | None = None  # the evaluation that failed because the code may not run
        session.opened.connect(self.ask)
        session.job_event.connect(self._job_event)

    def ask(self) -> None:
        """Ask if the open model needs code that the user has neither allowed nor refused."""
        self._blocked = None
        path = self._needed_code()
        if path is not None and not refused(path):
            self._ask(path)

    def _needed_code(self) -> Path | None:
        """The file that the open model needs to run and that is not allowed yet."""
        document = self._session.document
        if document is None or not needs_source(document.project.base):
            return None
        return wanted_code(document.project.source.spec)

    def _ask(self, path: Path) -> None:
        def answer(decision: Decision) -> Callable[[], object]:
            return lambda: self._decide(path, decision)

        others = beside(path)
        imports = (
            tr(" It can import {} of its folder, which are allowed with it.", plural(others, "file")) if others else ""
        )
        self._banner.offer(
            tr("This project needs to run {}, which could do anything with your files ({}).", path.name, path),
            tr("Evaluation and training need it; the graph does not. Read the file before you allow it.{}", imports),
            [(title, answer(decision)) for title, decision in _ANSWERS],
        )

    def _job_event(self, event: JobEvent) -> None:
        """Ask again, instead of the error, if a job failed because the code may not run."""
        path = self._needed_code() if isinstance(event.event, Failed) else None
        if path is not None and isinstance(event.event, Failed) and str(path) in event.event.message:
            self._blocked = event.job if is_evaluation(event.job) else None
            self._ask(path)

    def allow_named(self, spec: str) -> None:
        """Allow the code of a source that the user named, in this window."""
        path = wanted_code(spec)
        if path is not None:
            self._decide(path, "once")

    def _decide(self, path: Path, decision: Decision) -> None:
        self._banner.drop_offer()
        blocked, self._blocked = self._blocked, None
        try:
            decide(path, decision)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        if blocked is not None and isinstance(blocked.job, AnalyseJob) and decision != "never":
            self._session.evaluate(without_baseline(blocked.job.step.options))


def without_baseline(options: EvaluateOptions) -> EvaluateOptions:
    """The options of an evaluation without the baseline that it compares with."""
    return EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})


_ANSWERS: tuple[tuple[str, Decision], ...] = (
    (tr("Allow for this project"), "always"), (tr("Allow once"), "once"), (tr("Never"), "never"),
)  # fmt: skip
