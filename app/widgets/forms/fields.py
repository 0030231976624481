"""The small widgets that edit one value each. Forms and the inspector build on them.

All speak the same three words: `get()` (raises OptionsError), `put(value)` and the signal `edited`.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPalette, QPen, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QCheckBox, QComboBox, QLineEdit, QWidget

from espalier.app.theme import DARK, LIGHT, Palette
from espalier.model.errors import EspalierError, OptionsError

MIXED = "mixed"
OPTION = "option"  # the property of a widget that names the option which it edits
HEIGHT = 23
TIGHT = 52  # a combo box narrower than this shows its word alone


def tokens(widget: QWidget) -> Palette:
    """The theme that a widget stands in, told by the colour of its text."""
    text = widget.palette().color(QPalette.ColorGroup.Active, QPalette.ColorRole.WindowText)  # a disabled one fades
    return DARK if text.lightness() > 128 else LIGHT


def trouble(value: Callable[[], object]) -> str:
    """Why `value` gives none; empty when it does."""
    try:
        value()
    except EspalierError as error:
        return str(error)
    return ""


class Recolouring(QObject):
    """Calls `act` with a widget's theme once another one has been put on.

    Not at once: Qt walks a list of all widgets to put a style on, so none may go meanwhile, and the palette is the old
    one for a moment.
    """

    def __init__(self, widget: QWidget, act: Callable[[Palette], object]) -> None:
        super().__init__(widget)
        self._widget, self._act, self._look = widget, act, tokens(widget)
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self._recolour)
        widget.installEventFilter(self)

    def _recolour(self) -> None:
        look = tokens(self._widget)
        if look is not self._look:
            self._look = look
            self._act(look)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.PaletteChange:
            self._later.start()
        return False


def wear_field_style(widget: QWidget) -> None:
    """Give a widget the style of fields, in whichever theme there is."""
    widget.setStyleSheet(field_style(tokens(widget)))
    Recolouring(widget, lambda look: widget.setStyleSheet(field_style(look)))


def field_style(palette: Palette) -> str:
    """What the fields below need beyond the window's style sheet; for the root of a form or panel."""
    return f"""
    QLineEdit {{ padding: 0 6px; border-radius: 4px; min-height: {HEIGHT - 2}px; max-height: {HEIGHT - 2}px; }}
    QComboBox {{ border: none; padding: 0; min-height: {HEIGHT}px; max-height: {HEIGHT}px; }}
    QLineEdit#number {{ padding: 0 2px; }}
    QLineEdit#number[several="true"] {{ padding: 0; font-size: 10.5px; }}
    QLineEdit[wrong="true"] {{ border-color: {palette.bad}; }}
    QPushButton[link="true"] {{ padding-left: 0; padding-right: 0; }}
    QLabel[role="wrong"] {{ color: {palette.bad}; font-size: 11.5px; }}
    """


def option_of(widget: QWidget | None, within: QWidget) -> str:
    """The path of the option that a widget edits, by the names of the widgets round it; empty where there is none."""
    names: list[str] = []
    while widget is not None and widget is not within:
        name = widget.property(OPTION)
        names += [name] if name else []
        widget = widget.parentWidget()
    return ".".join(reversed(names))


def chain(*widgets: QWidget) -> None:
    """Let Tab go through `widgets` in this order: those made later stand last until they are told."""
    for first, second in pairwise(widgets):
        QWidget.setTabOrder(first, second)


class Line(QLineEdit):
    """A line of text."""

    edited = Signal()

    def __init__(self, hint: str = "", optional: bool = False) -> None:
        super().__init__()
        self._optional, self._hint = optional, hint
        self.setPlaceholderText(hint)
        self.textEdited.connect(self.edited)

    def get(self) -> Any:
        """The text; None where nothing is allowed and nothing is written."""
        return None if self._optional and not self.text() else self.text()

    def put(self, value: Any) -> None:
        """Show a text, None or MIXED."""
        mixed = value == MIXED
        self.setPlaceholderText(MIXED if mixed else self._hint)
        text = "" if value is None or mixed else str(value)
        if text != self.text():
            self.setText(text)
            self.setCursorPosition(0)  # else a long text shows its end


class Words(Line):
    """Several texts or numbers, separated by commas."""

    def __init__(self, kind: type = str, hint: str = "") -> None:
        super().__init__(hint)
        self._kind = kind

    def get(self) -> tuple[Any, ...]:
        """The parts, without empty ones; raises OptionsError."""
        parts = [p.strip() for p in self.text().split(",")]
        try:
            return tuple(self._kind(p) for p in parts if p)
        except ValueError as error:
            raise OptionsError(f"{self.text()!r} is not a list of numbers.", "Write 1, 2, 3.") from error

    def put(self, value: Any) -> None:
        """Show the parts, or MIXED."""
        super().put(value if value == MIXED else ", ".join(str(v) for v in value))


