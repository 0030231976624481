"""Widgets that edit one value each, for forms and the inspector.

All have the same interface: `get()` (raises OptionsError), `put(value)` and the signal `edited`.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Union, get_args, get_origin

from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPalette, QPen, QWheelEvent
from PySide6.QtWidgets import QAbstractItemView, QCheckBox, QComboBox, QLineEdit, QPushButton, QWidget

from espalier.app.theme import DARK, LIGHT, Palette
from espalier.app.translation import error_text, tr
from espalier.model.errors import EspalierError, OptionsError

MIXED = "mixed"
OPTION = "option"  # property of a widget: the name of the option that it edits
HEIGHT = 23
BESIDE = 22  # pixels beside the text of a combo box: its margin and its arrow
NARROW_FONT = 12  # pixels
NARROW = 52  # pixels: a narrower combo box is drawn without an arrow


def tokens(widget: QWidget) -> Palette:
    """The theme of a widget, by the colour of its text."""
    text = widget.palette().color(
        QPalette.ColorGroup.Active, QPalette.ColorRole.WindowText
    )  # the disabled colour is blended
    return DARK if text.lightness() > 128 else LIGHT


def error_of(value: Callable[[], object]) -> str:
    """The message of the EspalierError that `value()` raises; empty if it raises none."""
    try:
        value()
    except EspalierError as error:
        return error_text(error)
    return ""


class Recolouring(QObject):
    """Calls `act` with the theme of a widget after it has changed.

    Not at once: Qt iterates over all widgets to set a style, so none may be deleted meanwhile, and the widget still
    has the old palette.
    """

    def __init__(self, widget: QWidget, act: Callable[[Palette], object]) -> None:
        super().__init__(widget)
        self._widget, self._act, self._look = widget, act, tokens(widget)
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self._recolour)
        widget.installEventFilter(self)

    def _recolour(self) -> None:
        look = tokens(self._widget)
        if look is not self._look:
            self._look = look
            self._act(look)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.PaletteChange:
            self._timer.start()
        return False


def apply_field_style(widget: QWidget) -> None:
    """Give a form or panel the rules of fields (style.qss): before it has children, which are not polished again."""
    widget.setProperty("fields", True)


def option_of(widget: QWidget | None, within: QWidget) -> str:
    """The path of the option that a widget edits, from the OPTION of its ancestors; empty if there is none."""
    names: list[str] = []
    while widget is not None and widget is not within:
        name = widget.property(OPTION)
        names += [name] if name else []
        widget = widget.parentWidget()
    return ".".join(reversed(names))


def set_tab_chain(*widgets: QWidget) -> None:
    """Set the tab order of `widgets`; Qt would append those created later."""
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
        self.returnPressed.connect(self._pass_on_return)

    def _pass_on_return(self) -> None:
        """Press the dialog's default button where the list of completions, with nothing chosen in it, takes Return."""
        words = self.completer()
        popup = words.popup() if words else None
        if popup is not None and popup.isVisible() and not popup.currentIndex().isValid():
            buttons = (b for b in self.window().findChildren(QPushButton) if b.isDefault() and b.isEnabled())
            if button := next(buttons, None):
                QTimer.singleShot(0, button.click)

    def get(self) -> Any:
        """The text; None if it is empty and optional."""
        return None if self._optional and not self.text() else self.text()

    def put(self, value: Any) -> None:
        """Show a text, None or MIXED."""
        mixed = value == MIXED
        self.setPlaceholderText(tr(MIXED) if mixed else self._hint)
        text = "" if value is None or mixed else str(value)
        if text != self.text():
            self.setText(text)
            self.setCursorPosition(0)  # shows the start of a long text


