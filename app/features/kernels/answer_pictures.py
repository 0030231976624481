"""Picture views of the answers, with input fields where parameters can be tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.answers.attention import SCORES, AttentionPicture
from espalier.app.features.kernels.charts.answers.bits import BitsPicture
from espalier.app.features.kernels.charts.answers.compiled import CompiledPicture
from espalier.app.features.kernels.charts.answers.ledger import LedgerPicture
from espalier.app.features.kernels.charts.answers.memory_passes import MemoryPassesPicture
from espalier.app.features.kernels.charts.answers.picture import Picture
from espalier.app.features.kernels.charts.answers.tiles import TilesPicture
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.state.row_text import row_tooltip
from espalier.app.translation import error_text, tr, translated
from espalier.app.widgets.forms.fields import Choice, NumberField
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, muted
from espalier.kernels.bench.answers.bits import dequantise, encoded
from espalier.kernels.bench.answers.lines import points
from espalier.kernels.bench.answers.measured_data import MeasuredData
from espalier.kernels.bench.answers.tiles import ORDERS, Tiling
from espalier.model.errors import EspalierError

EDGES: tuple[tuple[str, int, int], ...] = translated((
    ("a negative value", -75, 125), ("bit 6 clear", 35, 127), ("zero", 0, 127), ("the largest code", 127, 127),
    ("−128, which is unused", -128, 127), ("the least exponent, 0", 3, 0), ("exponent 1: the result is denormal", 3, 1),
    ("the largest exponent, 254", 127, 254), ("exponent 255: NaN", 64, 255),
))  # fmt: skip


class View(QWidget):
    """A picture below a row of fields."""

    def __init__(self, picture: Any, *fields: QWidget) -> None:
        super().__init__()
        self.picture = picture
        self.error = QLabel(wordWrap=True)
        self.error.setProperty("role", "bad")
        self.error.setContentsMargins(12, 0, 12, 2)
        self.error.hide()
        box = QVBoxLayout(self)
        box.setContentsMargins(4, 0, 8, 4)
        box.setSpacing(2)
        if fields:
            bar = FlowLayout(spacing=6)
            bar.setContentsMargins(8, 2, 8, 2)
            for part in fields:
                bar.addWidget(part)
            box.addLayout(bar)
        box.addWidget(self.error)
        box.addWidget(picture, 1)

    def show_measured(self, measured: MeasuredData) -> None:
        """Draw measured facts."""
        self.picture.show_measured(measured)

    def show_error(self, error: EspalierError | None) -> None:
        """Show or clear the error of the fields; the picture is unchanged."""
        self.error.setText(error_text(error) if error else "")
        self.error.setVisible(error is not None)


def _label(text: str, field: QWidget) -> QLabel:
    label = muted(text, wrap=False)
    field.setAccessibleName(text)
    return label


class RoofView(View):
    """Roofline with the measured kernels."""

    def __init__(self) -> None:
        self._drawn: object = None
        self.legend, self.nothing = QLabel(), empty_state(tr("No kernel has been measured on this device yet."))
        super().__init__(Roofline(), self.legend)
        self.picture.words = row_tooltip
        self.picture.themed.connect(lambda: self.legend.setText(self.picture.legend()))
        self.picture.setMinimumHeight(150)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.addWidget(self.nothing, 1)

    def show_measured(self, measured: MeasuredData) -> None:
        """Draw the rows of the answer."""
        rows = points(measured)
        if (rows, measured.ceilings) == self._drawn:
            return
        self._drawn = rows, measured.ceilings
        versions = tuple(dict.fromkeys(r.version for r in rows))
        self.picture.show_rows(rows, versions, measured.ceilings)
        self.legend.setText(self.picture.legend())
        for part in (self.legend, self.picture):
            part.setVisible(bool(rows) or measured.ceilings is not None)
        self.nothing.setVisible(not rows and measured.ceilings is None)


class OnlineView(View):
    """Attention, with a field for the block size of the online softmax."""

    def __init__(self) -> None:
        self.block = NumberField(int, 1, len(SCORES))
        self.block.setFixedWidth(48)
        self.block.put(4)
        picture = AttentionPicture()
        super().__init__(picture, _label(tr("Scores at once"), self.block), self.block)
        self.block.edited.connect(self._edited)

    def _edited(self) -> None:
        try:
            self.picture.set_block(self.block.get())
        except EspalierError as error:
            self.show_error(error)
        else:
            self.show_error(None)


class BitsView(View):
    """MXINT8 dequantisation of a value or of stored bytes, with edge cases to choose."""

    def __init__(self) -> None:
        self.value = NumberField(float, None, None)
        self.code, self.stored = NumberField(int, -128, 127), NumberField(int, 0, 255)
        for field, width in ((self.value, 112), (self.code, 52), (self.stored, 48)):
            field.setFixedWidth(width)
        self.edges = Choice(EDGES, tuple(name for name, _, _ in EDGES))
        self.edges.setAccessibleName(tr("Cases to try"))
        self.edges.edited.connect(lambda: self.take(*self.edges.get()[1:]))
        picture = BitsPicture()
        super().__init__(picture, _label(tr("Value"), self.value), self.value, _label("m", self.code), self.code,
                         _label("s", self.stored), self.stored, muted(tr("Try"), wrap=False), self.edges)  # fmt: skip
        self.code.setAccessibleName(tr("Mantissa m, −128 to 127"))
        self.stored.setAccessibleName(tr("Stored exponent s, 0 to 255"))
        self.value.edited.connect(self._value_typed)
        for field in (self.code, self.stored):
            field.edited.connect(self._bytes_typed)
        picture.turned.connect(self.take)
        self.take(-75, 125)

    def take(self, code: int, stored: int) -> None:
        """Show a code with a stored exponent."""
        result = dequantise(code, stored)
        self.code.put(code)
        self.stored.put(stored)
        self.value.put(
            None if result.defined != result.defined or abs(result.defined) == float("inf") else result.defined
        )
        self.picture.show_code(result)
        self.show_error(None)

    def _value_typed(self) -> None:
        """Show the code of a value that is the largest element of its block."""
        try:
            code, stored = encoded(self.value.get())
        except EspalierError as error:
            self.show_error(error)
            return
        self.code.put(code)
        self.stored.put(stored)
        self.picture.show_code(dequantise(code, stored))
        self.show_error(None)

    def _bytes_typed(self) -> None:
        try:
            result = dequantise(self.code.get(), self.stored.get())
        except EspalierError as error:
            self.show_error(error)
            return
        self.value.put(result.defined if abs(result.defined) < float("inf") else None)
        self.picture.show_code(result)
        self.show_error(None)

    def show_measured(self, measured: MeasuredData) -> None:
        """Bits do not depend on measurements."""


class TilesView(View):
    """Tiling of a tensor, with fields for tensor, tile and thread sizes and the thread order."""

    SIZES = ("rows", "columns", "tile_rows", "tile_columns", "thread_rows", "thread_columns")

    def __init__(self) -> None:
        defaults = Tiling()
        self.tiling = defaults
        limits = {"rows": 512, "columns": 512}
        self.fields = {n: NumberField(int, 1, limits.get(n, 128)) for n in self.SIZES}
        for name, field in self.fields.items():
            field.setFixedWidth(37)
            field.put(getattr(defaults, name))
        self.order = Choice(ORDERS, (tr("by rows"), tr("by columns")))
        self.order.put(defaults.order)
        self.order.setAccessibleName(tr("Thread order"))
        self.element = Choice((1, 2, 4), ("1 B", "2 B", "4 B"))
        self.element.put(defaults.element)
        self.element.setAccessibleName(tr("Bytes per element"))
        self.element.setToolTip(tr("Bytes per element"))
        self.order.setToolTip(tr("Threads are counted along rows, or down columns (CuTe's default)"))
        picture = TilesPicture()
        parts: list[QWidget] = []
        for first, text in (("rows", tr("Tensor")), ("tile_rows", "cta_tiler"), ("thread_rows", "layout_sX")):
            second = first.replace("rows", "columns")
            self.fields[first].setAccessibleName(tr("{}: rows", text))
            self.fields[second].setAccessibleName(tr("{}: columns", text))
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
            self.show_error(error)
            return
        self.show_error(None)
        self.tiling = tiling
        self.picture.show_tiling(tiling, self.picture.tile, self.picture.reader)

    def _pick(self, tile: int, thread: int) -> None:
        self.picture.show_tiling(self.tiling, tile, thread)

    def show_measured(self, measured: MeasuredData) -> None:
        """Tiles do not depend on measurements."""


def _without_fields(make: Callable[[], Picture]) -> Callable[[], View]:
    return lambda: View(make())


VIEWS: dict[str, Callable[[], View]] = {
    "compile": _without_fields(CompiledPicture), "softmax": _without_fields(MemoryPassesPicture),
    "attention": OnlineView,
    "mxint8": BitsView, "tiles": TilesView, "memory": _without_fields(LedgerPicture), "roofline": RoofView,
}  # fmt: skip


def view_of(key: str) -> View:
    """Build the view of an answer."""
    return VIEWS[key]()
