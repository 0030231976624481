"""The slider of the Plots panel that smooths the curves."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QWidget

from espalier.app.figures.smoothing import MAX_WEIGHT
from espalier.app.translation import tr

STEPS = 100  # per unit of the weight
WIDTH, NUMBER_WIDTH = 96, 30  # pixels
HELP = tr(
    "Exponential moving average: each value is w times the average so far plus 1 − w times the new value, "
    "divided by 1 − wᵗ at the t-th value. The curves themselves are drawn faint behind."
)


class _Slider(QSlider):
    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class Smoothing(QWidget):
    """The weight w of the average, from 0 (off) to MAX_WEIGHT. `changed`: it is another one."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.slider, self._number = _Slider(Qt.Orientation.Horizontal), QLabel()
        self.slider.setRange(0, round(MAX_WEIGHT * STEPS))
        self.slider.setPageStep(10)
        self.slider.setFixedWidth(WIDTH)
        self.slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.slider.setAccessibleName(tr("Smoothing"))
        self._number.setFixedWidth(NUMBER_WIDTH)
        title = QLabel(tr("Smoothing"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for part in (title, self.slider, self._number):
            row.addWidget(part)
        for label in (title, self._number):
            label.setProperty("role", "muted")
        self.setToolTip(HELP)
        self.slider.valueChanged.connect(self._tell)
        self.slider.valueChanged.connect(self.changed)
        self._tell()

    @property
    def weight(self) -> float:
        """The weight w."""
        return self.slider.value() / STEPS

    def _tell(self) -> None:
        self._number.setText(f"{self.weight:.2f}" if self.slider.value() else tr("off"))