class WordList(Line):
    """Several texts or numbers, separated by commas."""

    def __init__(self, kind: type = str, hint: str = "") -> None:
        super().__init__(hint)
        self._kind = kind

    def get(self) -> tuple[Any, ...]:
        """The non-empty parts. Raises OptionsError."""
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
    """A number in a narrow field: typed, or changed by the arrow keys and the wheel. Empty means None if optional."""

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
        self.zero = zero  # shown instead of 0
        self.typing = False  # true while `edited` signals a key press
        self._value: Any = None
        self._mixed = False
        self._empty = zero or (tr("none") if optional else "")
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setPlaceholderText(self._empty)
        self.textEdited.connect(self._typed)

    def set_empty_text(self, text: str) -> None:
        """Set the placeholder for no value."""
        self._empty = text
        self.setPlaceholderText(tr(MIXED) if self._mixed else text)

    def get(self) -> Any:
        """The number. Raises OptionsError if the text is not a number or out of range."""
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
        self.setPlaceholderText(tr(MIXED) if self._mixed else self._empty)
        self._value = None if self._mixed else value
        text = "" if self._value is None or (self.zero and not self._value) else _number_text(self._value)
        if text != self.text():
            self.setText(text)
        self._set_flag("wrong", False)
        self._set_flag("several", False)

    @property
    def mixed(self) -> bool:
        """Whether it shows several values as MIXED."""
        return self._mixed

    def put_several(self, values: Sequence[Any]) -> None:
        """Show different values as their minimum and maximum, which is shorter than MIXED."""
        self.put(MIXED)
        if None not in values:
            self.setPlaceholderText(f"{_number_text(min(values))}–{_number_text(max(values))}")
            self._set_flag("several", True)

    @property
    def _noun(self) -> str:
        return tr("whole number") if self.kind is int else "number"

    @property
    def _range(self) -> str:
        if self.low is not None and self.high is not None:
            return tr(" from {:g} to {:g}", self.low, self.high)
        return tr(" of at least {:g}", self.low) if self.low is not None else ""

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
        self._set_flag("wrong", not good)
        self._set_flag("several", self._mixed)
        self.typing = True
        self.edited.emit()
        self.typing = False

    def _set_flag(self, name: str, on: bool) -> None:
        if bool(self.property(name)) != on:
            self.setProperty(name, on)
            self.style().unpolish(self)
            self.style().polish(self)

    def step(self, count: int) -> None:
        """Change the value by `count` steps, within its range."""
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
    """A flat combo box: the text and a small arrow."""

    edited = Signal()

    def __init__(self, values: tuple[Any, ...] = (), texts: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.values: tuple[Any, ...] = ()
        self.setPlaceholderText(tr(MIXED))
        self.setFixedHeight(HEIGHT)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel, which would edit it
        self.offer(values, texts)
        self.activated.connect(lambda _: self.edited.emit())

    def offer(self, values: tuple[Any, ...], texts: tuple[str, ...] = ()) -> None:
        """Replace the values; keeps the present one if it is among them."""
        value = self.values[self.currentIndex()] if 0 <= self.currentIndex() < len(self.values) else None
        self.values = values
        self.clear()
        self.addItems([*(texts or tuple(tr(str(v).replace("_", " ")) for v in values))])
        self.setCurrentIndex(values.index(value) if value in values else 0 if values else -1)

    def get(self) -> Any:
        """The chosen value. Raises OptionsError if it shows MIXED."""
        if not 0 <= self.currentIndex() < len(self.values):
            raise OptionsError("The value is mixed.", "Choose one.")
        return self.values[self.currentIndex()]

    def put(self, value: Any) -> None:
        """Show a value; MIXED, or any value that is not offered, shows as mixed."""
        index = next((i for i, v in enumerate(self.values) if type(v) is type(value) and v == value), -1)
        if index != self.currentIndex():
            self.setCurrentIndex(index)

    def whole_width(self) -> int:
        """The least width in pixels in which no text of it is elided, if that may be without the arrow."""
        self.ensurePolished()
        texts = [self.itemText(i) for i in range(self.count())]
        font = QFont(self.font())
        font.setPixelSize(NARROW_FONT)
        narrow = max(map(QFontMetrics(font).horizontalAdvance, texts), default=0) + 4
        return narrow if narrow < NARROW else max(map(self.fontMetrics().horizontalAdvance, texts)) + BESIDE + 2

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
        narrow = self.width() < NARROW
        if narrow:
            font = painter.font()
            font.setPixelSize(NARROW_FONT)
            painter.setFont(font)
        area = self.rect() if narrow else QRect(7, 0, self.width() - BESIDE, self.height())
        elided = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        align = Qt.AlignmentFlag.AlignHCenter if narrow else Qt.AlignmentFlag.AlignLeft
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | align, elided)
        if not narrow:
            self._arrow(painter, QColor(look.muted))

    def _arrow(self, painter: QPainter, colour: QColor) -> None:
        x, y = self.width() - 11, self.height() / 2 + 0.5
        painter.setPen(QPen(colour, 1.4, c=Qt.PenCapStyle.RoundCap, j=Qt.PenJoinStyle.RoundJoin))
        painter.drawPolyline([QPointF(x - 3, y - 1.5), QPointF(x, y + 1.5), QPointF(x + 3, y - 1.5)])

    def showPopup(self) -> None:
        view = self.view()  # made now: a list for each choice took long to build, and few are ever opened
        view.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
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


Scalar = Line | WordList | Check | NumberField | Choice


def scalar(kind: Any, metadata: Mapping[str, Any] | None = None) -> Scalar | None:
    """The widget for a scalar type; None for other types.

    `metadata`: `min`, `max`, `help`, `hint`, `empty`, and `names`: the values of a text, or a function of them.
    """
    metadata = metadata or {}
    optional = get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)
    if optional:
        inner = [k for k in get_args(kind) if k is not type(None)]
        kind = inner[0] if len(inner) == 1 else None
    if kind is bool:
        return Choice((None, True, False), (tr("none"), tr("yes"), tr("no"))) if optional else Check()
    if kind in (int, float):
        return NumberField(
            kind, metadata.get("min"), metadata.get("max"), optional, _zero_text(tr(metadata.get("help", "")))
        )
    if kind is str:
        if names := metadata.get("names"):
            offered: Any = names() if callable(names) else names
            values = tuple(offered)
            return Choice(values, tuple(v or tr(metadata.get("empty", "default")) for v in values))
        return Line(tr(metadata.get("hint", "")), optional)
    if get_origin(kind) is Literal:
        values = get_args(kind)
        texts = tuple(tr(str(v).replace("_", " ") or metadata.get("empty", "default")) for v in values)
        return Choice((None, *values), (tr("none"), *texts)) if optional else Choice(values, texts)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,) and get_args(kind)[0] in (str, int, float):
        return None if optional else WordList(get_args(kind)[0], tr(metadata.get("hint", "")))
    return None


def _zero_text(text: str) -> str:
    """The meaning of 0, if the help ends with it: "…; 0 = all"."""
    match = re.search(r"; 0 = ([^;]{1,14})$", text)
    return match.group(1) if match else ""
