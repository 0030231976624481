"""Runs a built model unit by unit on all batches; a unit can run again and again on the same inputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx

from espalier.model.graph.graph import Graph
from espalier.model.torch.build import NODE, PORT
from espalier.passes.observed.layerwise import Inputs
from espalier.passes.recovery.units import Unit
from espalier.passes.running.batches import fit_error

Values = dict[fx.Node, Any]
_EMULATED = "emulated."


class UnitRun(fx.Interpreter):
    """`values`: for each batch, the tensors that the present unit and later ones read."""

    def __init__(self, module: fx.GraphModule, samples: Sequence[Inputs], units: Sequence[Unit], graph: Graph) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.samples, self.units, self.graph_of = samples, units, graph
        self.values: list[Values] = [{} for _ in samples]
        self.nodes = list(module.graph.nodes)
        self.owners = {n: _owner(n) for n in self.nodes}
        self.of_node = self._ends()
        self.stages = self._stages()
        self.needed = self._needed()

    # -- which fx nodes are of which unit

    def _ends(self) -> dict[str, fx.Node]:
        """Node of the graph, or one of its several results → the last fx node of it: its own, its format's, or its
        emulation's."""
        ends: dict[str, fx.Node] = {}
        for n in self.nodes:
            name = n.meta.get(NODE)
            ports = [i for i, port in n.meta.get(PORT, ()) if port == "data_out"]
            emulated = str(n.target).removeprefix(_EMULATED) if _is_emulation(n) else None
            item = f"{_owner(n)}[{n.args[1]}]" if name is None and _is_item(n) else None
            for of in (name, *ports, emulated, item):
                if of is not None:
                    ends[of] = n
        return ends

    def _stages(self) -> list[tuple[list[fx.Node], list[fx.Node]]]:
        """For each unit the fx nodes to run before it, and its own."""
        done: set[fx.Node] = set()
        stages: list[tuple[list[fx.Node], list[fx.Node]]] = []
        for unit in self.units:
            own = {n for n in self.nodes if self.owners[n] in unit.nodes}
            before = _feeding(self.nodes, own) - own - done
            own |= before & _reached(self.nodes, own)  # formats that several consumers share
            before -= own
            stages.append(([n for n in self.nodes if n in before], [n for n in self.nodes if n in own]))
            done |= before | own
        return stages

    def _needed(self) -> list[tuple[set[fx.Node], set[fx.Node]]]:
        """For each unit the values to keep before and behind it."""
        needed: list[tuple[set[fx.Node], set[fx.Node]]] = []
        later: set[fx.Node] = set()
        for before, own in reversed(self.stages):
            behind = set(later)
            later |= {i for n in own for i in n.all_input_nodes}
            needed.append((set(later), behind))
            later |= {i for n in before for i in n.all_input_nodes}
        return needed[::-1]

    def results(self, unit: Unit, values: Values) -> list[Tensor]:
        """The results of a unit that has run."""
        return [values[self.of_node[name]] for name in unit.results]

    # -- running

    def prepare(self, number: int) -> None:
        """Compute what the unit reads."""
        with torch.no_grad():
            for index, given in enumerate(self.values):
                values = self._run(self.stages[number][0], given, self.samples[index])
                self.values[index] = {n: v for n, v in values.items() if n in self.needed[number][0]}

    def run_unit(self, number: int, given: Values) -> Values:
        """All values of a unit on the inputs `given`, which stay as they are."""
        return self._run(self.stages[number][1], given, {})

    def finish(self, number: int) -> list[list[Tensor]]:
        """Run the unit on all batches and leave it behind; its results by batch."""
        results: list[list[Tensor]] = []
        with torch.no_grad():
            for index, given in enumerate(self.values):
                values = self.run_unit(number, given)
                results.append(self.results(self.units[number], values))
                self.values[index] = {n: v for n, v in values.items() if n in self.needed[number][1]}
        return results

    def _run(self, nodes: Iterable[fx.Node], given: Values, inputs: Inputs) -> Values:
        self.env = dict(given)
        for n in nodes:
            if n.op == "placeholder":
                self.env[n] = inputs.get(str(n.target))
            else:
                with fit_error(dict(inputs), self.graph_of):
                    self.env[n] = self.run_node(n)
        values, self.env = self.env, {}
        return values

    def replaced(self, values: Values, other: UnitRun, theirs: Values) -> Values:
        """`values` with those that `other`, a run of the same graph with other formats, has of the same nodes."""
        named = {name: n for name, n in other.of_node.items() if n in theirs}
        mine: Mapping[fx.Node, str] = {n: name for name, n in self.of_node.items()}
        return {n: theirs[named[mine[n]]] if mine.get(n) in named else v for n, v in values.items()}


def _is_emulation(n: fx.Node) -> bool:
    return n.op == "call_module" and str(n.target).startswith(_EMULATED)


def _owner(n: fx.Node) -> str | None:
    """The node of the graph that an fx node belongs to; None for inputs and stored values."""
    if NODE in n.meta:
        return cast("str", n.meta[NODE])
    if n.meta.get(PORT):
        return cast("str", n.meta[PORT][0][0])
    if _is_emulation(n):
        return str(n.target).removeprefix(_EMULATED)
    return _owner(n.all_input_nodes[0]) if _is_item(n) else None


def _is_item(n: fx.Node) -> bool:
    return n.target is operator.getitem and len(n.all_input_nodes) == 1


def _feeding(order: Sequence[fx.Node], nodes: set[fx.Node]) -> set[fx.Node]:
    """These nodes and all that they depend on."""
    needed = set(nodes)
    for n in reversed(order):
        if n in needed:
            needed.update(n.all_input_nodes)
    return needed


def _reached(order: Sequence[fx.Node], nodes: set[fx.Node]) -> set[fx.Node]:
    """These nodes and all that depend on them."""
    reached = set(nodes)
    for n in order:
        if any(i in reached for i in n.all_input_nodes):
            reached.add(n)
    return reached
