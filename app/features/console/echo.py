"""Actions in the window as lines of Python, for the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from espalier.model.document.document import Change, Edit
from espalier.model.document.recipe import Recipe, Step
from espalier.model.registry import PASSES
from espalier.passes.export.script import analysis_line, line_of, line_of_steps, opening_line
from espalier.passes.jobs.kinds import AnalyseJob

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LONGEST = 2000  # characters of a line; a step may name thousands of nodes


class Echo(QObject):
    """Calls `write` with a line per action. `is_own`: whether a change came from the console itself."""

    def __init__(
        self, session: Session, write: Callable[[str], object], is_own: Callable[[Change], bool], parent: QObject
    ) -> None:
        super().__init__(parent)
        self.enabled = True
        self._session, self._write, self._is_own = session, write, is_own
        self._edits: tuple[Edit, ...] = ()
        self._done = 0
        self._appended = 0  # steps that the last line appended; 0: another line
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.queued.connect(self._queued)

    def _line(self, text: str) -> None:
        if self.enabled:
            self._write(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")

    def _opened(self) -> None:
        document = self._session.document
        self._edits, self._done, self._appended = (), 0, 0
        if document is not None:
            path = document.path
            self._line(opening_line(document.project) if path is None else f"m = es.open({str(path)!r})")

    def _changed(self, change: Change) -> None:
        before, was_done = self._edits, self._done
        edits, done = self._edits, self._done = self._session.open_document.history
        moved = done - was_done
        if self._is_own(change):
            self._appended = 0
            return
        if _same(edits, before) and moved:
            self._appended = 0
            verb, count = ("undo", -moved) if moved < 0 else ("redo", moved)
            self._line(f"m.{verb}({count if count > 1 else ''})")
        else:
            self._edited(change)

    def _edited(self, change: Change) -> None:
        before, after = change.before.recipe.steps, change.after.recipe.steps
        if self._appended == 1 and len(before) == len(after) and before[:-1] == after[:-1]:
            self._line(f"m.undo(); {line_of(after[-1])}")  # another value of what was done last
        elif after[: len(before)] == before and len(after) > len(before):
            self._appended = len(after) - len(before)
            self._line(_lines(after[len(before) :]))
        else:
            self._appended = 0
            self._line(f"# {change.label}: {len(after)} steps now; m.recipe lists them")

    def _queued(self) -> None:
        """An analysis that was asked for by the name of its pass; those that follow each edit have other titles."""
        job = self._session.jobs[-1]
        if isinstance(job.job, AnalyseJob) and _is_report(job.job.step, job.title):
            self._line(analysis_line(job.job.step))


def _same(edits: tuple[Edit, ...], before: tuple[Edit, ...]) -> bool:
    """Whether the history is the same, however much of it is done."""
    return len(edits) == len(before) and all(a is b for a, b in zip(edits, before, strict=True))


def _lines(steps: tuple[Step, ...]) -> str:
    return line_of(steps[0]) if len(steps) == 1 else line_of_steps(Recipe(steps))


def _is_report(step: Step, title: str) -> bool:
    name = step.pass_name
    return name != "evaluate" and name in PASSES and PASSES.get(name).title == title
