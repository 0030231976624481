"""Section for LoRA adapters of the selection, and for freezing its own parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.inspector.terms import TERMS
from espalier.app.number_text import count, percent, plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import MIXED, Check, NumberField
from espalier.app.widgets.heading import heading, link
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError
from espalier.model.graph.adapters import PORT, adaptable, shapes
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.graph.ports import weight_at
from espalier.passes.choices.edits import with_lora, with_training
from espalier.passes.choices.freeze import trained_by
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.select import Select
from espalier.passes.transform.fuse_lora import FuseLoraOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.document.document import Change

EVERY = 200  # milliseconds between two requests while typing
FIELDS = ("rank", "alpha", "dropout")
Values = tuple[int, float, float]


class AdapterSection(QWidget):
    """Rank, alpha and dropout of the selected layers' adapters; insert, fuse, remove; freeze. Edits run as jobs."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.nodes: tuple[Node, ...] = ()
        self.ids: tuple[str, ...] = ()
        self._timer = QTimer(self, interval=EVERY, singleShot=True)
        self._timer.timeout.connect(self._change)
        default = LoraOptions()
        self.fields = {"rank": NumberField(int, 1, 4096), "alpha": NumberField(float, 0), "dropout":
                       NumberField(float, 0, 0.99)}  # fmt: skip
        for name in FIELDS:
            self.fields[name].put(getattr(default, name))
        self.insert = link(tr("Insert"), self._insert)
        self.fuse, self.remove = link(tr("Fuse"), self._fuse), link(tr("Remove"), self._remove)
        self.frozen, self.words = Check(), QLabel(wordWrap=True)
        self.frozen.setText(tr("Frozen: not changed by training"))
        self.words.setProperty("role", "small")
        self._arrange()
        for field in self.fields.values():
            field.edited.connect(self._timer.start)
        self.frozen.edited.connect(self._freeze)
        session.changed.connect(self._changed)

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("LoRA and training")))
        self._body = QWidget()
        row = QHBoxLayout(self._body)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for name in FIELDS:
            label = QLabel(tr(name))
            label.setProperty("role", "muted")
            field = self.fields[name]
            field.setFixedWidth(46)
            field.setAccessibleName(tr("LoRA {}", tr(name)))
            for widget in (label, field):
                widget.setToolTip(TERMS[f"LoRA {name}"])
                row.addWidget(widget)
        row.addStretch(1)
        self._links = QWidget()
        links = QHBoxLayout(self._links)
        links.setContentsMargins(0, 0, 0, 0)
        links.setSpacing(12)
        for button, term in ((self.insert, "insert"), (self.fuse, "fuse"), (self.remove, "remove")):
            button.setToolTip(TERMS[f"LoRA {term}"])
            links.addWidget(button)
        links.addStretch(1)
        self.frozen.setToolTip(TERMS["frozen"])
        for widget in (self._body, self._links, self.words, self.frozen):
            column.addWidget(widget)

    # -- showing

    def show_nodes(self, nodes: Sequence[Node], graph: Graph) -> None:
        """Show the adapters of the adaptable nodes, and whether the nodes' parameters are trainable."""
        ids = tuple(n.id for n in nodes)
        if ids != self.ids:
            self._timer.stop()
        self.ids = ids
        self.nodes = tuple(n for n in nodes if adaptable(n, graph))
        own = list(dict.fromkeys(name for n in nodes for name in trained_by(n, graph, "own")))
        self.setVisible(bool(self.nodes or own))
        for widget in (self._body, self._links, self.words):
            widget.setVisible(bool(self.nodes))
        self.frozen.setVisible(bool(own))
        states = {graph.weights[name].trainable for name in own}
        self.frozen.put(MIXED if len(states) > 1 else states == {False})
        if self.nodes and not self._timer.isActive():
            self._show(graph)

    def _show(self, graph: Graph) -> None:
        adapters = self._adapters()
        for name in FIELDS:
            values = {getattr(a, name) for a in adapters.values()}
            if values:
                self.fields[name].put(values.pop() if len(values) == 1 else MIXED)
            else:
                self._put_default(name)
        missing = len(self.nodes) - len(adapters)
        self.insert.setVisible(bool(missing))
        self.insert.setText(tr("Insert in {}", plural(missing, "more layer")) if adapters else tr("Insert"))
        self.fuse.setVisible(bool(adapters))
        self.remove.setVisible(bool(adapters))
        self.words.setText(_sizes(self.nodes, adapters, graph) if adapters else "")
        self.words.setVisible(bool(adapters))

    def _put_default(self, name: str) -> None:
        """Keep a valid field for layers without an adapter, else put the default."""
        try:
            self.fields[name].get()
        except EspalierError:
            self.fields[name].put(getattr(LoraOptions(), name))

    def _adapters(self) -> dict[str, Adapter]:
        return {n.id: n.adapters[PORT] for n in self.nodes if PORT in n.adapters}

    def _changed(self, change: Change) -> None:
        """Refresh after freezing, which changes no node and so does not refresh the inspector."""
        document = self._session.document
        by_id = document.graph.nodes if document else {}
        nodes = [by_id[i] for i in self.ids if i in by_id]
        refreshed = not set(change.delta.changed).isdisjoint(self.ids)
        if document and nodes and not refreshed and not self.isHidden():  # also while another tab is in front
            self.show_nodes(nodes, document.graph)

    # -- edits

    def _values(self, adapter: Adapter | None) -> Values | None:
        """The fields' values for a layer, its own where a field is mixed; None while a field is invalid."""
        values: list[float] = []
        for name in FIELDS:
            field = self.fields[name]
            if not field.text() and field.placeholderText() == MIXED and adapter is not None:
                values.append(getattr(adapter, name))
                continue
            try:
                values.append(field.get())
            except EspalierError:
                return None
        return int(values[0]), float(values[1]), float(values[2])

    def _ask(self, layers: dict[str, Adapter | None], label: str) -> None:
        groups: dict[Values, tuple[str, ...]] = {}
        for name, adapter in layers.items():
            values = self._values(adapter)
            if values is None:
                return
            groups[values] = (*groups.get(values, ()), name)
        wishes = {values: self._selecting(names) for values, names in groups.items()}
        self._session.set_recipe(with_lora(self._session.recipe, wishes), label, ("lora", label, tuple(layers)))

    def _selecting(self, names: tuple[str, ...]) -> Select | tuple[str, ...]:
        """These layers, by the saved selection whose layers they all are."""
        graph = self._session.open_document.graph
        return self._session.saved_selections.selecting(names, lambda n: adaptable(n, graph))

    def _change(self) -> None:
        """Change the values of existing adapters."""
        adapters = self._adapters()
        if adapters and any(self._values(a) != (a.rank, a.alpha, a.dropout) for a in adapters.values()):
            self._ask(dict(adapters), tr("Change LoRA"))

    def _insert(self) -> None:
        self._timer.stop()
        adapters = self._adapters()
        if self.nodes:
            default = next(iter(adapters.values()), None)
            self._ask({n.id: default for n in self.nodes if n.id not in adapters}, tr("Insert LoRA"))

    def _remove(self) -> None:
        self._timer.stop()
        names = tuple(self._adapters())
        self._session.set_recipe(with_lora(self._session.recipe, {(0, 0.0, 0.0): names}), tr("Remove LoRA"))

    def _fuse(self) -> None:
        self._timer.stop()
        step = Step("fuse_lora", FuseLoraOptions(Select("name", tuple(self._adapters()))))
        self._session.set_recipe(self._session.recipe.append(step), tr("Fuse LoRA"))

    def _freeze(self) -> None:
        frozen = self.frozen.checkState().value != 0
        document = self._session.document
        if document is None:
            return
        nodes = (document.graph.nodes[i] for i in self.ids)
        ids = tuple(n.id for n in nodes if any(trained_by(n, document.graph, "own")))
        label, graph = tr("Freeze") if frozen else tr("Unfreeze"), document.graph
        selecting = self._session.saved_selections.selecting
        chosen = selecting(ids, lambda n: any(trained_by(n, graph, "own")))
        self._session.set_recipe(with_training(self._session.recipe, chosen, not frozen), label, ("freeze", ids))


def _sizes(nodes: Sequence[Node], adapters: dict[str, Adapter], graph: Graph) -> str:
    """Text on the added parameters and their share of the adapted weights."""
    bases: dict[str, Weight] = {}
    added = 0
    for node in nodes:
        name = weight_at(node, PORT, graph)
        if node.id in adapters and name is not None and name not in bases:
            bases[name] = graph.weights[name]
            added += sum(_product(s) for s in shapes(node, bases[name], adapters[node.id].rank))
    total = sum(w.elements for w in bases.values())
    target = tr("the weight") if len(bases) == 1 else f"{plural(len(bases), 'weight')}"
    return tr("adds {} parameters, {} of {}", count(added), percent(added / max(total, 1)), target)


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
