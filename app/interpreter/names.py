"""The names of the console: m, selection, select, es, and modules that are imported when they are named."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import espalier as es
from espalier.app.features.console.messages import Choose, Update
from espalier.app.interpreter.document_model import OpenDocument
from espalier.app.interpreter.window_link import WindowLink
from espalier.model.errors import OptionsError, ProjectError
from espalier.model.graph.node import Node

LAZY = {"np": "numpy", "torch": "torch"}


class Names:
    """Keeps the names up to date. A name that the user gave another value is left alone."""

    def __init__(self, namespace: dict[str, Any], progress: Callable[[int, int, str], None]) -> None:
        self.namespace = namespace
        self.document = OpenDocument(progress)
        self.window: WindowLink | None = None
        self._given: dict[str, object] = {}
        self._give("es", es)
        self._give("select", self.select)

    def _give(self, name: str, value: object) -> None:
        if name not in self.namespace or self.namespace[name] is self._given.get(name, self):
            self.namespace[name] = self._given[name] = value

    def _take_away(self, name: str) -> None:
        if name in self.namespace and self.namespace[name] is self._given.get(name, self):
            del self.namespace[name]

    def take(self, update: Update) -> None:
        """Follow the document; `m` is the model of the one that is open."""
        assert self.window is not None
        self.document.take(update, self.window)
        if self.document.model is None:
            self._take_away("m")
        else:
            self._give("m", self.document.model)

    def begin(self, selection: tuple[str, ...], tree: ast.AST) -> None:
        """Set the selection, and import what a text names."""
        self._give("selection", list(selection))
        self._before = list(selection)
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        for name, module in LAZY.items():
            if name in used and name not in self.namespace:
                self.namespace[name] = importlib.import_module(module)

    def end(self) -> None:
        """Select in the window what the text assigned to `selection`."""
        now = self.namespace.get("selection")
        if now is not self._given.get("selection") or now != self._before:
            self._given["selection"] = now
            self.select(now)

    def select(self, nodes: object = ()) -> None:
        """Select nodes in the window.

        Args:
            nodes: ids, nodes, or what passes take: a type, a name, a list, "all", "where:params > 1e4". None: nothing.

        Raises:
            OptionsError: a word is no type, node or module of the graph.
        """
        model = self.document.model
        if model is None or self.window is None:
            raise ProjectError("No model is open.", "Open one first.")
        ids = self._ids(nodes)
        chosen = model.nodes(ids) if isinstance(ids, str) else [model[i] for i in ids]
        self._set([n.id for n in chosen])
        self.window.ask(Choose(tuple(n.id for n in chosen)))

    def _ids(self, nodes: object) -> str | list[str]:
        if nodes is None or isinstance(nodes, str):
            return nodes or []
        if isinstance(nodes, Node):
            return [nodes.id]
        if not isinstance(nodes, Iterable):
            what = f"selection is a {type(nodes).__name__}."
            raise OptionsError(what, "Assign ids of nodes, such as [n.id for n in m.nodes('linear')].")
        listed = [n.id if isinstance(n, Node) else n for n in nodes]
        if unknown := next((n for n in listed if not isinstance(n, str)), None):
            raise OptionsError(
                f"{unknown!r} is no node.", "Give ids of nodes, such as [n.id for n in m.nodes('linear')]."
            )
        return listed

    def _set(self, ids: list[str]) -> None:
        self._before = list(ids)
        if self.namespace.get("selection") is self._given.get("selection"):
            self.namespace["selection"] = self._given["selection"] = ids
