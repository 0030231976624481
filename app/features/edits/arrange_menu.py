"""Menus of arranging by hand: rows in the menus of nodes and groups, the menu of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QMenu

from espalier.app.canvas.aligning import least
from espalier.app.features.edits import arrange
from espalier.app.theme import TAGS
from espalier.app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint

    from espalier.app.host import Host


def connect(host: Host) -> None:
    """Follow the canvas: the menu of frames."""
    host.canvas.frame_menu_requested.connect(partial(show_frame_menu, host))


def add_rows(host: Host, menu: QMenu, ids: Sequence[str]) -> None:
    """Frames, pins and aligning of the selected nodes."""
    menu.addAction(tr("Group in a frame…\tCtrl+G"), partial(arrange.frame_nodes, host))
    document = host.session.document
    frames = document.arrangement.frames if document is not None else ()
    if frames:
        rows = menu.addMenu(tr("Add to the frame"))
        for place, frame in enumerate(frames):
            title = frame.title.replace("&", "&&")
            row = rows.addAction(swatch(TAGS.get(frame.colour, TAGS["grey"])), title)
            row.triggered.connect(partial(_add, host, place, ids))
        menu.addAction(tr("Take out of the frame"), partial(arrange.take_out, host, ids)).setEnabled(
            arrange.framed(host, ids)
        )
    rows = menu.addMenu(tr("Align"))
    count = len(host.canvas.items_of(ids))
    for way, title in arrange.WAYS.items():
        if way == "horizontally":
            rows.addSeparator()
        rows.addAction(title, partial(arrange.align, host, way)).setEnabled(count >= least(way))
    rows.setEnabled(count > 1)
    if arrange.has_pins(host):
        menu.addAction(tr("Unpin"), partial(arrange.unpin, host, ids)).setEnabled(bool(arrange.pins_of(host, ids)))
        menu.addAction(tr("Unpin all"), partial(arrange.unpin_all, host))


def _add(host: Host, place: int, ids: Sequence[str], checked: bool = False) -> None:
    arrange.add_to_frame(host, place, ids)


def frame_menu(host: Host, place: int) -> QMenu:
    """Rename, colour and remove a frame; Unpin what it holds."""
    menu, frame = QMenu(host.canvas), arrange.frame_at(host, place)
    assert frame is not None
    menu.addAction(frame.title.replace("&", "&&")).setEnabled(False)
    menu.addSeparator()
    menu.addAction(tr("Rename…\tF2"), partial(arrange.rename_frame, host, place))
    colours = menu.addMenu(tr("Colour"))
    for colour in TAGS:
        changed = partial(
            arrange.set_frame, host, place, replace(frame, colour=colour), tr("Colour the frame {}", frame.title)
        )
        row = colours.addAction(swatch(TAGS[colour]), tr(colour), changed)
        row.setCheckable(True)
        row.setChecked(colour == frame.colour)
    if arrange.has_pins(host):
        row = menu.addAction(tr("Unpin its nodes"), partial(arrange.unpin, host, frame.nodes))
        row.setEnabled(bool(arrange.pins_of(host, frame.nodes)))
    menu.addSeparator()
    menu.addAction(tr("Remove frame\tDel"), partial(arrange.remove_frame, host, place)).setToolTip(
        tr("Its nodes stay.")
    )
    menu.setToolTipsVisible(True)
    return menu


def show_frame_menu(host: Host, place: int, spot: QPoint) -> None:
    """Open the menu of a frame."""
    if arrange.frame_at(host, place) is not None:
        menu = frame_menu(host, place)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(spot)


def swatch(colour: str) -> QIcon:
    """A square of a colour."""
    picture = QPixmap(12, 12)
    picture.fill(QColor(colour))
    return QIcon(picture)
