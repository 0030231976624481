"""An error in a method that Qt calls is reported; the program goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

SCRIPT = """
import sys
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QMenu
from shiboken6 import Shiboken
from espalier.app.shell.application import make_application

class Field(QLineEdit):
    def keyPressEvent(self, event):
        self.menu.actions()
Field.__module__ = "tests.field"

class Later(Field):
    def keyPressEvent(self, event):
        super().keyPressEvent(event)

app = make_application()
exec('''
class Last(QLineEdit):
    __module__ = "tests.last"
    def keyPressEvent(self, event):
        self.menu.actions()
''')
for kind in (Field, Last):
    field, menu = kind(), QMenu()
    field.menu = menu
    Shiboken.delete(menu)
    try:
        QTest.keyClick(field, Qt.Key.Key_A)
    except RuntimeError as error:
        print("reported", "QMenu) already deleted" in str(error))
    assert kind.keyPressEvent.__wrapped__.__name__ == "keyPressEvent"
print("alive")
"""


@pytest.mark.slow
def test_a_deleted_object_in_an_override_is_an_exception(root: Path, tmp_path: Path) -> None:
    """On Python 3.11 PySide ended the process: `PepException_GetArgs` reads a text as an exception."""
    if sys.version_info >= (3, 12):
        pytest.skip("Python makes the exception at once")
    file = tmp_path / "it.py"
    file.write_text(SCRIPT)
    paths = {"PYTHONPATH": str(root / "roots"), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        env=os.environ | paths,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["reported", "True", "reported", "True", "alive"]
