"""Changing the theme, whatever Python has to clear away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
from PySide6.QtWidgets import QApplication, QLabel, QWidget
import gc

from espalier.app.widgets.style import Appearance

class Busy(QLabel):
    def changeEvent(self, event):
        super().changeEvent(event)
        unused.clear()
        self.made = [[] for _ in range(50)]

app, unused, shown = QApplication([]), [], []
look = Appearance(app, "light")
for n in range(300):
    widget = QWidget()
    widget.child, widget.itself = QLabel("x", widget), widget
    unused.append(widget)
    shown.append(Busy("y"))
del widget
gc.set_threshold(20, 1, 1)
look.set_mode("dark")
gc.collect()
print(len(app.allWidgets()))
"""


def test_widgets_that_nobody_holds_outlive_a_change_of_theme() -> None:
    """Qt walks a list of all widgets then: one that Python's collector took away ended the program."""
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, cwd=ROOT, env={"QT_QPA_PLATFORM": "offscreen"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "300\n"
