"""The list of formats: grouped by family, found by name, title or any alias (MASE's layer names among them)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout

from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.model.errors import FormatError
from espalier.model.formats.base import named_format
from espalier.model.registry import FORMATS

FAMILIES: dict[str, tuple[str, ...]] = {
    "fixed point": ("integer", "scaled_integer"),
    "float": ("minifloat_ieee", "minifloat_denorm"),
    "block": ("mxint", "mxfp", "nvfp4", "block_fp", "block_minifloat", "block_log"),
    "log": ("log",),
    "binary": ("binary", "binary_scaled", "binary_residual", "ternary"),
}
OTHERS = "from plug-ins"
WIDTH, TALL = 270, 420
EDGE = 4  # between the list and the screen's border
VALUE = Qt.ItemDataRole.UserRole


def grouped(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(family, names of its formats) of those that are offered; "" for what is no format; in the order of reading."""
    known = {n for members in FAMILIES.values() for n in members}
    yield "", tuple(n for n in names if n not in FORMATS)
    for family, members in FAMILIES.items():
        yield family, tuple(n for n in members if n in names)
    yield OTHERS, tuple(n for n in names if n in FORMATS and n not in known)


def meets(name: str, wish: str) -> bool:
    """Whether a format is what the words of a search mean; each must be in its name, title, family or an alias."""
    text = f"{name} {name.replace('_', ' ')}"
    if name in FORMATS:
        fmt = FORMATS.get(name)
        family = next((f for f, members in FAMILIES.items() if name in members), OTHERS)
        text = " ".join((text, fmt.title, family, *fmt.aliases))
    text = text.casefold()
    return all(word in text for word in wish.casefold().split())


def meant(name: str, wish: str) -> dict[str, Any]:
    """What a search says of the parameters of the format `name`: `int4` of the width; nothing unless it is an alias."""
    try:
        found, preset = named_format(wish.strip())
    except FormatError:
        return {}
    return preset if found.name == name else {}


class FormatChoice(Choice):
    """As `Choice`, but its list has groups and a field to search in; typing on the closed field opens it.

    `preset`: what the words of the search said of the parameters, while `edited` tells of the choice.
    """

    def __init__(self, names: tuple[Any, ...]) -> None:
        super().__init__(names)
        self._list: FormatList | None = None
        self.preset: dict[str, Any] = {}

    def showPopup(self) -> None:
        self.open_list()

    def open_list(self, wish: str = "") -> FormatList:
        """Show the list below the field, searched for `wish`."""
        now = self.values[self.currentIndex()] if self.currentIndex() >= 0 else None
        found = self._list = FormatList(self, self.values, now)
        found.picked.connect(self._pick)
        found.move(self._place(found))
        found.show()
        found.search.setFocus()
        found.search.setText(wish)
        return found

    def _place(self, found: FormatList) -> QPoint:
        """Below the field, moved as far as it takes to be on the screen."""
        at = self.mapToGlobal(QPoint(0, self.height()))
        room = self.screen().availableGeometry().adjusted(EDGE, EDGE, -EDGE, -EDGE)
        right, low = room.right() + 1 - found.width(), room.bottom() + 1 - found.height()
        return QPoint(max(room.left(), min(at.x(), right)), max(room.top(), min(at.y(), low)))

    def _pick(self, value: object, preset: dict[str, Any]) -> None:
        number = self.values.index(value)
        self.setCurrentIndex(number)
        self.preset = preset
        self.activated.emit(number)
        self.preset = {}

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = not event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        if plain and event.text().isalnum():
            self.open_list(event.text())
        else:
            super().keyPressEvent(event)


class FormatList(QFrame):
    """The open list; `picked` tells the value that was chosen, and what the search said of its parameters."""

    picked = Signal(object, dict)

    def __init__(self, owner: Choice, values: tuple[Any, ...], now: object) -> None:
        super().__init__(owner, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.values, self._now = values, now
        self.search, self.items = QLineEdit(), QListWidget()
        self.search.setPlaceholderText("Search by name, alias or layer")
        self.search.setAccessibleName("search formats")
        self.search.textChanged.connect(self._fill)
        self.search.installEventFilter(self)
        self.items.setFrameShape(QFrame.Shape.NoFrame)
        self.items.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.items.setAccessibleName("formats")
        self.items.itemClicked.connect(self._take)
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 6, 6, 6)
        column.setSpacing(4)
        column.addWidget(self.search)
        column.addWidget(self.items)
        self._fill("")

    def offered(self) -> list[str]:
        """The values in the list as it is."""
        rows = [self.items.item(i).data(VALUE) for i in range(self.items.count())]
        return [r for r in rows if r is not None]

    def _fill(self, wish: str) -> None:
        self.items.clear()
        for family, names in grouped(self.values):
            found = [n for n in names if meets(n, wish)]
            if found and family:
                self._head(family)
            for name in found:
                self._row(name, meant(name, wish))
        if not self.offered():
            self._head("no such format")
        self._begin(wish)
        height = self.items.sizeHintForRow(0) * self.items.count() + 52
        self.setFixedSize(WIDTH, min(height, TALL))

    def _head(self, text: str) -> None:
        item = QListWidgetItem(text.upper())
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        font = QFont(self.font())
        font.setPixelSize(10)
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.7)
        item.setFont(font)
        item.setForeground(QColor(tokens(self).muted))
        self.items.addItem(item)

    def _row(self, name: str, preset: dict[str, Any]) -> None:
        told = ", ".join(f"{k.replace('_', ' ')} {v}".lower() for k, v in preset.items())
        item = QListWidgetItem(name.replace("_", " ") + (f" · {told}" if told else ""))
        item.setData(VALUE, name)
        if name in FORMATS:
            fmt = FORMATS.get(name)
            item.setToolTip(
                "\n".join((fmt.title, fmt.formula, f"Also: {', '.join(fmt.aliases)}" if fmt.aliases else ""))
            )
        self.items.addItem(item)

    def _begin(self, wish: str) -> None:
        """Mark what is chosen now, or the first that was found."""
        rows = [i for i in range(self.items.count()) if self.items.item(i).data(VALUE) is not None]
        chosen = [i for i in rows if self.items.item(i).data(VALUE) == self._now]
        if rows:
            self.items.setCurrentRow((rows if wish else [*chosen, *rows])[0])

    def _take(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(VALUE) is not None:
            self.picked.emit(item.data(VALUE), meant(item.data(VALUE), self.search.text()))
            self.close()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The field keeps the keyboard; arrows move in the list, Enter takes, Escape closes."""
        escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if escape and event.type() == QEvent.Type.ShortcutOverride:  # else the panel behind takes it
            event.accept()
            return True
        if escape and event.type() == QEvent.Type.KeyPress:
            self.close()
            return True
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._take(self.items.currentItem())
                return True
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
                self.items.keyPressEvent(event)
                return True
        return super().eventFilter(watched, event)
