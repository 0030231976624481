"""The tab Run of the panel Kernels: what to measure at the left, what came of it at the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.panels.heading import empty_state

if TYPE_CHECKING:
    from app.session import Session


class KernelRuns(QWidget):
    """Nothing has been measured yet."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        QVBoxLayout(self).addWidget(empty_state("No kernel has been measured yet."))
