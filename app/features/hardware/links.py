"""A node of the graph, its instances in the design, and their text: choosing one shows the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from espalier.app.features.hardware.state.hardware import Hardware
from espalier.app.features.hardware.views import SOURCE, Views

if TYPE_CHECKING:
    from espalier.app.session.session import Session

FIFOS = ("fifo", "fifo_ram")
_INSTANCE = re.compile(r"\) u_(\w+) \(")


class Links:
    """Follows the selection of the graph, the tree of instances and the source."""

    def __init__(self, session: Session, held: Hardware, views: Views) -> None:
        self._session, self._held, self._views = session, held, views
        self._following = False
        session.selection_changed.connect(self.show_selected)
        views.tree.picked.connect(self._picked)
        views.tree.opened.connect(self.find_instance)
        views.tree.place_wanted.connect(self._show_place)
        views.source.text.clicked.connect(self._clicked)
        views.source.choice.edited.connect(self._file_chosen)

    def show_selected(self, ids: tuple[str, ...]) -> None:
        """The graph's selection: mark it in all tables, and show the module of a single node."""
        if self._held.made is None:
            return
        self._views.select_nodes(ids)
        if self._following:
            return
        rows = self._views.tree.select_where("node", ids)
        if len(ids) == 1 and rows:
            self._show_module(next((r for r in reversed(rows) if r["module"] not in FIFOS), rows[-1]))

    def _picked(self, rows: list[dict[str, Any]]) -> None:
        """Instances were chosen in the tree: select their nodes."""
        if rows:
            self._show_module(rows[-1])
            self._select(r["node"] for r in rows)
        elif self._held.made:
            self._views.source.show_file(self._held.made.file_of(self._held.made.name))

    def _show_module(self, row: dict[str, Any]) -> None:
        if made := self._held.made:
            self._views.source.show_file(made.file_of(row["module"]))

    def find_instance(self, name: str) -> None:
        """Show where the top has an instance."""
        if made := self._held.made:
            self._views.tabs.setCurrentIndex(SOURCE)
            self._views.source.show_file(made.file_of(made.name), f") u_{name} (")

    def _show_place(self, module: str, line: int) -> None:
        """Show a line of a module's text."""
        if made := self._held.made:
            self._views.tabs.setCurrentIndex(SOURCE)
            self._views.source.go_to(made.file_of(module), line)

    def _clicked(self, paragraph: str, line: int) -> None:
        """A part of a text: select the instance that stands there."""
        source, tree = self._views.source, self._views.tree
        if source.comparing:  # the lines of a diff are not those of the module
            return
        if source.file.startswith("rtl/"):
            rows = [] if source.text.editable else tree.select_inside(source.module, line)
        else:
            found = _INSTANCE.search(paragraph)
            rows = tree.select_where("instance", [found[1]]) if found else []
        if rows:
            self._select(r["node"] for r in rows)

    def _file_chosen(self) -> None:
        """A module's file: select its instances."""
        module = self._views.source.file.rpartition("/")[2].removesuffix(".sv")
        self._select(r["node"] for r in self._views.tree.select_where("module", [module]))

    def _select(self, nodes: Any) -> None:
        self._following = True
        self._session.select(dict.fromkeys(nodes))
        self._following = False
