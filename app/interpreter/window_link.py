"""The window as the console's process sees it: requests to the document, and lines that the user types."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from espalier.app.features.console.messages import Line, Reply, Request, Update, Waiting, Withdraw
from espalier.app.interpreter.streams import Outgoing
from espalier.model import errors
from espalier.model.errors import EspalierError


class WindowLink:
    """Sends requests and waits for their replies. `receive`: takes an update of the document."""

    def __init__(self, outgoing: Outgoing, receive: Callable[[Update], None]) -> None:
        self._outgoing, self._receive = outgoing, receive
        self.replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.lines: queue.SimpleQueue[Line] = queue.SimpleQueue()

    def ask(self, request: Request) -> None:
        """Have the window do something. Raises the EspalierError of the window; an interrupt withdraws the request."""
        self._outgoing.send(request)
        try:
            reply = self.replies.get()
        except KeyboardInterrupt:
            self._outgoing.send(Withdraw())
            self._take(self._reply())
            raise
        self._take(reply)
        if reply.error is not None:
            raise error_of(*reply.error)

    def _reply(self) -> Reply:
        """The reply to a request that was withdrawn; further interrupts change nothing."""
        while True:
            try:
                return self.replies.get()
            except KeyboardInterrupt:
                continue

    def _take(self, reply: Reply) -> None:
        if reply.update is not None:
            self._receive(reply.update)

    def line(self) -> str:
        """A line that the user types; empty at the end of the input."""
        while not self.lines.empty():  # typed for an input() that was interrupted
            self.lines.get()
        self._outgoing.send(Waiting())
        line = self.lines.get()
        return "" if line.text is None else f"{line.text}\n"


def error_of(name: str, message: str, hint: str) -> EspalierError:
    """An error by the name of its class."""
    kind: Any = getattr(errors, name, EspalierError)
    return kind(message, hint) if isinstance(kind, type) and issubclass(kind, EspalierError) else EspalierError(
        message, hint)  # fmt: skip
