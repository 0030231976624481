"""Tab Handshakes of the panel Hardware: a simulation's streams by cycle, with legend and files."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLabel, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.hardware.wave_canvas import COLOURS
from espalier.app.features.hardware.wave_view import WaveView
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import plural
from espalier.app.translation import error_text, tr, translated
from espalier.app.widgets.charts.wave_rows import STATES, Rows
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.verilog.proof.waves import State, handshakes

SLOT = "waves"
LEGEND = (State.TRANSFER, State.STALLED, State.STARVED)
NOT_RUN = tr("Simulate records valid and ready of every stream in every cycle.")
GONE = tr("The project keeps only totals, not the cycles. Simulate again to see them.")
READING = tr("The handshakes are being read.")
ORDERS: dict[str, tuple[str, State | None]] = translated({
    "stalled": ("most stalled first", State.STALLED), "starved": ("most starved first", State.STARVED),
    "moves": ("busiest first", State.TRANSFER), "flow": ("in data order", None),
})  # fmt: skip
HELP = tr(
    "moves: a beat is handed over · stalled: a beat waits for its reader · starved: the reader waits for a beat. "
    "Wheel: zoom; Shift and wheel or drag: move; click: the cycle and the node; Ctrl with ← →: the next change."
)


class WavesView(QWidget):
    """Emits `node_chosen` at a click on a row and `node_wanted` to show its node."""

    node_chosen = Signal(str)
    node_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.view = WaveView()
        self.order = Choice(tuple(ORDERS), tuple(title for title, _ in ORDERS.values()))
        self.order.setAccessibleName(tr("Order of the streams"))
        self.status = QLabel()
        self.status.setProperty("role", "muted")
        self.status.setToolTip(HELP)
        self.legend = QLabel()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.show_file = link(tr("Show file"), self._show_file)
        self._pages, self._words = QStackedWidget(), empty_state(NOT_RUN)
        self._folder: Path | None = None
        self._previews = Previews(self, cache_size=2)
        self._build()
        self.order.edited.connect(self._sort)
        self.view.node_chosen.connect(self.node_chosen)
        self.view.node_wanted.connect(self.node_wanted)
        self.view.read.connect(self.status.setText)
        self._previews.ready.connect(lambda slot, key, rows: self._ready(rows))
        self._previews.failed.connect(lambda slot, error: self._show_message(error_text(error)))

    def _build(self) -> None:
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        dots = (f'<span style="color:{COLOURS[s]}">■</span> {STATES[s]}' for s in LEGEND)
        self.legend.setText(" &nbsp;".join(dots))
        self.legend.setToolTip(HELP)
        parts = (self.order, self.legend, link(tr("Fit"), self.view.fit), self.show_file, self.status)
        for part in parts:
            bar.addWidget(part)
        page = QWidget()
        box = QVBoxLayout(page)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.view, 1)
        for each in (self._words, page):
            self._pages.addWidget(each)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._pages)

    @property
    def words(self) -> str:
        """The text shown instead of rows; empty if rows are shown."""
        return "" if self._pages.currentIndex() else self._words.text()

    def show_folder(self, folder: Path | None, ran: bool) -> None:
        """Show the handshakes in a folder; `ran`: whether there was a simulation."""
        self._previews.forget(SLOT)
        self._folder = folder
        if folder is None:
            self.view.show_rows(None)
            self._show_message(GONE if ran else NOT_RUN)
            return
        rows = self._previews.ask(SLOT, (str(folder), _stamp(folder)), lambda stop: _read(folder, stop))
        if rows is None:
            self._show_message(READING)
        else:
            self._ready(rows)

    def _ready(self, rows: Rows) -> None:
        if not rows.handshakes.lanes or rows.handshakes.cycles <= rows.handshakes.first:
            self._show_message(tr("No beat moved in this simulation."))
            return
        self.view.show_rows(rows)
        self._sort()
        self.status.setText(
            plural(len(rows.handshakes.lanes), "stream") + ", " + plural(round(rows.whole.length), "cycle")
        )
        trace = rows.handshakes.trace
        self.show_file.setToolTip(str(trace or self._folder or ""))
        self.show_file.setText(tr("Show {}", trace.name) if trace else tr("Show file"))
        self._pages.setCurrentIndex(1)

    def _show_message(self, text: str) -> None:
        self._words.setText(text)
        self._pages.setCurrentIndex(0)

    def _sort(self) -> None:
        self.view.sort(ORDERS[self.order.get()][1])

    def select_nodes(self, nodes: tuple[str, ...]) -> None:
        """Mark the streams of these nodes."""
        self.view.mark(nodes)

    def _show_file(self) -> None:
        if self._folder:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder)))


def _stamp(folder: Path) -> int:
    """Modification time in ns of the newest file; 0 if unreadable (reading then reports the error)."""
    try:
        return max((p.stat().st_mtime_ns for p in folder.iterdir()), default=0)
    except OSError:
        return 0


def _read(folder: Path, stop: object) -> Rows:
    rows = Rows(handshakes(folder))
    rows.prepare(range(len(rows.handshakes.lanes)), stop)  # type: ignore[arg-type]
    return rows
