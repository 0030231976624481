"""The workspaces of the window: a table, and the bar that switches between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QButtonGroup, QToolButton, QVBoxLayout, QWidget

from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.icons import tinted


@dataclass(frozen=True, slots=True)
class Workspace:
    """A set of panels that get the main area together. `id` names its icon too.

    `graph_beside`: whether the graph is shown at the left of the panels at first.
    """

    id: str
    title: str
    key: str
    help: str
    graph_beside: bool = True


GRAPH = "graph"
WORKSPACES: tuple[Workspace, ...] = (
    Workspace(GRAPH, tr("Graph"), "Ctrl+1", tr("The graph with its outline, its recipe and the inspector"), False),
    Workspace("compress", tr("Compress"), "Ctrl+2", tr("SQNR and sensitivity of layers, allocation of formats")),
    Workspace("experiments", tr("Experiments"), "Ctrl+3", tr("Searches, sweeps, training and plots")),
    Workspace("hardware", tr("Hardware"), "Ctrl+4", tr("SystemVerilog, simulation, cycles and area")),
    Workspace("kernels", tr("Kernels"), "Ctrl+5", tr("Timed kernels and what they compute"), False),
    Workspace("data", tr("Data"), "Ctrl+6", tr("The data that the model is scored on"), False),
    Workspace("deploy", tr("Deploy"), "Ctrl+7", tr("The model over many devices, and in the files of other programs")),
)
WIDTH, ITEM_HEIGHT, ICON, GAP = 80, 52, 20, 8  # pixels


class WorkspaceBar(QWidget):
    """One button per workspace, at the left edge of the window. `chosen`: the id of a workspace."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedWidth(WIDTH)
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(tr("Workspaces"))
        self.buttons: dict[str, QToolButton] = {}
        group = QButtonGroup(self)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, GAP, 0, GAP)
        box.setSpacing(GAP)
        for workspace in WORKSPACES:
            self.buttons[workspace.id] = button = self._button(workspace)
            group.addButton(button)
            box.addWidget(button)
        box.addStretch(1)
        self._widen()

    def _widen(self) -> None:
        """Make room for longer titles of another language."""
        width = WIDTH
        for button in self.buttons.values():
            button.ensurePolished()
            width = max(width, button.fontMetrics().horizontalAdvance(button.text()) + GAP)
        for widget in (self, *self.buttons.values()):
            widget.setFixedWidth(width)

    def _button(self, workspace: Workspace) -> QToolButton:
        button = QToolButton(self)
        button.setText(workspace.title)
        button.setObjectName(f"workspace_{workspace.id}")
        button.setProperty("workspace", True)
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setIconSize(QSize(ICON, ICON))
        button.setFixedSize(WIDTH, ITEM_HEIGHT)
        button.setToolTip(f"{workspace.help}  {QKeySequence(workspace.key).toString()}")
        button.clicked.connect(lambda: self.chosen.emit(workspace.id))
        return button

    def show_current(self, name: str) -> None:
        """Mark the workspace in front."""
        self.buttons[name].setChecked(True)

    def show_keys(self, keys: Mapping[str, tuple[str, ...]]) -> None:
        """Show the keys of the workspaces in their tooltips. `keys`: by the id of an action."""
        for workspace in WORKSPACES:
            own = keys.get(f"workspace_{workspace.id}", ())
            text = f"  {QKeySequence(own[0]).toString(QKeySequence.SequenceFormat.NativeText)}" if own else ""
            self.buttons[workspace.id].setToolTip(f"{workspace.help}{text}")

    def set_palette(self, palette: Palette) -> None:
        """Draw the icons in the colours of a theme."""
        for name, button in self.buttons.items():
            button.setIcon(tinted(name, palette.muted, palette.accent, ICON))
