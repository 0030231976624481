"""Recipe panel: the steps applied to the model, in order; steps can be toggled, edited, moved and removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QMimeData, QModelIndex, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QLabel, QListView, QMenu, QVBoxLayout, QWidget

from espalier.app.features.recipe.paint import LINE, Line, RecipePainter
from espalier.app.features.recipe.state import failed_edit_of
from espalier.app.number_text import plural
from espalier.app.step_text import origin, result, summary, title
from espalier.app.translation import tr
from espalier.app.widgets.heading import empty_state
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.pasted import parse_recipe
from espalier.passes.saved import outdated, with_members

if TYPE_CHECKING:
    from espalier.app.session.session import Session

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
MIME = "application/x-espalier-step"
PENDING = "pending"


class RecipeModel(QAbstractListModel):
    """List model: row 0 is the trace, followed by the steps."""

    moved = Signal(int, int)
    switched = Signal(int, bool)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.lines: list[Line] = []
        self._failed = failed_edit_of(session)

    @property
    def error(self) -> str:
        """Why the last change was not applied."""
        return self._failed.message

    def refresh(self) -> None:
        """Read the recipe again."""
        if (lines := self._read()) != self.lines:
            self.beginResetModel()
            self.lines = lines
            self.endResetModel()

    def _read(self) -> list[Line]:
        document = self._session.document
        if document is None:
            return []
        lines = [Line(tr("Trace"), origin(document.project.source), "", None)]
        recipe = self._session.recipe  # including pending edits
        done, active, saved = recipe.common(document.recipe), 0, self._session.saved_selections.saved
        reports = iter(self._session.step_reports(recipe))
        for i, step in enumerate(recipe.steps):
            report = next(reports, None) if step.enabled else None
            active += step.enabled
            outcome = result(report, step) if report or not step.enabled or active <= done else PENDING
            if names := outdated(step.options, saved):
                outcome = " · ".join(filter(None, (outcome, tr("{} changed since", tr(" and ").join(names)))))
            lines.append(Line(title(step), summary(step, document.project.base), outcome, i, step.enabled))
        if self.error:
            lines.append(Line(tr("Not applied"), self.error, "", -1, True, self.error))
        return lines

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Value of a row for a role."""
        line = self.lines[index.row()]
        if role == LINE:
            return line
        if role == Qt.ItemDataRole.DisplayRole:
            return ". ".join(t for t in (line.title, line.summary, line.result) if t)
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(t for t in (line.summary, line.result) if t)
        if role == Qt.ItemDataRole.CheckStateRole and self._is_step(line):
            return Qt.CheckState.Checked if line.enabled else Qt.CheckState.Unchecked
        return None

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:
        line = self.lines[index.row()]
        if role != Qt.ItemDataRole.CheckStateRole or line.step is None or not self._is_step(line):
            return False
        self.switched.emit(line.step, not line.enabled)
        return True

    @staticmethod
    def _is_step(line: Line) -> bool:
        return line.step is not None and line.step >= 0

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Steps can be dragged and toggled; the trace cannot."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flag = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if self._is_step(self.lines[index.row()]):
            flag |= Qt.ItemFlag.ItemIsUserCheckable | Qt.ItemFlag.ItemIsDragEnabled
        return flag

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [MIME]

    def mimeData(self, indexes: list[QModelIndex]) -> QMimeData:
        data = QMimeData()
        data.setData(MIME, str(self.lines[indexes[0].row()].step).encode())
        return data

    def dropMimeData(self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index) -> bool:
        if not data.hasFormat(MIME):
            return False
        start = int(bytes(data.data(MIME).data()))
        target = (row if row >= 0 else len(self.lines)) - 1
        last = sum(self._is_step(line) for line in self.lines) - 1
        to = min(max(target - 1 if target > start else target, 0), last)
        if to != start:
            self.moved.emit(start, to)
        return False  # the document moves the step; the view must not remove the row too


