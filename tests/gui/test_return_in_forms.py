"""Return right after typing presses the button of a form, also where a list of completions takes the keys."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.data_fields import DataField
from tests.gui.conftest import FakeRunner, open_small
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("chosen", [False, True])
def test_return_with_an_open_list(window: Window, runner: list[FakeRunner], qtbot: PatientBot, chosen: bool) -> None:
    open_small(window, runner)
    window.services.evaluation.evaluate_on()
    (form,) = window.findChildren(OptionsWindow)
    given: list[object] = []
    form._on_apply = given.append
    (field,) = form.findChildren(DataField)
    qtbot.waitExposed(form)
    qtbot.focus(field.line)
    field.line.clear()
    QTest.keyClicks(field.line, "demo:dig")
    completer = field.line.completer()
    assert completer is not None
    popup = completer.popup()
    qtbot.waitUntil(popup.isVisible)
    if chosen:
        QTest.keyClick(popup, Qt.Key.Key_Down)
    QTest.keyClick(popup, Qt.Key.Key_Return)
    if chosen:  # the completion is taken, and the form stays for it to be read
        assert field.line.text() == "demo:digits"
        QTest.qWait(50)
        assert form.isVisible() and not given
        form.close()
    else:
        qtbot.waitUntil(lambda: len(given) == 1)
