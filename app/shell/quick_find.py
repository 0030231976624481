"""Matches of the find field: nodes of the open graph and commands, best match first."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from espalier.app.explanations import explain, titles
from espalier.app.figures.captions import title as op_title
from espalier.app.number_text import plural
from espalier.app.shell.find_field import Entry, rank
from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Node
from espalier.passes.query import find_nodes, selection_of

if TYPE_CHECKING:
    from espalier.app.host import Host
    from espalier.app.shell.menus import Menus
    from espalier.app.shell.pass_forms import PassForms
    from espalier.app.shell.plugins import Plugins

QUESTION = re.compile(r"what(?:['’]s| is)? +([^?]*)\??$", re.I)
NODES = 50  # matching nodes listed at most


class QuickFind:
    """Searches the nodes of the open graph, the enabled menu actions and the passes of plug-ins."""

    def __init__(
        self, host: Host, actions: Menus, plugins: Plugins, forms: PassForms, explain: Callable[[str], object]
    ) -> None:
        self._host, self._actions, self._plugins, self._forms = host, actions, plugins, forms
        self._explain = explain

    def entries(self, text: str) -> list[Entry]:
        """Commands whose title fits well, then nodes, then the other commands; all commands for an empty text."""
        if asked := QUESTION.match(text):
            return self._meanings(asked.group(1))
        if (query := self._query(text)) is not None:
            return query
        commands = self._commands(text)
        if not text:
            return [e for _, e in commands]
        near = [e for score, e in commands if score <= 2]
        far = [e for score, e in commands if score > 2]
        meaning = [self._meaning(text)] if explain(text) else []
        return [*near, *self._nodes(text), *meaning, *far]

    def _meanings(self, text: str) -> list[Entry]:
        """What the words are that a question can mean, the best matches first."""
        ranks = {title: rank(text, title) for title in titles()}
        found = sorted((r, t) for t, r in ranks.items() if r is not None and (r <= 2 or not text))
        exact = [text] if explain(text) and text.casefold() not in (t.casefold() for t in ranks) else []
        return [self._meaning(t) for t in (*exact, *(t for _, t in found))]

    def _meaning(self, word: str) -> Entry:
        return Entry(tr("What is {}?", word), tr("Help"), "help", partial(self._explain, word))

    def _commands(self, text: str) -> list[tuple[int, Entry]]:
        entries: list[tuple[int, Entry]] = []
        for row in self._actions.rows:
            action = self._actions.actions[row.id]
            score = (
                rank(text, f"{action.text()} {row.menu_text} {row.section}")
                if action.isEnabled() and row.id != "find"
                else None
            )
            if score is not None:
                menu = f"{row.menu_text} › {row.section}".removesuffix(" › ")
                detail = f"{menu}   {action.shortcut().toString()}".strip()
                run = partial(self._actions.run, row.id)
                entries.append((score, Entry(action.text().rstrip("…"), detail, "command", run)))
        for spec in self._plugins.specs if self._host.session.document else ():
            score = rank(text, f"{tr(spec.title)} {spec.name} {tr('Plug-in passes')}")
            if score is not None:
                run = partial(self._forms.run_plugin, spec.name)
                entries.append((score, Entry(tr(spec.title), tr("Model › Plug-in passes"), "command", run)))
        return sorted(entries, key=lambda pair: pair[0]) if text else entries

    def _query(self, text: str) -> list[Entry] | None:
        """The nodes of an expression or a regular expression, all of them as the first entry; None for plain text."""
        document = self._host.session.document
        if document is None:
            return None
        try:
            if (select := selection_of(text)) is None:
                return None
            ids = find_nodes(document.graph, select)
        except EspalierError as error:
            return [Entry(message(error.message), message(error.hint), "query", lambda: None)]
        return [self._all(ids, text), *(self._node(document.graph[i]) for i in ids[:NODES])] if ids else []

    def _all(self, ids: tuple[str, ...], text: str) -> Entry:
        return Entry(tr("Select {}", plural(len(ids), "node")), text, "query", lambda: self._host.session.select(ids))

    def _nodes(self, text: str) -> list[Entry]:
        document = self._host.session.document
        if document is None:
            return []
        nodes = document.graph.nodes
        ids = tuple(i for i in self._host.canvas.find(text) if i in nodes)
        every = [self._all(ids, text)] if len(ids) > 1 else []
        entries = [self._node(nodes[i]) for i in ids[:NODES]]
        return [*entries[:5], *every, *entries[5:]]

    def _node(self, node: Node) -> Entry:
        name = node.target if node.call == "call_module" else node.id
        return Entry(name, op_title(node.op), "node", lambda: self._host.go_to(node.id))
