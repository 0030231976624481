"""The form of a pass's options, in a window of its own that blocks nothing; it stays while something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QMenu, QPushButton, QScrollArea, QVBoxLayout, QWidget

from espalier.app.widgets.forms.fields import option_of
from espalier.app.widgets.heading import muted, warning
from espalier.model.errors import EspalierError
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.features.options.structure_outlook import StructureOutlook
    from espalier.app.session.session import Session


READING = ("text", "label", "tokenizer", "max_length", "batch_size")  # options of how data is read
FRAME = 48  # the window's own frame and title, which the screen must hold too


def make_form(options: Any, session: Session) -> QWidget:
    """A form with `value()` for an options dataclass; a training's is in parts, as in its panel.

    Where a pass looks at data, its own options come before how that data is read, which finds itself.
    """
    from espalier.app.widgets.forms.form import Form
    from espalier.app.widgets.forms.grouped import Group, GroupedForm
    from espalier.passes.running.splits import EvaluateOptions
    from espalier.passes.training.options import FinetuneOptions

    graph = session.document.graph if session.document else None
    if isinstance(options, EvaluateOptions) and type(options) is not EvaluateOptions:
        own = tuple(f.name for f in fields(options) if f.name not in READING)
        groups = Group("", own, folded=False), Group("How data is read", READING)
        made = GroupedForm(type(options), groups, graph=graph, brief=False)
        made.put(options, graph)
        made.column.addStretch(1)
        return made
    if not isinstance(options, FinetuneOptions):
        return Form(type(options), options, graph)
    from espalier.app.widgets.forms.training_groups import GROUPS

    form = GroupedForm(FinetuneOptions, (*GROUPS, Group("What trains", ("freeze",))))
    form.put(options, graph)
    form.column.addStretch(1)
    return form


def outlook_of(spec: PassSpec, form: QWidget, session: Session) -> StructureOutlook | None:
    """What stands under the form of a pass that can tell beforehand what it will do."""
    if spec.name != "prune_structured":
        return None
    from espalier.app.features.options.structure_outlook import StructureOutlook

    return StructureOutlook(session, form)


class OptionsWindow(QDialog):
    """Title, what the pass does, its options, Apply and Cancel.

    `sweep_wanted`: the option (by its path) that a right click asks to vary, where `sweepable` says that one may.
    """

    sweep_wanted = Signal(str)
    sweepable = False

    def __init__(
        self,
        parent: QWidget,
        session: Session,
        spec: PassSpec,
        form: QWidget,
        verb: str,
        apply: Callable[[Any], object],
        subject: object = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Tool)
        self.subject, self._first = subject, None
        self.setWindowTitle(spec.title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._session, self._form, self._apply_to = session, form, apply
        self._first = self._now()
        session.opened.connect(self.close)  # its options are of the document before
        self._error = warning()
        title = QLabel(spec.title)
        title.setProperty("role", "title")
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the first field has the keys
        area.setWidget(form)
        self.apply_button = QPushButton(verb)
        self.apply_button.setProperty("primary", True)
        self.apply_button.setDefault(True)
        self.apply_button.clicked.connect(self.apply)
        cancel = QPushButton("Cancel")
        cancel.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self.apply_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(16, 14, 16, 14)
        box.setSpacing(8)
        box.addWidget(title)
        box.addWidget(muted(spec.doc.split("\n\n")[0].replace("\n", " ")))
        box.addWidget(area, 1)
        self.outlook = outlook_of(spec, form, session)
        if self.outlook:
            box.addWidget(self.outlook)
            self.outlook.able.connect(self._allow)
            self.finished.connect(self.outlook.close_previews)
        box.addWidget(self._error)
        box.addLayout(buttons)
        wide = 620 if self.outlook else 460
        room = parent.screen().availableGeometry().height() - FRAME
        self.resize(wide, min(820 if self.outlook else 640, form.sizeHint().height() + 190, room))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.activateWindow()  # not every window manager gives the keys to a window of tools by itself

    def _allow(self, reason: str) -> None:
        """Apply only where something comes of it; its tool tip says why not."""
        self.apply_button.setEnabled(not reason)
        self.apply_button.setToolTip(reason)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        path = option_of(self.childAt(event.pos()), self)
        if self.sweepable and path:
            menu = QMenu(self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            words = path.rpartition(".")[2].replace("_", " ")
            menu.addAction(f"Sweep {words}…", lambda: self.sweep_wanted.emit(path))
            menu.popup(event.globalPos())

    def _now(self) -> Any:
        """The form's options, None while they are impossible."""
        try:
            return self._form.value()  # type: ignore[attr-defined]
        except EspalierError:
            return None

    def offer(self, options: Any) -> None:
        """Come to the front; take other defaults where nothing has been changed by hand."""
        if self._now() == self._first:
            self._form.put(options)  # type: ignore[attr-defined]
            self._first = self._now()
        self.raise_()
        self.activateWindow()

    def apply(self) -> None:
        """Take the options; close unless they are refused at once."""
        self._error.hide()
        self._session.problem.connect(self._refuse)
        try:
            self._apply_to(self._form.value())  # type: ignore[attr-defined]
        except EspalierError as error:
            self._refuse(error)
        finally:
            self._session.problem.disconnect(self._refuse)
        if self._error.isHidden():
            self.close()

    def _refuse(self, error: EspalierError) -> None:
        self._error.setText(f"{error.message} {error.hint}".strip())
        self._error.show()
