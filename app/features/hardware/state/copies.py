"""Copies of hardware modules that a person edits: kept with the project as text, in the place of the library's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.errors import OptionsError
from espalier.verilog.rtl.edited_modules import MEMBER, Edited, from_bytes, to_bytes
from espalier.verilog.rtl.library import RTL

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 400  # milliseconds after which what was typed is put into the project


class Copies(QObject):
    """`changed` tells of a copy that began, was edited or went; `kept`: the project has something to save."""

    changed = Signal(str)
    kept = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.held: dict[str, Edited] = {}
        self.error: OptionsError | None = None
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.write)
        session.opened.connect(self.read)
        session.saving.connect(self.write)

    @property
    def texts(self) -> dict[str, str]:
        """Module → text, of those that differ from ours."""
        return {e.module: e.text for e in self.held.values() if e.text != ours(e.module)}

    def begin(self, module: str, text: str) -> None:
        """Make a copy of a module, `text` being ours; one that is there stays."""
        if module not in self.held:
            self._put(Edited(module, text, text))

    def edit(self, module: str, text: str) -> None:
        """Take what was typed."""
        before = self.held[module]
        if text != before.text:
            self._put(Edited(module, text, before.original))

    def settle(self, module: str) -> None:
        """Take ours of now as the one that the copy began as: its changes have been seen."""
        before, now = self.held[module], ours(module)
        self._put(Edited(module, before.text, before.original if now is None else now))

    def revert(self, module: str) -> None:
        """Let the copy go."""
        if self.held.pop(module, None):
            self._tell(module)

    def outdated(self, module: str) -> bool:
        """Whether ours has become another since the copy was made."""
        held, now = self.held.get(module), ours(module)
        return held is not None and now is not None and held.outdated(now)

    def write(self) -> None:
        """Put the copies into the project, so that saving keeps them."""
        self._wait.stop()
        document, raw = self._session.document, to_bytes(self.held)
        if document and document.project.extras.get(MEMBER) != raw and self.error is None:
            document.keep(MEMBER, raw)
            self.kept.emit()

    def read(self) -> None:
        """Take the copies of another document."""
        self._wait.stop()
        document = self._session.document
        self.held, self.error = {}, None
        try:
            self.held = from_bytes(document.project.extras.get(MEMBER)) if document else {}
        except OptionsError as error:
            self.error = error  # what cannot be read stays in the file until something is edited
        self.changed.emit("")

    def _put(self, copy: Edited) -> None:
        self.held[copy.module] = copy
        self._tell(copy.module)

    def _tell(self, module: str) -> None:
        self.error = None
        self._wait.start()
        self.changed.emit(module)


def ours(module: str) -> str | None:
    """The library's text of a module; None of one that is generated."""
    try:
        return (RTL / f"{module}.sv").read_text(encoding="utf-8")
    except OSError:
        return None
