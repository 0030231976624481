"""Window with the options form of a pass; it is not modal and stays open while the options are invalid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QMenu, QPushButton, QScrollArea, QVBoxLayout, QWidget

from espalier.app.translation import error_text, tr
from espalier.app.widgets.forms.fields import option_of
from espalier.app.widgets.heading import muted, warning
from espalier.model.errors import EspalierError
from espalier.passes.base import PassSpec

if TYPE_CHECKING:
    from espalier.app.features.options.structured_preview import StructuredPreview
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph


READ_OPTIONS = ("text", "label", "tokenizer", "max_length", "task", "batch_size")  # how data are read
FRAME = 48  # height of the window's frame and title


def make_form(options: Any, session: Session) -> QWidget:
    """A form with `value()` for an options dataclass; that of a training is grouped as in the Training panel.

    For a pass that reads data, its own options come first; how the data are read is in a folded group.
    """
    from espalier.app.widgets.forms.form import SelectEditor

    made = _made(options, session.document.graph if session.document else None)
    for editor in made.findChildren(SelectEditor):
        editor.offer_saved(tuple(session.saved_selections.saved))
    return made


def _made(options: Any, graph: Graph | None) -> QWidget:
    from espalier.app.widgets.forms.form import Form
    from espalier.app.widgets.forms.grouped_form import Group, GroupedForm
    from espalier.passes.running.splits import EvaluateOptions
    from espalier.passes.training.options import FinetuneOptions

    if isinstance(options, EvaluateOptions) and type(options) is not EvaluateOptions:
        names = tuple(f.name for f in fields(options) if f.name not in READ_OPTIONS)
        groups = Group("", names, folded=False), Group(tr("How data are read"), READ_OPTIONS)
        made = GroupedForm(type(options), groups, graph=graph, brief=False)
        made.put(options, graph)
        made.column.addStretch(1)
        return made
    if not isinstance(options, FinetuneOptions):
        return Form(type(options), options, graph)
    from espalier.app.widgets.forms.training_groups import GROUPS

    form = GroupedForm(FinetuneOptions, (*GROUPS, Group(tr("Trainable"), ("freeze",))))
    form.put(options, graph)
    form.column.addStretch(1)
    return form


def preview_of(spec: PassSpec, form: QWidget, session: Session) -> StructuredPreview | None:
    """The preview shown below the form, for passes that have one."""
    if spec.name != "prune_structured":
        return None
    from espalier.app.features.options.structured_preview import StructuredPreview

    return StructuredPreview(session, form)


class OptionsWindow(QDialog):
    """Title and description of a pass, its options, Apply and Cancel.

    `sweep_wanted`: path of the option that a right click requests to sweep, if `sweepable`.
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
        self.subject, self._initial = subject, None
        self.setWindowTitle(tr(spec.title))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._session, self._form, self._on_apply = session, form, apply
        self._initial = self._current()
        session.opened.connect(self.close)  # its options belong to the previous document
        self._error = warning()
        title = QLabel(tr(spec.title))
        title.setProperty("role", "title")
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the first field gets the keyboard focus
        area.setWidget(form)
        self.apply_button = QPushButton(verb)
        self.apply_button.setProperty("primary", True)
        self.apply_button.setDefault(True)
        self.apply_button.clicked.connect(self.apply)
        cancel = QPushButton(tr("Cancel"))
        cancel.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(self.apply_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(16, 14, 16, 14)
        box.setSpacing(8)
        box.addWidget(title)
        box.addWidget(muted(tr(spec.doc.split("\n\n")[0].replace("\n", " "))))
        box.addWidget(area, 1)
        self.preview = preview_of(spec, form, session)
        if self.preview:
            box.addWidget(self.preview)
            self.preview.able.connect(self._allow)
            self.finished.connect(self.preview.close_previews)
        box.addWidget(self._error)
        box.addLayout(buttons)
        width = 620 if self.preview else 460
        max_height = parent.screen().availableGeometry().height() - FRAME
        self.resize(width, min(820 if self.preview else 640, form.sizeHint().height() + 190, max_height))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.activateWindow()  # not every window manager focuses a tool window by itself

    def _allow(self, reason: str) -> None:
        """Enable Apply unless there is a reason against it, which the tooltip shows."""
        self.apply_button.setEnabled(not reason)
        self.apply_button.setToolTip(reason)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        path = option_of(self.childAt(event.pos()), self)
        if self.sweepable and path:
            menu = QMenu(self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            name = path.rpartition(".")[2].replace("_", " ")
            menu.addAction(tr("Sweep {}…", name), lambda: self.sweep_wanted.emit(path))
            menu.popup(event.globalPos())

    def _current(self) -> Any:
        """The form's options, None while they are invalid."""
        try:
            return self._form.value()  # type: ignore[attr-defined]
        except EspalierError:
            return None

    def offer(self, options: Any) -> None:
        """Bring the window to the front; take new defaults unless the user has edited the form."""
        if self._current() == self._initial:
            self._form.put(options)  # type: ignore[attr-defined]
            self._initial = self._current()
        self.raise_()
        self.activateWindow()

    def apply(self) -> None:
        """Apply the options; close the window unless they are refused at once."""
        self._error.hide()
        self._session.problem.connect(self._refuse)
        try:
            self._on_apply(self._form.value())  # type: ignore[attr-defined]
        except EspalierError as error:
            self._refuse(error)
        finally:
            self._session.problem.disconnect(self._refuse)
        if self._error.isHidden():
            self.close()

    def _refuse(self, error: EspalierError) -> None:
        self._error.setText(error_text(error))
        self._error.show()
