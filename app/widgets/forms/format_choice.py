"""A combo box of formats with a list grouped by family and a search by name, title or alias (also MASE names)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout

from espalier.app.translation import tr
from espalier.app.widgets.asking import ASKING, item_text, offer_meaning, plain_item
from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.model.errors import FormatError
from espalier.model.formats.base import named_format
from espalier.model.registry import FORMATS

FAMILIES: dict[str, tuple[str, ...]] = {
    "fixed point": ("integer", "scaled_integer", "scaled_element", "offset_integer"),
    "float": ("minifloat_ieee", "minifloat_denorm"),
    "block": ("mxint", "mxfp", "nvfp4", "nvfp4_row", "block_fp", "block_minifloat", "block_log"),
    "log": ("log",),
    "binary": ("binary", "binary_scaled", "binary_residual", "ternary"),
}
OTHERS = tr("from plug-ins")
WIDTH, MAX_HEIGHT = 270, 420  # pixels of the list
EDGE = 4  # pixels between the list and the border of the screen
VALUE = Qt.ItemDataRole.UserRole


def grouped(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(family, names of its formats) among `names`; "" for entries that are not formats."""
    in_families = {n for members in FAMILIES.values() for n in members}
    yield "", tuple(n for n in names if n not in FORMATS)
    for family, members in FAMILIES.items():
        yield family, tuple(n for n in members if n in names)
    yield OTHERS, tuple(n for n in names if n in FORMATS and n not in in_families)


def matches(name: str, query: str) -> bool:
    """Whether each word of a query is in the name, title, family or an alias of a format."""
    text = f"{name} {name.replace('_', ' ')}"
    if name in FORMATS:
        fmt = FORMATS.get(name)
        family = next((f for f, members in FAMILIES.items() if name in members), OTHERS)
        text = " ".join((text, tr(fmt.title), family, *fmt.aliases))
    text = text.casefold()
    return all(word in text for word in query.casefold().split())


def preset_of(name: str, query: str) -> dict[str, Any]:
    """The parameters that a query sets if it is an alias of the format `name`, such as the width by `int4`."""
    try:
        fmt, preset = named_format(query.strip())
    except FormatError:
        return {}
    return preset if fmt.name == name else {}


class FormatChoice(Choice):
    """A Choice whose list has groups and a search field; typing on the closed field opens it.

    `preset`: the parameters set by the search, while `edited` is emitted.
    """

    def __init__(self, names: tuple[Any, ...]) -> None:
        super().__init__(names)
        offer_meaning(self, lambda _: self.currentText())
        self._list: FormatList | None = None
        self.preset: dict[str, Any] = {}

    def showPopup(self) -> None:
        self.open_list()

    def open_list(self, query: str = "") -> FormatList:
        """Show the list below the field, filtered by `query`."""
        current = self.values[self.currentIndex()] if self.currentIndex() >= 0 else None
        popup = self._list = FormatList(self, self.values, current)
        popup.picked.connect(self._pick)
        popup.move(self._popup_position(popup))
        popup.show()
        popup.search.setFocus()
        popup.search.setText(query)
        return popup

    def _popup_position(self, popup: FormatList) -> QPoint:
        """The position below the field, shifted onto the screen."""
        corner = self.mapToGlobal(QPoint(0, self.height()))
        area = self.screen().availableGeometry().adjusted(EDGE, EDGE, -EDGE, -EDGE)
        right, bottom = area.right() + 1 - popup.width(), area.bottom() + 1 - popup.height()
        return QPoint(max(area.left(), min(corner.x(), right)), max(area.top(), min(corner.y(), bottom)))

    def _pick(self, value: object, preset: dict[str, Any]) -> None:
        index = self.values.index(value)
        self.setCurrentIndex(index)
        self.preset = preset
        self.activated.emit(index)
        self.preset = {}

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = not event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        if plain and event.text().isalnum():
            self.open_list(event.text())
        else:
            super().keyPressEvent(event)


