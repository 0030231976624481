"""Edited copies of library modules, stored in the project and used instead of the originals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.model.errors import OptionsError
from espalier.verilog.rtl.edited_modules import MEMBER, Edited, from_bytes, to_bytes
from espalier.verilog.rtl.library import RTL

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 400  # milliseconds after the last key until the project is updated


class EditedModules(QObject):
    """Emits `changed` when a copy begins, changes or is reverted, `stored` when the project is modified."""

    changed = Signal(str)
    stored = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.modules: dict[str, Edited] = {}
        self.error: OptionsError | None = None
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.write)
        session.opened.connect(self.read)
        session.saving.connect(self.write)
        self.read()

    @property
    def texts(self) -> dict[str, str]:
        """Module → text of the copies that differ from the built-in module."""
        return {e.module: e.text for e in self.modules.values() if e.text != built_in(e.module)}

    def begin(self, module: str, text: str) -> None:
        """Begin a copy of a module with its built-in text; no effect if one exists."""
        if module not in self.modules:
            self._put(Edited(module, text, text))

    def edit(self, module: str, text: str) -> None:
        """Set the text of a copy."""
        before = self.modules[module]
        if text != before.text:
            self._put(Edited(module, text, before.original))

    def settle(self, module: str) -> None:
        """Rebase a copy on the current built-in module, keeping its text."""
        before, library_text = self.modules[module], built_in(module)
        self._put(Edited(module, before.text, before.original if library_text is None else library_text))

    def revert(self, module: str) -> None:
        """Discard a copy."""
        if self.modules.pop(module, None):
            self._notify(module)

    def outdated(self, module: str) -> bool:
        """Whether the built-in module has changed since the copy was made."""
        copy, library_text = self.modules.get(module), built_in(module)
        return copy is not None and library_text is not None and copy.outdated(library_text)

    def write(self) -> None:
        """Write the copies into the project."""
        self._wait.stop()
        document, raw = self._session.document, to_bytes(self.modules)
        if document and document.project.extras.get(MEMBER) != raw and self.error is None:
            document.keep(MEMBER, raw)
            self.stored.emit()

    def read(self) -> None:
        """Read the copies of another document."""
        self._wait.stop()
        document = self._session.document
        self.modules, self.error = {}, None
        try:
            self.modules = from_bytes(document.project.extras.get(MEMBER)) if document else {}
        except OptionsError as error:
            self.error = error  # unreadable data stays in the file until an edit
        self.changed.emit("")

    def _put(self, copy: Edited) -> None:
        self.modules[copy.module] = copy
        self._notify(copy.module)

    def _notify(self, module: str) -> None:
        self.error = None
        self._wait.start()
        self.changed.emit(module)


def built_in(module: str) -> str | None:
    """The library's text of a module; None if it is generated."""
    try:
        return (RTL / f"{module}.sv").read_text(encoding="utf-8")
    except OSError:
        return None
