"""Fields of a pruning pattern: elements, n of m, or blocks."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from espalier.app.features.inspector.terms import TERMS
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.fields import MIXED, Choice, NumberField
from espalier.model.errors import OptionsError
from espalier.passes.choices.pruning import MOST, PATTERNS

Shape = tuple[str, tuple[int, int]]
DEFAULTS: dict[str, tuple[int, int]] = {"element": (1, 1), "n:m": (2, 4), "block": (4, 4)}
TEXTS = translated(("elements", "n of m", "blocks"))
BETWEEN = {"n:m": "of", "block": "×"}


class PatternFields(QWidget):
    """Edits a pattern and its size (`shape`); emits `edited` with valid values."""

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shape: Shape = ("element", (1, 1))
        self.kind = Choice(PATTERNS, TEXTS)
        self.kind.setAccessibleName(tr("pruning pattern"))
        self.kind.setToolTip(TERMS["pattern"])
        self.first, self.second = NumberField(int, 1, MOST), NumberField(int, 1, MOST)
        self.between = QLabel()
        self.between.setProperty("role", "muted")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for widget in (self.kind, self.first, self.between, self.second):
            row.addWidget(widget)
        for field in (self.first, self.second):
            field.setFixedWidth(38)
            field.edited.connect(self._typed)
        self.kind.edited.connect(lambda: self._chosen(self.kind.get()))
        self._show()

    @property
    def fixed(self) -> bool:
        """Whether the pattern fixes the share."""
        return share_of(self.shape) is not None

    def put(self, pattern: str, size: tuple[int, int]) -> None:
        """Set the pattern."""
        self.shape = (pattern, size)
        self.kind.put(pattern)
        self._show()

    def show_patterns(self, patterns: Collection[Shape]) -> None:
        """Show the nodes' pattern, or that it is mixed; without one a pattern with free share stays."""
        if len(patterns) == 1:
            self.put(*next(iter(patterns)))
        elif patterns:
            self.put("element", (1, 1))
            self.kind.put(MIXED)
        elif self.fixed:
            self.put("element", (1, 1))

    def _chosen(self, pattern: str) -> None:
        self.put(pattern, DEFAULTS[pattern])
        self.edited.emit()

    def _typed(self) -> None:
        try:
            size = (self.first.get(), self.second.get())
        except OptionsError:
            return
        pattern = self.shape[0]
        valid = pattern != "n:m" or size[0] <= size[1]
        self.first.setProperty("wrong", not valid)
        self.first.setToolTip("" if valid else tr("n of m are kept, so n is at most m"))
        self.first.style().polish(self.first)
        if valid:
            self.shape = (pattern, size)
            self.edited.emit()

    def _show(self) -> None:
        pattern, size = self.shape
        sized = pattern in BETWEEN
        for widget in (self.first, self.between, self.second):
            widget.setVisible(sized)
        if sized:
            self.between.setText(BETWEEN[pattern])
            names = ("kept", tr("of consecutive inputs")) if pattern == "n:m" else ("outputs", "inputs")
            for field, value, name in zip((self.first, self.second), size, names, strict=True):
                field.put(value)
                field.setAccessibleName(f"{self.kind.currentText()}: {name}")
                field.setToolTip(name)


def share_of(shape: Shape) -> float | None:
    """The pruned share fixed by the pattern, or None."""
    pattern, (first, second) = shape
    return 1 - first / second if pattern == "n:m" else None