class FormatList(QFrame):
    """The open list; `picked` carries the chosen value and the parameters set by the search."""

    picked = Signal(object, dict)

    def __init__(self, owner: Choice, values: tuple[Any, ...], current: object) -> None:
        super().__init__(owner, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.values, self._current = values, current
        self.search, self.items = QLineEdit(), QListWidget()
        self.search.setPlaceholderText(tr("Search by name, alias or layer"))
        self.search.setAccessibleName(tr("search formats"))
        self.search.textChanged.connect(self._fill)
        self.search.installEventFilter(self)
        self.items.setFrameShape(QFrame.Shape.NoFrame)
        self.items.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.items.setAccessibleName(tr("formats"))
        self.items.itemClicked.connect(self._accept)
        offer_meaning(self.items, partial(item_text, self.items))
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 6, 6, 6)
        column.setSpacing(4)
        column.addWidget(self.search)
        column.addWidget(self.items)
        self._fill("")

    def offered(self) -> list[str]:
        """The values listed at present."""
        rows = [self.items.item(i).data(VALUE) for i in range(self.items.count())]
        return [r for r in rows if r is not None]

    def _fill(self, query: str) -> None:
        self.items.clear()
        for family, names in grouped(self.values):
            matching = [n for n in names if matches(n, query)]
            if matching and family:
                self._add_heading(family)
            for name in matching:
                self._add_row(name, preset_of(name, query))
        if not self.offered():
            self._add_heading(tr("no such format"))
        self._set_current(query)
        height = self.items.sizeHintForRow(0) * self.items.count() + 52
        self.setFixedSize(WIDTH, min(height, MAX_HEIGHT))

    def _add_heading(self, text: str) -> None:
        item = QListWidgetItem(text.upper())
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        font = QFont(self.font())
        font.setPixelSize(10)
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.7)
        item.setFont(font)
        item.setForeground(QColor(tokens(self).muted))
        self.items.addItem(item)

    def _add_row(self, name: str, preset: dict[str, Any]) -> None:
        parameters = ", ".join(f"{k.replace('_', ' ')} {v}".lower() for k, v in preset.items())
        item = QListWidgetItem(name.replace("_", " ") + (f" · {parameters}" if parameters else ""))
        item.setData(VALUE, name)
        if name in FORMATS:
            fmt = FORMATS.get(name)
            item.setToolTip(
                "\n".join((tr(fmt.title), fmt.formula, tr("Also: {}", ", ".join(fmt.aliases)) if fmt.aliases else ""))
            )
        self.items.addItem(item)

    def _set_current(self, query: str) -> None:
        """Make the chosen value the current row, or with a query the first match."""
        rows = [i for i in range(self.items.count()) if self.items.item(i).data(VALUE) is not None]
        chosen = [i for i in rows if self.items.item(i).data(VALUE) == self._current]
        if rows:
            self.items.setCurrentRow((rows if query else [*chosen, *rows])[0])

    def _ask(self) -> None:
        """Ask for the meaning of the current format; the window does not get keys while the list is open."""
        if (item := self.items.currentItem()) is not None:
            corner = self.items.visualItemRect(item).bottomLeft()
            ASKING.asked.emit(plain_item(item.text()), self.items.viewport().mapToGlobal(corner))

    def _accept(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(VALUE) is not None:
            self.picked.emit(item.data(VALUE), preset_of(item.data(VALUE), self.search.text()))
            self.close()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The search field keeps the focus: arrows move in the list, Enter chooses, Escape closes."""
        escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if escape and event.type() == QEvent.Type.ShortcutOverride:  # otherwise the panel behind handles it
            event.accept()
            return True
        if escape and event.type() == QEvent.Type.KeyPress:
            self.close()
            return True
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_F1 and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._ask()
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._accept(self.items.currentItem())
                return True
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
                self.items.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)
