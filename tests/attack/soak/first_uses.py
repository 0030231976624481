"""Uses each feature once: what is imported or made at its first use is no growth."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QTabBar

from tests.attack.soak.hands import settle
from tests.attack.soak.inner import inner
from tests.attack.soak.menus import BANNED, DEMOS, SLOW

if TYPE_CHECKING:
    from tests.attack.soak.user import User

MODEL = "demo:digits-mlp"
SHORT = 1.0  # seconds of a job that would measure this machine for minutes
ROUNDS = 2  # a panel may have more to show once all the others have worked
Do = Callable[[Callable[[], object]], None]


def use_all(user: User, do: Do) -> None:
    """Open each model, look at each panel, choose each row and do each thing; `do` does it, whatever it raises."""
    for spec in (*DEMOS, f"{user.folder / 'foreign.py'}:make"):
        _open(user, spec)
        look_round(user)
    do(lambda: _start_console(user))
    for _ in range(ROUNDS):
        for row in [r.id for r in user.window.actions_table.rows if r.id not in BANNED]:
            _ready(user)
            user.note(f"first use of {row}")
            do(user.window.actions_table.actions[row].trigger)
            _rest(user, SHORT if row.startswith(SLOW) else 0.2)
        for act in user.acts:
            _ready(user)
            do(user.select)
            do(act)
            _rest(user, 0.2)
        _finish(user, 60)
        look_round(user)
    user.rest()


def look_round(user: User) -> None:
    """Each panel and each page of it; each panel as a window of its own."""
    for name, dock in user.window.docks.docks.items():
        user.window.show_dock(name)
        settle(0.1)
        for bar in inner(dock, QTabBar):
            for place in range(bar.count()):
                bar.setCurrentIndex(place)
                settle(0.05)
        dock.setFloating(True)
        settle(0.05)
        dock.setFloating(False)


def _start_console(user: User) -> None:
    """Begin the console's process, as a click into its line does."""
    _open(user, MODEL)
    user.window.host.enter_dock("console")
    panel: Any = user.window.docks.panels["console"]
    panel.run.start()
    end = time.monotonic() + 60
    while panel.run.pid is None and time.monotonic() < end:
        settle(0.1)


def _ready(user: User) -> None:
    if user.session.document is None:
        _open(user, MODEL)


def _open(user: User, spec: str, patience: float = 120.0) -> None:
    user.session.open(spec)
    _finish(user, patience)


def _finish(user: User, patience: float) -> None:
    """Wait for all jobs."""
    end = time.monotonic() + patience
    settle(0.2)
    while user.session.jobs and time.monotonic() < end:
        settle(0.1)


def _rest(user: User, seconds: float) -> None:
    """Let it be seen, then leave what is open; what takes long is stopped."""
    settle(seconds)
    user.answer_all()
    if seconds == SHORT or len(user.session.jobs) > 4:
        for job in list(user.session.jobs):
            user.session.cancel(job.id)
