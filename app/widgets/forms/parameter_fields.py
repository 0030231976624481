"""The fields for the parameters of a number format, derived from the fields of its class."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import MIXED, OPTION, Check, Choice, NumberField, Scalar, error_of, scalar
from espalier.model.document.codec import hints
from espalier.model.formats.base import Format

CELLS, CELL_WIDTH = 2, 40  # of the row of a compact editor: parameters, and pixels of each


class ParameterFields(QObject):
    """One widget per parameter of `kind`: the first CELLS in `row`, if given, the others with captions in `more`.

    `changed` carries the name of an edited parameter, `entered` signals the end of typing a number.
    """

    changed = Signal(str)
    entered = Signal()

    def __init__(self, parent: QWidget, row: QHBoxLayout | None) -> None:
        super().__init__(parent)
        self._row = row
        self._cells = CELLS if row is not None else 0
        self.kind: type[Format] | None = None
        self.widgets: dict[str, Scalar] = {}
        self.captions: list[QLabel] = []
        self.more = QWidget()
        self._grid = QGridLayout(self.more)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(4)
        self._blanks = [_blank() for _ in range(self._cells)]
        for blank in self._blanks:
            assert row is not None
            row.addWidget(blank)

    def build(self, kind: type[Format] | None) -> None:
        """Create the widgets for a format class; None for float."""
        if kind is self.kind:
            return
        self.kind = kind
        for old in (*self.widgets.values(), *self.captions):
            old.hide()
            old.setParent(None)
            old.deleteLater()
        self.widgets, self.captions = {}, []
        types = hints(kind) if kind else {}
        for field in fields(kind) if kind else ():
            widget = scalar(types[field.name], field.metadata)
            if widget is not None:
                self._add(field.name, tr(field.metadata.get("help", "")), widget)
        for i, blank in enumerate(self._blanks):
            blank.setVisible(i >= len(self.widgets))
        self.more.setVisible(bool(self._grid.count()))

    def _add(self, name: str, help_text: str, widget: Scalar) -> None:
        index = len(self.widgets)
        self.widgets[name] = widget
        widget.edited.connect(lambda: self.changed.emit(name))
        widget.setAccessibleName(title := tr(name.replace("_", " ")))
        widget.setProperty(OPTION, name)
        widget.setToolTip(f"{title}: {help_text}" if help_text else title)
        in_row = index < self._cells
        if isinstance(widget, NumberField):
            widget.editingFinished.connect(self.entered)
            if widget.optional:
                widget.set_empty_text(tr("std") if in_row else tr("standard"))
        if self._row is not None and in_row:
            own = widget.whole_width() if isinstance(widget, Choice) else 0  # else its words are cut
            widget.setFixedWidth(max(CELL_WIDTH, own))
            self._row.insertWidget(1 + index, widget)
            return
        caption = QLabel(title)
        caption.setProperty("role", "small")
        self.captions.append(caption)
        if isinstance(widget, NumberField):
            widget.setFixedWidth(72 if widget.optional else 56)
        self._grid.addWidget(caption)
        self._grid.addWidget(widget)

    def show_applicable(self) -> None:
        """Lay out the captioned widgets that apply with the other values; a hidden invalid one is reset."""
        conditions = {f.name: f.metadata.get("when") for f in fields(self.kind)} if self.kind else {}
        defaults = {f.name: f.default for f in fields(self.kind)} if self.kind else {}
        position = 0
        for name, caption in zip(list(self.widgets)[self._cells :], self.captions, strict=True):
            widget, when = self.widgets[name], conditions[name]
            applies = when is None or is_mixed(self.widgets[when[0]]) or self.widgets[when[0]].get() == when[1]
            for part in (caption, widget):
                self._grid.removeWidget(part)
                part.setVisible(applies)
            if not applies and error_of(widget.get):
                widget.put(defaults[name])  # a hidden error could not be corrected
            if applies:
                self._grid.addWidget(caption, position // 2, position % 2 * 2)
                self._grid.addWidget(widget, position // 2, position % 2 * 2 + 1, Qt.AlignmentFlag.AlignLeft)
                position += 1

    def put(self, values: dict[str, Any]) -> None:
        """Show the values of parameters by name."""
        for name, value in values.items():
            self.widgets[name].put(value)

    def values(self) -> dict[str, Any]:
        """The values by name. Raises OptionsError."""
        return {name: widget.get() for name, widget in self.widgets.items()}

    @property
    def mixed(self) -> bool:
        """Whether any widget shows MIXED."""
        return any(is_mixed(w) for w in self.widgets.values())


def is_mixed(widget: Scalar) -> bool:
    """Whether a widget shows several values as MIXED."""
    if isinstance(widget, Check):
        return widget.isTristate()
    if isinstance(widget, Choice):
        return widget.currentIndex() < 0
    if isinstance(widget, NumberField):
        return widget.mixed
    return widget.placeholderText() == MIXED and not widget.text()


def _blank() -> QWidget:
    blank = QWidget()
    blank.setFixedWidth(CELL_WIDTH)
    return blank
