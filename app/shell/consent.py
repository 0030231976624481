"""Asks whether code that a project names may run; the project is open with its stored graph meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from espalier.app.errors import Banner
from espalier.app.measured.live import is_evaluation
from espalier.app.session.session import Session
from espalier.app.words import plural
from espalier.model.errors import EspalierError
from espalier.model.opening import needs_source
from espalier.model.trust import Decision, begin_session, beside, decide, refused, wanted_code
from espalier.passes.jobs.kinds import AnalyseJob, Failed, JobEvent, JobInfo
from espalier.passes.running.splits import EvaluateOptions


class Consent:
    """The question of one window; its workers hear the answer through the environment and a file of the program's."""

    def __init__(self, session: Session, banner: Banner) -> None:
        begin_session()
        self._session, self._banner = session, banner
        self._waiting: JobInfo | None = None  # the evaluation that failed for want of the code
        session.opened.connect(self.ask)
        session.job_event.connect(self._hear)

    def ask(self) -> None:
        """Ask where the open model cannot run without code that the user has not allowed; never twice."""
        self._waiting = None
        path = self._wanted()
        if path is not None and not refused(path):
            self._ask(path)

    def _wanted(self) -> Path | None:
        """The code that the open model cannot run without, and that may not run yet."""
        document = self._session.document
        if document is None or not needs_source(document.project.base):
            return None
        return wanted_code(document.project.source.spec)

    def _ask(self, path: Path) -> None:
        def answer(decision: Decision) -> Callable[[], object]:
            return lambda: self._decide(path, decision)

        others = beside(path)
        more = f" It can import {plural(others, 'file')} beside it, which are allowed with it." if others else ""
        self._banner.offer(
            f"This project wants to run {path.name}, which could do anything with your files ({path}).",
            f"Its graph is shown without it; measuring and training need it. Read the file before you allow it.{more}",
            [(title, answer(decision)) for title, decision in _ANSWERS],
        )

    def _hear(self, heard: JobEvent) -> None:
        """Ask again in place of the error, where what the user asked for failed for want of the code."""
        path = self._wanted() if isinstance(heard.event, Failed) else None
        if path is not None and isinstance(heard.event, Failed) and str(path) in heard.event.message:
            self._waiting = heard.job if is_evaluation(heard.job) else None
            self._ask(path)

    def name(self, spec: str) -> None:
        """The user named a source: code of it may run in this window."""
        path = wanted_code(spec)
        if path is not None:
            self._decide(path, "once")

    def _decide(self, path: Path, decision: Decision) -> None:
        self._banner.drop()
        waiting, self._waiting = self._waiting, None
        try:
            decide(path, decision)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        if waiting is not None and isinstance(waiting.job, AnalyseJob) and decision != "never":
            self._session.evaluate(plain(waiting.job.step.options))


def plain(options: EvaluateOptions) -> EvaluateOptions:
    """What an evaluation was of, without what it was compared with."""
    return EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})


_ANSWERS: tuple[tuple[str, Decision], ...] = (
    ("Allow for this project", "always"), ("Allow once", "once"), ("Never", "never"),
)  # fmt: skip
