"""The menu Run; features add rows to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.menu import Action, always

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.evaluation import Evaluation


def rows(session: Session, evaluation: Evaluation) -> list[Action]:
    """Rows for evaluation and for stopping jobs."""
    return [
        Action("evaluate", "Evaluate", "Run", evaluation.evaluate, "F5", "Evaluate", help="Measure accuracy and loss"),
        Action("evaluate_on", "Evaluate on…", "Run", evaluation.evaluate_on, "Shift+F5"),
        Action("live", "Measure after every edit", "Run", evaluation.toggle_live, needs=always,
               checked=lambda: evaluation.is_live, dynamic_title=evaluation.live_title),
        Action("stop", "Stop the running job", "Run", evaluation.stop, "Ctrl+.", needs=lambda: bool(session.jobs),
               group=1),
        Action("stop_and_keep", "Stop the training and keep its best weights", "Run", evaluation.stop_and_keep,
               "Ctrl+Shift+.", needs=evaluation.can_stop_and_keep, group=1),
    ]  # fmt: skip
