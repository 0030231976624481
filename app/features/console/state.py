"""The console's run and its output, whether or not the panel exists."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from espalier.app.features.console.echo import Echo
from espalier.app.features.console.run import ConsoleRun
from espalier.app.features.console.terminal import LINES, Line

if TYPE_CHECKING:
    from espalier.app.session.session import Session


def console_of(session: Session) -> Console:
    """The session's Console, created once."""
    return session.findChild(Console) or Console(session)


class Console(QObject):
    """Follows the actions of the window from the beginning, and keeps the newest lines of the output."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.run = ConsoleRun(session, self)
        self.echo = Echo(session, self.run.echo, self.run.document.is_own, self)
        self.lines: deque[Line] = deque(maxlen=LINES)
        self.run.shown.connect(self._keep)

    def _keep(self, replaces: bool, lines: list[Line]) -> None:
        if replaces and self.lines:
            self.lines.pop()
        self.lines.extend(lines)