class Check(QCheckBox):
    """True or false."""

    edited = Signal()

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.clicked.connect(self.edited)

    def get(self) -> bool:
        """Whether it is ticked."""
        return self.isChecked()

    def put(self, value: Any) -> None:
        """Show true, false or mixed."""
        self.setTristate(value == MIXED)
        self.setCheckState(
            Qt.CheckState.PartiallyChecked if value == MIXED else _STATES[bool(value)],
        )


_STATES = {True: Qt.CheckState.Checked, False: Qt.CheckState.Unchecked}


class NumberField(QLineEdit):
    """A number in a narrow field: typed, or stepped with the arrow keys and the wheel. Empty may mean None."""

    edited = Signal()

    def __init__(
        self,
        kind: type = int,
        low: float | None = None,
        high: float | None = None,
        optional: bool = False,
        zero: str = "",
    ) -> None:
        super().__init__()
        self.setObjectName("number")
        self.kind, self.low, self.high, self.optional = kind, low, high, optional
        self.zero = zero  # what 0 means, shown in its place
        self.typing = False  # while `edited` tells of a key, after which others may follow
        self._value: Any = None
        self._mixed = False
        self._empty = zero or ("none" if optional else "")
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setPlaceholderText(self._empty)
        self.textEdited.connect(self._typed)

    def say_empty(self, word: str) -> None:
        """What stands for no value."""
        self._empty = word
        self.setPlaceholderText(MIXED if self._mixed else word)

    def get(self) -> Any:
        """The number; raises OptionsError when the text is none, or out of range."""
        if self._mixed:
            raise OptionsError("The value is mixed.", "Write one number.")
        if self._value is None and not self.optional:
            raise OptionsError(f"{self.text()!r} is not a {self._noun}.", f"Write a {self._noun}{self._range}.")
        if self._value is not None and not self._in_range(self._value):
            raise OptionsError(f"{self.text()} is out of range.", f"Write a {self._noun}{self._range}.")
        return self._value

    def put(self, value: Any) -> None:
        """Show a number, None or MIXED."""
        self._mixed = value == MIXED
        self.setPlaceholderText(MIXED if self._mixed else self._empty)
        self._value = None if self._mixed else value
        text = "" if self._value is None or (self.zero and not self._value) else _number_text(self._value)
        if text != self.text():
            self.setText(text)
        self._mark("wrong", False)
        self._mark("several", False)

    @property
    def mixed(self) -> bool:
        """Whether several values stand behind it, and none is written."""
        return self._mixed

    def put_several(self, values: Sequence[Any]) -> None:
        """Show that values differ: the least and the greatest, which takes less room than the word."""
        self.put(MIXED)
        if None not in values:
            self.setPlaceholderText(f"{_number_text(min(values))}–{_number_text(max(values))}")
            self._mark("several", True)

    @property
    def _noun(self) -> str:
        return "whole number" if self.kind is int else "number"

    @property
    def _range(self) -> str:
        if self.low is not None and self.high is not None:
            return f" from {self.low:g} to {self.high:g}"
        return f" of at least {self.low:g}" if self.low is not None else ""

    def _in_range(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _typed(self, text: str) -> None:
        self._mixed = False
        word = text.strip().replace("−", "-").replace("\u2009", "")
        try:
            self._value = self.kind(word) if word else self.kind(0) if self.zero else None
        except ValueError:
            self._value = None
        good = (not word and self.optional) or (self._value is not None and self._in_range(self._value))
        self._mark("wrong", not good)
        self._mark("several", self._mixed)
        self.typing = True
        self.edited.emit()
        self.typing = False

    def _mark(self, name: str, on: bool) -> None:
        if bool(self.property(name)) != on:
            self.setProperty(name, on)
            self.style().unpolish(self)
            self.style().polish(self)

    def step(self, count: int) -> None:
        """Go up or down by `count` steps, and say so."""
        if self._value is None:
            return
        value = self._value + count * self._step()
        value = round(value, 12) if self.kind is float else int(value)
        bounds = [self.low if self.low is not None else -math.inf, self.high if self.high is not None else math.inf]
        value = min(max(value, bounds[0]), bounds[1])
        if value != self._value:
            self.put(self.kind(value))
            self.edited.emit()

    def _step(self) -> float:
        if self.kind is int:
            return 1
        size = abs(self._value) or (self.high if self.high is not None else 1.0) or 1.0
        return 10.0 ** (math.floor(math.log10(size) + 1e-9) - 1) * (5 if self.high == 1 else 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1, Qt.Key.Key_PageUp: 10, Qt.Key.Key_PageDown: -10}
        if event.key() in steps:
            self.step(steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus() and event.angleDelta().y():
            self.step(1 if event.angleDelta().y() > 0 else -1)
        else:
            event.ignore()

    def sizeHint(self) -> QSize:
        word = self.fontMetrics().horizontalAdvance(self.zero) + 12 if self.zero else 0
        return QSize(max(44 if self.kind is int else 72, word), HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(33, HEIGHT)


def _number_text(value: float) -> str:
    if isinstance(value, int):
        return str(value).replace("-", "−")
    short = f"{value:.6g}"
    return (short if float(short) == value else repr(value)).replace("-", "−")


class Choice(QComboBox):
    """One of several values, drawn flat: the word and a small arrow."""

    edited = Signal()

    def __init__(self, values: tuple[Any, ...] = (), texts: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.values: tuple[Any, ...] = ()
        self.setPlaceholderText(MIXED)
        self.setFixedHeight(HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # else a wheel that passes over it takes the focus, and edits
        self.view().setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.offer(values, texts)
        self.activated.connect(lambda _: self.edited.emit())

    def offer(self, values: tuple[Any, ...], texts: tuple[str, ...] = ()) -> None:
        """Replace what can be chosen; keeps the present value where it is still there."""
        held = self.values[self.currentIndex()] if 0 <= self.currentIndex() < len(self.values) else None
        self.values = values
        self.clear()
        self.addItems([*(texts or tuple(str(v).replace("_", " ") for v in values))])
        self.setCurrentIndex(values.index(held) if held in values else 0 if values else -1)

    def get(self) -> Any:
        """The chosen value; raises OptionsError while several are shown as mixed."""
        if not 0 <= self.currentIndex() < len(self.values):
            raise OptionsError("The value is mixed.", "Choose one.")
        return self.values[self.currentIndex()]

    def put(self, value: Any) -> None:
        """Show a value; anything else (MIXED) shows as mixed."""
        found = next((i for i, v in enumerate(self.values) if type(v) is type(value) and v == value), -1)
        if found != self.currentIndex():
            self.setCurrentIndex(found)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = look.accent if self.hasFocus() else look.control
        painter.setPen(QPen(QColor(edge), 1))
        painter.setBrush(QColor(look.background))
        box = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(box, 4, 4)
        text = self.currentText() if self.currentIndex() >= 0 else self.placeholderText()
        painter.setPen(QColor(look.text if self.isEnabled() and self.currentIndex() >= 0 else look.muted))
        tight = self.width() < TIGHT
        if tight:
            font = painter.font()
            font.setPixelSize(12)
            painter.setFont(font)
        room = self.rect() if tight else QRect(7, 0, self.width() - 22, self.height())
        words = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room.width())
        across = Qt.AlignmentFlag.AlignHCenter if tight else Qt.AlignmentFlag.AlignLeft
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | across, words)
        if not tight:
            self._arrow(painter, QColor(look.muted))

    def _arrow(self, painter: QPainter, colour: QColor) -> None:
        x, y = self.width() - 11, self.height() / 2 + 0.5
        painter.setPen(QPen(colour, 1.4, c=Qt.PenCapStyle.RoundCap, j=Qt.PenJoinStyle.RoundJoin))
        painter.drawPolyline([QPointF(x - 3, y - 1.5), QPointF(x, y + 1.5), QPointF(x + 3, y - 1.5)])

    def showPopup(self) -> None:
        view = self.view()
        view.setMinimumWidth(max(view.sizeHintForColumn(0) + 24, self.width()))
        super().showPopup()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def sizeHint(self) -> QSize:
        widths = [self.fontMetrics().horizontalAdvance(self.itemText(i)) for i in range(self.count())]
        return QSize(min(max(widths, default=40), 150) + 28, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(40, HEIGHT)


Scalar = Line | Words | Check | NumberField | Choice


def scalar(kind: Any, metadata: Mapping[str, Any] | None = None) -> Scalar | None:
    """The widget for a plain type (`min`, `max`, `help`, `empty` of `metadata`); None where the type is not plain."""
    known = metadata or {}
    optional = get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)
    if optional:
        inner = [k for k in get_args(kind) if k is not type(None)]
        kind = inner[0] if len(inner) == 1 else None
    if kind is bool:
        return Choice((None, True, False), ("none", "yes", "no")) if optional else Check()
    if kind in (int, float):
        return NumberField(kind, known.get("min"), known.get("max"), optional, _zero(known.get("help", "")))
    if kind is str:
        return Line(known.get("hint", ""), optional)
    if get_origin(kind) is Literal:
        values = get_args(kind)
        words = tuple(_word(v) or known.get("empty", "default") for v in values)
        return Choice((None, *values), ("none", *words)) if optional else Choice(values, words)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,) and get_args(kind)[0] in (str, int, float):
        return None if optional else Words(get_args(kind)[0], known.get("hint", ""))
    return None


def _zero(text: str) -> str:
    """What 0 means, where the help says so in few words: "…; 0 = all"."""
    found = re.search(r"; 0 = ([^;]{1,14})$", text)
    return found.group(1) if found else ""


def _word(value: Any) -> str:
    return str(value).replace("_", " ")
