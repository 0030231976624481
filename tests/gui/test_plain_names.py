"""Names from files are text: no label, tooltip or message reads markup in them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QDockWidget, QLabel, QMessageBox, QToolTip
from pytestqt.qtbot import QtBot

from espalier.app.features.data.samples import SampleModel
from espalier.app.shell.window import Window
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import PassError
from espalier.model.sources.info import SourceInfo
from tests.gui.conftest import FakeRunner, open_small, small_graph

pytestmark = pytest.mark.gui

LINK, PICTURE = '<a href="http://x.invalid">n</a>', '<img src="http://x.invalid/p.png">'


def hostile() -> Project:
    """The small project, each of its names with markup."""
    graph = small_graph()
    nodes = [
        replace(n, target=f"{LINK}{n.target}", module_path=f"{PICTURE}{n.target}", attrs={**n.attrs, "class": LINK})
        if n.call == "call_module" else n for n in graph
    ]  # fmt: skip
    held = replace(graph, nodes={n.id: n for n in nodes})
    return Project(SourceInfo(LINK, PICTURE, ("x",), classes=(LINK, PICTURE)), held, Recipe(), held)


MISTAKEN = """
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QLabel, QMessageBox, QWidgetItem
from espalier.app.widgets.plain_text_style import PlainTextStyle

application = QApplication([])
message, box = QMessageBox(), QDialogButtonBox(QDialogButtonBox.StandardButton.Ok)
message.setText("x")

widgets = [*box.buttons(), message.findChild(QLabel, "qt_msgbox_label")]
held = [shiboken6.getCppPointer(widget)[0] for widget in widgets]
for widget in widgets:
    shiboken6.invalidate(widget)
items = [shiboken6.wrapInstance(address, QWidgetItem) for address in held]
assert all(type(item) is QWidgetItem for item in items)
application.setStyle(PlainTextStyle("Fusion"))
message.show()
box.show()
print(message.findChild(QLabel, "qt_msgbox_label").textFormat() == Qt.TextFormat.PlainText)
"""


def test_a_widget_that_is_mistaken_for_a_layout_item_ends_nothing() -> None:
    """As when one is made at the address of an item that is gone: an error in a style's method ended the process."""
    done = subprocess.run([sys.executable, "-c", MISTAKEN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["True"]), done.stderr


def labels(window: Window) -> list[QLabel]:
    found = [w for w in QApplication.allWidgets() if isinstance(w, QLabel)]
    for label in found:
        label.ensurePolished()
    return found


def harmless(label: QLabel) -> bool:
    rich = label.textFormat() in (Qt.TextFormat.RichText, Qt.TextFormat.MarkdownText)
    return label.textFormat() == Qt.TextFormat.PlainText or (
        rich and "x.invalid" not in label.text().replace("&lt;", "")
    )


def test_no_label_reads_markup(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_small(window, runner, hostile())
    for dock in window.findChildren(QDockWidget):
        dock.show()
        dock.raise_()
        QApplication.processEvents()
    window.session.select(("fc1",))
    window.banner.show_error(PassError(f"The node {LINK} is wrong.", PICTURE, "fc1"))
    QApplication.processEvents()
    found = labels(window)
    assert not [(label.text(), label.textFormat()) for label in found if not harmless(label)]
    shown = [label for label in found if "x.invalid" in label.text()]
    assert len(shown) >= 3
    assert not any(label.textFormat() == Qt.TextFormat.AutoText for label in found)


@pytest.mark.parametrize("text", [LINK, PICTURE, "<b>bold</b>", "two\nlines"])
def test_a_tooltip_is_plain(text: str, window: Window) -> None:
    QToolTip.showText(QPoint(5, 5), text, window)
    tips = [w for w in QApplication.topLevelWidgets() if isinstance(w, QLabel) and w.text() == text]
    assert [t.textFormat() for t in tips] == [Qt.TextFormat.PlainText]
    QToolTip.hideText()


def test_a_message_box_is_plain(window: Window) -> None:
    box = QMessageBox(window)
    box.setText(f"Save {LINK}?")
    box.setInformativeText(PICTURE)
    box.open()
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in box.findChildren(QLabel))
    box.close()


def test_the_tooltip_of_a_sample_is_its_text() -> None:
    samples = SampleModel()
    samples.columns, samples.rows = ["text"], [{"text": LINK}]
    assert samples.data(samples.index(0, 0), Qt.ItemDataRole.ToolTipRole) == LINK
