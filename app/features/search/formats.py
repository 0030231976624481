"""The formats of a search: a line per family with its widths as chips, or text."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.search.state.format_families import (
    ALL,
    FLOAT,
    Family,
    begun,
    chip_parameter,
    chips,
    parameters,
    read,
    write,
)
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.chips import Chips
from espalier.app.widgets.forms.fields import Line
from espalier.app.widgets.forms.format_choice import FormatChoice
from espalier.app.widgets.heading import link
from espalier.model.errors import EspalierError
from espalier.model.registry import FORMATS

SPECIAL = translated({FLOAT: "stays float", ALL: "every format at its usual widths"})
ADD = tr("+ format")


class FamilyRow(QWidget):
    """A family: its name, chips of its widths, and its other parameters as text."""

    edited = Signal()
    removed = Signal()

    def __init__(self, family: Family) -> None:
        super().__init__()
        self._family = family
        title = QLabel(family.name.replace("_", " "))
        title.setFixedHeight(19)
        words = SPECIAL.get(family.name) or (tr(FORMATS.get(family.name).title) if family.name in FORMATS else "")
        title.setToolTip(words)
        self.chips = Chips(chips(family.name), family.name)
        self.chips.put(family.get(chip_parameter(family.name)))
        self.chips.setToolTip(tr("{} of the format", tr(chip_parameter(family.name).replace("_", " "))))
        self.rest = Line(tr("other parameters, such as block=16|32"))
        self.rest.setAccessibleName(tr("{} parameters", family.name))
        self.rest.put(family.rest)
        self.more = link("…", self._open)
        self.more.setToolTip(tr("Other parameters of this format"))
        self.more.setAccessibleName(tr("Other parameters of {}", family.name))
        drop = link("×", self.removed.emit)
        drop.setAccessibleName(tr("Remove {}", family.name))
        head = QHBoxLayout()
        head.setSpacing(2)
        head.addWidget(title, 1)
        head.addWidget(self.more)
        head.addWidget(drop)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(1)
        box.addLayout(head)
        box.addWidget(self.chips)
        box.addWidget(self.rest)
        self.rest.setVisible(bool(family.rest))
        self.chips.setVisible(bool(self.chips.buttons))
        self.more.setVisible(family.name in FORMATS)
        self.chips.edited.connect(self.edited)
        self.rest.edited.connect(self.edited)

    def _open(self) -> None:
        self.rest.setVisible(not self.rest.isVisible() or bool(self.rest.text()))
        self.rest.setFocus()

    def get(self) -> Family:
        """The chosen family; raises OptionsError."""
        name = self._family.name
        family = Family(name, parameters(self.rest.text(), name))
        chosen = self.chips.get()
        return Family(name, (*(((chip_parameter(name), chosen),) if chosen else ()), *family.values))


class FormatsField(QWidget):
    """A list of families; `get` returns their text in the form of a search."""

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[FamilyRow] = []
        self.line = Line(tr("integer(width=4|8), mxint(width=4|6)"))
        self.line.setAccessibleName(tr("Formats as text"))
        self.add = FormatChoice((FLOAT, ALL, *FORMATS))
        self.add.setPlaceholderText(ADD)
        self.add.setCurrentIndex(-1)
        self.add.setAccessibleName(tr("Add a format"))
        self._toggle = link(tr("as text"), self._switch)
        self._column = QVBoxLayout()
        self._column.setSpacing(6)
        foot = QHBoxLayout()
        foot.addWidget(self.add)
        foot.addStretch(1)
        foot.addWidget(self._toggle)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addLayout(self._column)
        box.addWidget(self.line)
        box.addLayout(foot)
        self.line.hide()
        self.line.edited.connect(self.edited)
        self.add.edited.connect(self._added)

    def get(self) -> str:
        """The formats as text; raises OptionsError."""
        return self.line.get() if self.is_text else write(tuple(row.get() for row in self.rows))

    def put(self, text: str) -> None:
        """Show formats, as text if chips cannot represent them."""
        try:
            families = read(text)
        except EspalierError:
            self._as_text(True)
            self.line.put(text)
            return
        for row in list(self.rows):
            self._drop(row)
        for family in families:
            self._append(family)
        self._as_text(False)

    @property
    def is_text(self) -> bool:
        """Whether the formats are edited as text."""
        return not self.line.isHidden()

    def _as_text(self, on: bool) -> None:
        self.line.setVisible(on)
        self.add.setVisible(not on)
        for row in self.rows:
            row.setVisible(not on)
        self._toggle.setText(tr("as chips") if on else tr("as text"))

    def _switch(self) -> None:
        if self.is_text:
            text = self.line.get()
            self._as_text(False)
            self.put(text)
            self.edited.emit()
            return
        try:
            text = self.get()
        except EspalierError:
            return
        self._as_text(True)
        self.line.put(text)
        self.line.setFocus()

    def _append(self, family: Family) -> None:
        row = FamilyRow(family)
        row.edited.connect(self.edited)
        row.removed.connect(lambda: (self._drop(row), self.edited.emit()))
        self.rows.append(row)
        self._column.addWidget(row)

    def _drop(self, row: FamilyRow) -> None:
        self.rows.remove(row)
        row.hide()
        row.setParent(None)
        row.deleteLater()

    def _added(self) -> None:
        family = begun(self.add.get())
        for parameter, value in self.add.preset.items():
            family = family.put(parameter, (str(value).lower(),))
        self._append(family)
        self.add.setCurrentIndex(-1)
        self.edited.emit()
