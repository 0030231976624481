"""The menu View: the canvas, its colours, the theme and the focus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

from espalier.app.canvas.colouring import MODES
from espalier.app.errors import open_file
from espalier.app.menu import Action, always
from espalier.app.settings import SIZES, data_folder
from espalier.app.shell.actions.edit import is_selected
from espalier.app.shell.language import ENGLISH, FOLDER, SYSTEM, language_title, languages
from espalier.app.shell.workspaces import GRAPH, WORKSPACES
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.host import Host
    from espalier.app.settings import Settings
    from espalier.app.shell.docks import Docks
    from espalier.app.shell.presenting import Presenting
    from espalier.app.shell.workbench import Workbench
    from espalier.app.widgets.style import Appearance


class View:
    """The actions of the menu View; canvas and docks are created on first use."""

    def __init__(self, host: Host, docks: Callable[[], Docks], workbench: Workbench, presenting: Presenting) -> None:
        self._host, self._docks, self.workbench, self.presenting = host, docks, workbench, presenting

    @property
    def canvas(self) -> GraphCanvas:
        """The graph canvas."""
        return self._host.canvas

    def reveal(self) -> None:
        """Bring the selection into view."""
        self.canvas.reveal(self._host.session.selection[0])

    def next_panel(self) -> None:
        """Give the focus to the next visible panel; after the last one, to the graph."""
        docks, focus = self._docks(), QApplication.focusWidget()
        visible = [n for n, d in docks.docks.items() if d.isVisible() and not d.visibleRegion().isEmpty()]
        index = next((i for i, n in enumerate(visible) if focus and docks.docks[n].isAncestorOf(focus)), -1)
        if index + 1 < len(visible):
            docks.enter(visible[index + 1])
        else:
            self.canvas.setFocus()

    @property
    def has_panels_beside(self) -> bool:
        """Whether the workspace in front shows panels that the graph can be beside."""
        return self._host.session.document is not None and self.workbench.current != GRAPH

    def toggle_drawer(self) -> None:
        """Open or close the drawer."""
        self.workbench.show_drawer(not self.workbench.drawer_shown)

    def reset(self) -> None:
        """Move every dock to its default place."""
        self._docks().reset()


def rows(view: View, host: Host) -> list[Action]:
    """Rows for the canvas, its colours and the focus."""
    has_selection = partial(is_selected, host.session)
    return [
        *(Action(f"workspace_{w.id}", w.title, "View/Workspace", partial(view.workbench.show_workspace, w.id), w.key,
                 checked=lambda w=w: view.workbench.current == w.id, help=w.help) for w in WORKSPACES),
        Action("fit", "Fit graph", "View", lambda: view.canvas.fit(), "Ctrl+0"),
        Action("zoom_in", "Zoom in", "View", lambda: view.canvas.zoom_by(1.25), "Ctrl++"),
        Action("zoom_out", "Zoom out", "View", lambda: view.canvas.zoom_by(0.8), "Ctrl+-"),
        Action("zoom_to", "Go to the selection", "View", view.reveal, "Ctrl+Shift+G", needs=has_selection),
        Action("expand", "Expand all", "View", lambda: view.canvas.open_all(), "Ctrl+Shift+E", group=1),
        Action("collapse", "Collapse all", "View", lambda: view.canvas.close_all(), "Ctrl+Shift+C", group=1),
        Action("fold", "Fold identical layers", "View", lambda: view.canvas.set_folding(not view.canvas.folding),
               "Ctrl+Shift+I", checked=lambda: view.canvas.folding, group=1,
               help="Draw collapsed identical blocks in a row as one card"),
        Action("shapes", "Shape operations", "View", lambda: view.canvas.set_show_shapes(not view.canvas.show_shapes),
               checked=lambda: view.canvas.show_shapes, group=1,
               help="Draw operations that only move values, such as view and transpose"),
        Action("across", "Left to right", "View", lambda: view.canvas.set_horizontal(not view.canvas.horizontal),
               "Ctrl+Shift+L", checked=lambda: view.canvas.horizontal, group=1),
        Action("casts", "Format conversions", "View", lambda: view.canvas.set_show_casts(not view.canvas.show_casts),
               "Ctrl+Shift+F", checked=lambda: view.canvas.show_casts, group=1,
               help="Mark the edges where values change format"),
        Action("transfers", "Transfers between devices", "View",
               lambda: view.canvas.set_show_transfers(not view.canvas.show_transfers),
               checked=lambda: view.canvas.show_transfers, group=1,
               help="Draw the edges of a sharded model by the bytes and the collectives that redistribute its tensors"),
        *(Action(f"colour_{k}", v[:1].upper() + v[1:], "View/Colour by", lambda k=k: view.canvas.set_mode(k),
                 f"Alt+{(i + 1) % 10}" if i < 10 else "", checked=lambda k=k: view.canvas.mode == k, group=2)
          for i, (k, v) in enumerate(MODES.items())),
        Action("to_inspector", "Go to the inspector", "View/Focus", partial(host.enter_dock, "inspector"), "Ctrl+I",
               group=4),
        Action("to_recipe", "Go to the recipe", "View/Focus", partial(host.enter_dock, "recipe"), "Ctrl+R", group=4),
        Action("next_panel", "Go to the next panel", "View/Focus", view.next_panel, "F6", group=4),
        Action("toggle_graph", "Graph beside the panels", "View", host.toggle_graph, "Shift+F6", group=4,
               checked=lambda: view.workbench.graph_shown, needs=lambda: view.has_panels_beside,
               help="Show the graph beside the panels, or give them the whole width"),
        Action("drawer", "Drawer", "View", view.toggle_drawer, "Ctrl+J", checked=lambda: view.workbench.drawer_shown,
               group=4, help="Open or close the tables and messages at the bottom"),
        Action("present", "Present", "View", view.presenting.toggle, "F11", needs=view.presenting.available, group=4,
               checked=lambda: view.presenting.active, dynamic_title=view.presenting.title,
               help="Show the panel with the focus, or the graph, alone at 150 %; Esc ends it"),
        Action("reset_layout", "Reset the layout", "View", view.reset, group=4),
    ]  # fmt: skip


def size_rows(settings: Settings, host: Host) -> list[Action]:
    """Rows for the size of everything in the window."""

    def choose(size: int) -> None:
        settings.size = size
        host.banner.show_message(
            tr("From the next start, the window is drawn at {} %.", size), tr("Save and start it again.")
        )

    return [
        Action(f"size_{s}", f"{s} %", "View/Size", partial(choose, s), needs=always,
               checked=lambda s=s: settings.size == s, group=3, help="Texts, charts and controls, from the next start")
        for s in SIZES
    ]  # fmt: skip


def language_rows(settings: Settings, host: Host) -> list[Action]:
    """Rows for the language of the texts: that of the desktop, English, and those of the user's catalogues."""

    def choose(code: str, title: str) -> None:
        settings.language = code
        host.banner.show_message(tr("From the next start, the language is: {}.", title), tr("Save and start it again."))

    titles = {SYSTEM: tr("System"), ENGLISH: "English", **{c: language_title(c) for c in languages()}}
    return [
        Action(f"language_{c}", t, "View/Language", partial(choose, c, t), needs=always,
               checked=lambda c=c: settings.language == c, group=3, help="Texts of the window, from the next start")
        for c, t in titles.items()
    ] + [
        Action("language_folder", "Folder of catalogues", "View/Language", lambda: open_file(data_folder(FOLDER)),
               needs=always, group=3, help="Put espalier_CODE.qm here; the guide says how to make one"),
    ]  # fmt: skip


def theme_rows(settings: Settings, appearance: Appearance) -> list[Action]:
    """Rows for the light, dark and system theme."""

    def choose(mode: str) -> None:
        settings.mode = mode
        appearance.set_mode(mode)

    return [
        Action(f"theme_{m}", title, "View/Theme", partial(choose, m), needs=always,
               checked=lambda m=m: appearance.mode == m, group=3)
        for m, title in (("light", tr("Light")), ("dark", tr("Dark")), ("system", tr("System")))
    ]  # fmt: skip
