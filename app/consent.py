"""Asks whether code that a project names may run; the project is open with its stored graph meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.errors import Banner
from app.session import Session
from model.errors import EspalierError
from model.opening import needs_source
from model.trust import Decision, begin_session, decide, refused, wanted_code


class Consent:
    """The question of one window; its workers hear the answer through the environment and a file of the program's."""

    def __init__(self, session: Session, banner: Banner) -> None:
        begin_session()
        self._session, self._banner = session, banner
        session.opened.connect(self.ask)

    def ask(self) -> None:
        """Ask where the open model cannot run without code that the user has not allowed; never twice."""
        document = self._session.document
        if document is None or not needs_source(document.project.base):
            return
        path = wanted_code(document.project.source.spec)
        if path is None or refused(path):
            return

        def answer(decision: Decision) -> Callable[[], object]:
            return lambda: self._decide(path, decision)

        self._banner.offer(
            f"This project wants to run {path.name}, which could do anything with your files ({path}).",
            "Its graph is shown without it; measuring and training need it. Read the file before you allow it.",
            [(title, answer(decision)) for title, decision in _ANSWERS],
        )

    def name(self, spec: str) -> None:
        """The user named a source: code of it may run in this window."""
        path = wanted_code(spec)
        if path is not None:
            self._decide(path, "once")

    def _decide(self, path: Path, decision: Decision) -> None:
        self._banner.drop()
        try:
            decide(path, decision)
        except EspalierError as error:
            self._session.problem.emit(error)


_ANSWERS: tuple[tuple[str, Decision], ...] = (
    ("Allow for this project", "always"), ("Allow once", "once"), ("Never", "never"),
)  # fmt: skip
