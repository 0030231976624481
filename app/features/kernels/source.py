"""The text of a kernel's version, to be read, and what it computes, moves and needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.words import model_words
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.source.colours import Highlighter
from espalier.app.widgets.source.find import Find
from espalier.app.widgets.source.text import SourceText
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.spec import KernelInfo

QUOTES, INSIDE = '"""', 1
FIND = QKeySequence.StandardKey.Find
WORDS = (
    "and|as|assert|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|"
    "None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield"
)
RULES = re.compile(
    r"(?P<comment>#.*)"
    r'|(?P<string>[rf]?(?:"""(?:[^"\\]|\\.|"(?!""))*(?:""")?|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'))'
    rf"|(?P<keyword>\b(?:{WORDS})\b)"
    r"|(?P<number>\b(?:0[xb][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)"
    r"|(?P<system>@\w+|\btl\.\w+|\btorch\.\w+)"
    r"|[A-Za-z_]\w*"
)


class PythonColours(Highlighter):
    """Python, Triton's and torch's functions apart; a text between three quotes goes on over lines."""

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
    """A choice of kernels and versions, words about them, and the text. `shown`: another kernel is read."""

    shown = Signal()

    def __init__(self, rows: Callable[[], Sequence[Row]]) -> None:
        super().__init__()
        self._rows = rows
        self._infos: dict[str, KernelInfo] = {}
        self.kernel, self.version = Choice(), Choice()
        self.kernel.setAccessibleName("Kernel to read")
        self.version.setAccessibleName("Version to read")
        self.text = SourceText(PythonColours)
        self.text.setAccessibleName("Source")
        self.finder = Find(self.text)
        self.words = QLabel(wordWrap=True)
        self.words.setProperty("role", "small")
        self.words.setMinimumWidth(1)
        self.words.setContentsMargins(12, 0, 12, 4)
        self._empty = empty_state("The kernels are being listed.")
        self._build()
        self.kernel.edited.connect(self._kernel_chosen)
        self.version.edited.connect(self.refresh)

    def _build(self) -> None:
        bar = Flow(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        self._tools = QWidget()
        self._tools.setLayout(bar)
        for part in (self.kernel, self.version, self.finder, link("Copy", self._copy)):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        for part in (self._tools, self.words):
            box.addWidget(part)
        box.addWidget(self.text, 1)
        box.addWidget(self._empty, 1)
        self._show(False)

    def _show(self, there: bool) -> None:
        for part in (self._tools, self.words, self.text):
            part.setVisible(there)
        self._empty.setVisible(not there)

    def offer(self, infos: Sequence[KernelInfo]) -> None:
        """Take the kernels that can be read about."""
        self._infos = {i.name: i for i in infos}
        self.kernel.offer(tuple(self._infos), tuple(i.title for i in infos))
        self._show(bool(infos))
        self._kernel_chosen()

    def say(self, words: str) -> None:
        """Say why there is nothing to read."""
        self._empty.setText(words)

    def show_kernel(self, name: str, version: str = "") -> None:
        """Read a kernel, and perhaps one of its versions."""
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
        """Show the text of the chosen version, and what is known of it."""
        info = self._infos.get(self.kernel.get()) if self._infos else None
        held = next((v for v in info.versions if v.name == self.version.get()), None) if info else None
        if info is None or held is None:
            return
        lacks = "; ".join(f"not on {d}: {why}" for d, why in held.missing.items())
        lines = [f"{info.about}  {info.formula}", f"{held.name}: {held.about}" + (f" ({lacks})" if lacks else ""),
                 *model_words(info, held.name, self._rows())]  # fmt: skip
        self.words.setText("\n".join(lines))
        if self.text.toPlainText() != held.source:
            self.text.show_text(held.source, {})

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def event(self, event: QEvent) -> bool:
        """Take Ctrl+F before the window does: in here it searches the text, not the graph."""
        if event.type() == QEvent.Type.ShortcutOverride and event.matches(FIND):  # type: ignore[attr-defined]
            event.accept()
        return super().event(event)

    def keyPressEvent(self, event: object) -> None:
        """Ctrl+F goes to the line that searches."""
        if event.matches(FIND):  # type: ignore[attr-defined]
            self.finder.begin()
        else:
            super().keyPressEvent(event)  # type: ignore[arg-type]
