"""Tab Source of the panel Kernels: source text of a kernel version with its cost model and requirements."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.row_text import cost_model_text
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.source.find_bar import FindBar
from espalier.app.widgets.source.highlighter import Highlighter
from espalier.app.widgets.source.source_text import SourceText
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.spec import KernelInfo

QUOTES, INSIDE = '"""', 1
FIND = QKeySequence.StandardKey.Find
KEYWORDS = (
    "and|as|assert|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|"
    "None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield"
)
RULES = re.compile(
    r"(?P<comment>#.*)"
    r'|(?P<string>[rf]?(?:"""(?:[^"\\]|\\.|"(?!""))*(?:""")?|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'))'
    rf"|(?P<keyword>\b(?:{KEYWORDS})\b)"
    r"|(?P<number>\b(?:0[xb][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)"
    r"|(?P<system>@\w+|\btl\.\w+|\btorch\.\w+)"
    r"|[A-Za-z_]\w*"
)


class PythonColours(Highlighter):
    """Highlighter for Python with Triton and torch functions; handles multi-line strings."""

    rules = RULES

    def highlightBlock(self, text: str) -> None:
        end = text.find(QUOTES) if self.previousBlockState() == INSIDE else -2
        super().highlightBlock(text)
        if end == -2:
            self.setCurrentBlockState(INSIDE if text.count(QUOTES) % 2 else 0)
            return
        self.setFormat(0, len(text) if end < 0 else end + len(QUOTES), self.format_of("string"))
        self.setCurrentBlockState(INSIDE if end < 0 else 0)


class KernelSource(QWidget):
    """Choice of kernel and version, description and source; emits `shown` at another kernel."""

    shown = Signal()

    def __init__(self, rows: Callable[[], Sequence[Row]]) -> None:
        super().__init__()
        self._rows = rows
        self._infos: dict[str, KernelInfo] = {}
        self.kernel, self.version = Choice(), Choice()
        self.kernel.setAccessibleName(tr("Kernel to read"))
        self.version.setAccessibleName(tr("Version to read"))
        self.text = SourceText(PythonColours)
        self.text.setAccessibleName(tr("Source"))
        self.finder = FindBar(self.text)
        self.description = QLabel(wordWrap=True)
        self.description.setProperty("role", "small")
        self.description.setMinimumWidth(1)
        self.description.setContentsMargins(12, 0, 12, 4)
        self._empty = empty_state(tr("The kernels are being listed."))
        self._build()
        self.kernel.edited.connect(self._kernel_chosen)
        self.version.edited.connect(self.refresh)

    def _build(self) -> None:
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        self._tools = QWidget()
        self._tools.setLayout(bar)
        for part in (self.kernel, self.version, self.finder, link(tr("Copy"), self._copy)):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        for part in (self._tools, self.description):
            box.addWidget(part)
        box.addWidget(self.text, 1)
        box.addWidget(self._empty, 1)
        self._show(False)

    def _show(self, available: bool) -> None:
        for part in (self._tools, self.description, self.text):
            part.setVisible(available)
        self._empty.setVisible(not available)

    def offer(self, infos: Sequence[KernelInfo]) -> None:
        """Offer kernels."""
        self._infos = {i.name: i for i in infos}
        self.kernel.offer(tuple(self._infos), tuple(tr(i.title) for i in infos))
        self._show(bool(infos))
        self._kernel_chosen()

    def show_message(self, text: str) -> None:
        """Show a message instead of source."""
        self._empty.setText(text)

    def show_kernel(self, name: str, version: str = "") -> None:
        """Show a kernel, and a version if given."""
        if name in self._infos:
            self.kernel.put(name)
            self._offer_versions()
            if version in self.version.values:
                self.version.put(version)
            self.refresh()

    def _kernel_chosen(self) -> None:
        self._offer_versions()
        self.refresh()
        self.shown.emit()

    def _offer_versions(self) -> None:
        info = self._infos.get(self.kernel.get()) if self._infos else None
        self.version.offer(tuple(v.name for v in info.versions) if info else ())

    def refresh(self) -> None:
        """Show source and description of the chosen version."""
        info = self._infos.get(self.kernel.get()) if self._infos else None
        version = next((v for v in info.versions if v.name == self.version.get()), None) if info else None
        if info is None or version is None:
            return
        lacks = "; ".join(tr("not on {}: {}", d, message(reason)) for d, reason in version.missing.items())
        lines = [
            f"{tr(info.about)}  {info.formula}",
            f"{version.name}: {tr(version.about)}" + (f" ({lacks})" if lacks else ""),
            *cost_model_text(info, version.name, self._rows()),
        ]
        self.description.setText("\n".join(lines))
        if self.text.toPlainText() != version.source:
            self.text.show_text(version.source, {})

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def event(self, event: QEvent) -> bool:
        """Claim Ctrl+F before the window: here it searches the text, not the graph."""
        if event.type() == QEvent.Type.ShortcutOverride and event.matches(FIND):  # type: ignore[attr-defined]
            event.accept()
        return super().event(event)

    def keyPressEvent(self, event: object) -> None:
        """Ctrl+F opens the find field."""
        if event.matches(FIND):  # type: ignore[attr-defined]
            self.finder.begin()
        else:
            super().keyPressEvent(event)  # type: ignore[arg-type]
