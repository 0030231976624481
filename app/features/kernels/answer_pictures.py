"""The picture of each answer, with fields above it where there is something to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.answers.attended import SCORES, AttendedPicture
from espalier.app.features.kernels.charts.answers.bits import BitsPicture
from espalier.app.features.kernels.charts.answers.compiled import CompiledPicture
from espalier.app.features.kernels.charts.answers.ledger import LedgerPicture
from espalier.app.features.kernels.charts.answers.picture import Picture
from espalier.app.features.kernels.charts.answers.tiled import TiledPicture
from espalier.app.features.kernels.charts.answers.trips import TripsPicture
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.state.words import spoken
from espalier.app.widgets.forms.fields import Choice, NumberField
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, muted
from espalier.kernels.bench.answers.bits import dequantised, encoded
from espalier.kernels.bench.answers.known import Known
from espalier.kernels.bench.answers.lines import points
from espalier.kernels.bench.answers.tiles import ORDERS, Tiling
from espalier.model.errors import EspalierError

EDGES: tuple[tuple[str, int, int], ...] = (
    ("a negative value", -75, 125), ("bit 6 clear", 35, 127), ("zero", 0, 127), ("the largest code", 127, 127),
    ("−128, which is unused", -128, 127), ("the least exponent, 0", 3, 0), ("exponent 1: the result is denormal", 3, 1),
    ("the largest exponent, 254", 127, 254), ("exponent 255: NaN", 64, 255),
)  # fmt: skip


class View(QWidget):
    """A picture under a line of fields."""

    def __init__(self, picture: Any, *fields: QWidget) -> None:
        super().__init__()
        self.picture = picture
        self.wrong = QLabel(wordWrap=True)
        self.wrong.setProperty("role", "bad")
        self.wrong.setContentsMargins(12, 0, 12, 2)
        self.wrong.hide()
        box = QVBoxLayout(self)
        box.setContentsMargins(4, 0, 8, 4)
        box.setSpacing(2)
        if fields:
            bar = Flow(spacing=6)
            bar.setContentsMargins(8, 2, 8, 2)
            for part in fields:
                bar.addWidget(part)
            box.addLayout(bar)
        box.addWidget(self.wrong)
        box.addWidget(picture, 1)

    def show_known(self, known: Known) -> None:
        """Draw other figures."""
        self.picture.show_known(known)

    def say(self, error: EspalierError | None) -> None:
        """Tell what is wrong with the fields; what was drawn stays."""
        self.wrong.setText(f"{error.message} {error.hint}" if error else "")
        self.wrong.setVisible(error is not None)


def _label(words: str, field: QWidget) -> QLabel:
    label = muted(words, wrap=False)
    field.setAccessibleName(words)
    return label


class RoofView(View):
    """Kernels under the measured roof."""

    def __init__(self) -> None:
        self._drawn: object = None
        self.legend, self.nothing = QLabel(), empty_state("No kernel has been measured on this device yet.")
        super().__init__(Roofline(), self.legend)
        self.picture.words = spoken
        self.picture.themed.connect(lambda: self.legend.setText(self.picture.legend()))
        self.picture.setMinimumHeight(150)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.addWidget(self.nothing, 1)

    def show_known(self, known: Known) -> None:
        """Draw the rows that the answer names."""
        rows = points(known)
        if (rows, known.ceilings) == self._drawn:
            return
        self._drawn = rows, known.ceilings
        versions = tuple(dict.fromkeys(r.version for r in rows))
        self.picture.show_rows(rows, versions, known.ceilings)
        self.legend.setText(self.picture.legend())
        for part in (self.legend, self.picture):
            part.setVisible(bool(rows) or known.ceilings is not None)
        self.nothing.setVisible(not rows and known.ceilings is None)


class OnlineView(View):
    """Attention, with the block of the online softmax to choose."""

    def __init__(self) -> None:
        self.block = NumberField(int, 1, len(SCORES))
        self.block.setFixedWidth(48)
        self.block.put(4)
        picture = AttendedPicture()
        super().__init__(picture, _label("Scores at once", self.block), self.block)
        self.block.edited.connect(self._edited)

    def _edited(self) -> None:
        try:
            self.picture.set_block(self.block.get())
        except EspalierError as error:
            self.say(error)
        else:
            self.say(None)


class BitsView(View):
    """A value, or the bytes as they are stored; and edge cases."""

    def __init__(self) -> None:
        self.value = NumberField(float, None, None)
        self.code, self.stored = NumberField(int, -128, 127), NumberField(int, 0, 255)
        for field, width in ((self.value, 112), (self.code, 52), (self.stored, 48)):
            field.setFixedWidth(width)
        self.edges = Choice(EDGES, tuple(name for name, _, _ in EDGES))
        self.edges.setAccessibleName("Cases to try")
        self.edges.edited.connect(lambda: self.take(*self.edges.get()[1:]))
        picture = BitsPicture()
        super().__init__(picture, _label("Value", self.value), self.value, _label("m", self.code), self.code,
                         _label("s", self.stored), self.stored, muted("Try", wrap=False), self.edges)  # fmt: skip
        self.code.setAccessibleName("Mantissa m, −128 to 127")
        self.stored.setAccessibleName("Stored exponent s, 0 to 255")
        self.value.edited.connect(self._value_typed)
        for field in (self.code, self.stored):
            field.edited.connect(self._bytes_typed)
        picture.turned.connect(self.take)
        self.take(-75, 125)

    def take(self, code: int, stored: int) -> None:
        """Show a code under an exponent."""
        held = dequantised(code, stored)
        self.code.put(code)
        self.stored.put(stored)
        self.value.put(None if held.defined != held.defined or abs(held.defined) == float("inf") else held.defined)
        self.picture.show_code(held)
        self.say(None)

    def _value_typed(self) -> None:
        """The code of a value, as a block has whose largest element it is."""
        try:
            code, stored = encoded(self.value.get())
        except EspalierError as error:
            self.say(error)
            return
        self.code.put(code)
        self.stored.put(stored)
        self.picture.show_code(dequantised(code, stored))
        self.say(None)

    def _bytes_typed(self) -> None:
        try:
            held = dequantised(self.code.get(), self.stored.get())
        except EspalierError as error:
            self.say(error)
            return
        self.value.put(held.defined if abs(held.defined) < float("inf") else None)
        self.picture.show_code(held)
        self.say(None)

    def show_known(self, known: Known) -> None:
        """Bits do not hang on what was measured."""


class TilesView(View):
    """Sizes of tensor, tile and threads, and how threads are counted."""

    SIZES = ("rows", "columns", "tile_rows", "tile_columns", "thread_rows", "thread_columns")

    def __init__(self) -> None:
        usual = Tiling()
        self.tiling = usual
        limits = {"rows": 512, "columns": 512}
        self.fields = {n: NumberField(int, 1, limits.get(n, 128)) for n in self.SIZES}
        for name, field in self.fields.items():
            field.setFixedWidth(37)
            field.put(getattr(usual, name))
        self.order = Choice(ORDERS, tuple(f"by {o}" for o in ORDERS))
        self.order.put(usual.order)
        self.order.setAccessibleName("How threads are counted")
        self.element = Choice((1, 2, 4), ("1 B", "2 B", "4 B"))
        self.element.put(usual.element)
        self.element.setAccessibleName("Bytes of an element")
        self.element.setToolTip("Bytes of an element")
        self.order.setToolTip("Threads are counted along rows, or down columns as CuTe does unasked")
        picture = TiledPicture()
        parts: list[QWidget] = []
        for first, text in (("rows", "Tensor"), ("tile_rows", "cta_tiler"), ("thread_rows", "layout_sX")):
            second = first.replace("rows", "columns")
            self.fields[first].setAccessibleName(f"{text}: rows")
            self.fields[second].setAccessibleName(f"{text}: columns")
            parts += [muted(text, wrap=False), self.fields[first], muted("×", wrap=False), self.fields[second]]
        super().__init__(picture, *parts, self.order, self.element)
        for field in (*self.fields.values(), self.order, self.element):
            field.edited.connect(self._edited)
        picture.picked.connect(self._pick)
        self._edited()

    def _edited(self) -> None:
        try:
            sizes = {n: f.get() for n, f in self.fields.items()}
            tiling = Tiling(**sizes, order=self.order.get(), element=self.element.get())
            tiling.check()
        except EspalierError as error:
            self.say(error)
            return
        self.say(None)
        self.tiling = tiling
        self.picture.show_tiling(tiling, self.picture.tile, self.picture.reader)

    def _pick(self, tile: int, thread: int) -> None:
        self.picture.show_tiling(self.tiling, tile, thread)

    def show_known(self, known: Known) -> None:
        """Tiles do not hang on what was measured."""


def _plain(make: Callable[[], Picture]) -> Callable[[], View]:
    return lambda: View(make())


VIEWS: dict[str, Callable[[], View]] = {
    "compile": _plain(CompiledPicture), "softmax": _plain(TripsPicture), "attention": OnlineView,
    "mxint8": BitsView, "tiles": TilesView, "memory": _plain(LedgerPicture), "roofline": RoofView,
}  # fmt: skip


def view_of(key: str) -> View:
    """The picture of an answer."""
    return VIEWS[key]()
