"""The menu Run; features add to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.menu import Action, always

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.shell.measuring import Measuring


def rows(session: Session, measuring: Measuring) -> list[Action]:
    """Measure, and end what runs."""
    return [
        Action("evaluate", "Evaluate", "Run", measuring.evaluate, "F5", "Evaluate", help="Measure accuracy and loss"),
        Action("evaluate_on", "Evaluate on…", "Run", measuring.evaluate_on, "Shift+F5"),
        Action("live", "Measure after every edit", "Run", measuring.toggle_live, needs=always,
               checked=lambda: measuring.is_live, words=measuring.live_words),
        Action("stop", "Stop the running job", "Run", measuring.stop, "Ctrl+.", needs=lambda: bool(session.jobs),
               group=1),
        Action("stop_and_keep", "Stop the training and keep its best weights", "Run", measuring.stop_and_keep,
               "Ctrl+Shift+.", needs=measuring.can_stop_and_keep, group=1),
    ]  # fmt: skip