class RecipePanel(QWidget):
    """The list of steps with its keyboard shortcuts and context menu."""

    edit_wanted = Signal(int)
    sweep_wanted = Signal(int)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.model = RecipeModel(session)
        self.view = _Steps(self)
        self.view.setModel(self.model)
        self._empty: QLabel = empty_state(tr("No model is open, so there is no recipe yet."))
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 4)
        box.addWidget(self._empty)
        box.addWidget(self.view, 1)
        self.setFocusProxy(self.view)
        self.model.moved.connect(self._move)
        self.model.switched.connect(session.enable_step)
        self.view.customContextMenuRequested.connect(self._menu)
        self.view.doubleClicked.connect(lambda _: self.edit())
        session.opened.connect(self.refresh)
        session.changed.connect(lambda _: self.refresh())
        session.pending_changed.connect(self.refresh)
        session.saved_selections.changed.connect(self.refresh)
        failed_edit_of(session).changed.connect(self.refresh)
        self.refresh()

    @property
    def step(self) -> int | None:
        """The chosen step."""
        row = self.view.currentIndex().row()
        step = self.model.lines[row].step if 0 <= row < len(self.model.lines) else None
        return step if step is not None and step >= 0 else None

    def refresh(self) -> None:
        """Show the current recipe."""
        row = self.view.currentIndex().row()
        self.model.refresh()
        self.view.setCurrentIndex(self.model.index(min(row, len(self.model.lines) - 1)))
        self._empty.setVisible(not self.model.lines)
        self.view.setVisible(bool(self.model.lines))

    def edit(self) -> None:
        """Request the options form of the chosen step."""
        if self.step is not None:
            self.edit_wanted.emit(self.step)

    def remove(self) -> None:
        """Remove the chosen step."""
        if self.step is not None:
            self._session.remove_step(self.step)

    def switch(self) -> None:
        """Enable or disable the chosen step."""
        if self.step is not None and self._session.document:
            self._session.enable_step(self.step, not self._session.recipe.steps[self.step].enabled)

    def shift(self, by: int) -> None:
        """Move the chosen step up or down."""
        step = self.step
        if self._session.document and step is not None and 0 <= step + by < len(self._session.recipe):
            self._move(step, step + by)

    def sweep(self) -> None:
        """Request a sweep of the chosen step."""
        if self.step is not None:
            self.sweep_wanted.emit(self.step)

    def duplicate(self) -> None:
        """Insert a copy of the chosen step after it."""
        if (index := self.step) is not None:
            step = self._session.recipe.steps[index]
            self._session.set_recipe(self._session.recipe.insert(index + 1, step), tr("Duplicate {}", title(step)))

    def renew(self) -> None:
        """Let the chosen step take the nodes that its saved selections have now."""
        if (index := self.step) is not None:
            step = self._session.recipe.steps[index]
            options = with_members(step.options, self._session.saved_selections.saved, strict=False, renew=True)
            self._session.set_step(index, replace(step, options=options))

    def copy(self) -> None:
        """Copy the chosen step, or the whole recipe without a choice, as JSON that `espalier run` reads too."""
        index = self.step
        if self._session.document:
            steps = self._session.recipe.steps
            steps = steps if index is None else (steps[index],)
            text = json.dumps(recipe_to_dict(Recipe(steps)), indent=1, ensure_ascii=False)
            QGuiApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Insert the steps on the clipboard after the chosen one: TOML, JSON or the Python dict of MASE."""
        if self._session.document:
            try:
                steps = parse_recipe(QGuiApplication.clipboard().text()).steps
            except EspalierError as error:
                self._session.problem.emit(error)
                return
            recipe = self._session.recipe
            position = len(recipe) if self.step is None else self.step + 1
            self._session.set_recipe(recipe.insert(position, *steps), tr("Paste {}", plural(len(steps), "step")))

    def _move(self, start: int, to: int) -> None:
        self._session.move_step(start, to)
        self.view.setCurrentIndex(self.model.index(to + 1))

    def _menu(self, at: QPoint) -> None:
        step = self.step
        if self._session.document is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if step is not None:
            self._add_step_actions(menu, step, self._session.recipe)
        menu.addAction(tr("Copy\tCtrl+C") if step is not None else tr("Copy the recipe\tCtrl+C"), self.copy)
        menu.addAction(tr("Paste steps\tCtrl+V"), self.paste)
        menu.popup(self.view.viewport().mapToGlobal(at))

    def _add_step_actions(self, menu: QMenu, step: int, recipe: Recipe) -> None:
        """Add the actions of a step."""
        menu.addAction(tr("Edit…\tEnter"), self.edit)
        menu.addAction(tr("Disable\tSpace") if recipe.steps[step].enabled else tr("Enable\tSpace"), self.switch)
        menu.addAction(tr("Sweep this…\tCtrl+L"), lambda: self.sweep_wanted.emit(step))
        menu.addSeparator()
        menu.addAction(tr("Move up\tAlt+Up"), lambda: self.shift(-1)).setEnabled(step > 0)
        menu.addAction(tr("Move down\tAlt+Down"), lambda: self.shift(1)).setEnabled(step < len(recipe) - 1)
        menu.addSeparator()
        if outdated(recipe.steps[step].options, self._session.saved_selections.saved):
            menu.addAction(tr("Use the saved selection as it is now"), self.renew)
        menu.addAction(tr("Duplicate\tCtrl+D"), self.duplicate)
        menu.addAction(tr("Remove\tDelete"), self.remove)
        menu.addSeparator()


class _Steps(QListView):
    """List view with keyboard shortcuts."""

    def __init__(self, panel: RecipePanel) -> None:
        super().__init__(panel)
        self._panel = panel
        self.setItemDelegate(RecipePainter(self))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setResizeMode(QListView.ResizeMode.Adjust)  # a narrower line wraps, so its row grows
        self.setAccessibleName(tr("Recipe"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self._handle_control_key(event):
            self._handle_plain_key(event)

    def _handle_control_key(self, event: QKeyEvent) -> bool:
        """Handle Ctrl with C, V, D or L: copy, paste, duplicate, sweep."""
        keys = {Qt.Key.Key_C: self._panel.copy, Qt.Key.Key_V: self._panel.paste, Qt.Key.Key_D: self._panel.duplicate,
                Qt.Key.Key_L: self._panel.sweep}  # fmt: skip
        if event.modifiers() != Qt.KeyboardModifier.ControlModifier or event.key() not in keys:
            return False
        keys[Qt.Key(event.key())]()
        return True

    def _handle_plain_key(self, event: QKeyEvent) -> None:
        alt = bool(event.modifiers() & Qt.KeyboardModifier.AltModifier)
        keys = {
            Qt.Key.Key_Return: self._panel.edit, Qt.Key.Key_Enter: self._panel.edit, Qt.Key.Key_F2: self._panel.edit,
            Qt.Key.Key_Space: self._panel.switch, Qt.Key.Key_Delete: self._panel.remove,
        }  # fmt: skip
        if alt and event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._panel.shift(-1 if event.key() == Qt.Key.Key_Up else 1)
        elif not alt and event.key() in keys and self._panel.step is not None:
            keys[Qt.Key(event.key())]()
        else:
            super().keyPressEvent(event)
