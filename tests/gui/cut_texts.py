"""Finds visible texts of a window that are cut: of labels, buttons, tabs, headers and combo boxes."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QCheckBox,
    QHeaderView,
    QLabel,
    QPushButton,
    QRadioButton,
    QStyle,
    QStyleOptionButton,
    QTabBar,
    QToolButton,
    QWidget,
)

from espalier.app.widgets.forms.fields import BESIDE, NARROW, Choice
from espalier.app.widgets.heading import Elided

SLACK = 1  # pixels: widths are rounded


def cut_texts(root: QWidget) -> list[str]:
    """The visible texts below a widget that do not fit, each with the kind of its widget.

    `Elided` labels are left out: they shorten long names by design and have the whole text as a tool tip.
    """
    found = []
    for widget in (root, *root.findChildren(QWidget)):
        shown = widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget  # which covers its view
        if widget.isVisible() and not shown.visibleRegion().isEmpty():
            found += [f"{type(widget).__name__}: {text}" for text in _cut(widget)]
    return found


def _cut(widget: QWidget) -> Iterator[str]:
    match widget:
        case QTabBar():
            yield from _cut_tabs(widget)
        case QHeaderView() if widget.orientation() == Qt.Orientation.Horizontal:
            yield from _cut_titles(widget)
        case QLabel() if not isinstance(widget, Elided) and widget.text() and not _label_fits(widget):
            yield widget.text()
        case Choice() if not _choice_fits(widget):
            yield widget.currentText()
        case QAbstractButton() if widget.text() and not _button_fits(widget):
            yield widget.text()
        case _:
            return


def _cut_tabs(tabs: QTabBar) -> Iterator[str]:
    for at in range(tabs.count()):
        if tabs.fontMetrics().horizontalAdvance(tabs.tabText(at).replace("&", "")) > tabs.tabRect(at).width() + SLACK:
            yield tabs.tabText(at)


def _choice_fits(choice: Choice) -> bool:
    room = choice.width() - (0 if choice.width() < NARROW else BESIDE)
    return choice.fontMetrics().horizontalAdvance(choice.currentText()) <= room + SLACK


def _label_fits(label: QLabel) -> bool:
    room = label.contentsRect().adjusted(label.margin(), label.margin(), -label.margin(), -label.margin())
    if label.textFormat() != Qt.TextFormat.PlainText and "<" in label.text():
        document = QTextDocument()
        document.setDefaultFont(label.font())
        document.setDocumentMargin(0)
        document.setHtml(label.text())
        if label.wordWrap():
            document.setTextWidth(room.width())
        return document.idealWidth() <= room.width() + SLACK and document.size().height() <= room.height() + 2 * SLACK
    if label.wordWrap():
        box = label.fontMetrics().boundingRect(room, int(Qt.TextFlag.TextWordWrap), label.text())
        return box.width() <= room.width() + SLACK and box.height() <= room.height() + 2 * SLACK
    size = label.fontMetrics().size(0, label.text())
    return size.width() <= room.width() + SLACK and size.height() <= room.height() + 2 * SLACK


def _button_fits(button: QAbstractButton) -> bool:
    text = button.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
    needed = max(map(button.fontMetrics().horizontalAdvance, text.split("\n")))
    room = button.width()
    match button:
        case QCheckBox() | QRadioButton():
            option = QStyleOptionButton()
            button.initStyleOption(option)
            room = button.style().subElementRect(QStyle.SubElement.SE_CheckBoxContents, option, button).width()
        case QToolButton() if button.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon:
            room -= button.iconSize().width() if not button.icon().isNull() else 0
        case QPushButton() if not button.icon().isNull():
            room -= button.iconSize().width()
        case _:
            pass
    return needed <= room + SLACK


def _cut_titles(header: QHeaderView) -> Iterator[str]:
    model = header.model()
    for section in range(header.count()):
        title = str(model.headerData(section, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole) or "")
        needed = max(map(header.fontMetrics().horizontalAdvance, title.split("\n")))
        last = header.stretchLastSection() and section == header.count() - 1
        seen = header.sectionViewportPosition(section) + header.sectionSize(section) <= header.width() or last
        if seen and not header.isSectionHidden(section) and needed > header.sectionSize(section) + SLACK:
            yield title
