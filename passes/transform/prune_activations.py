"""Pruning of activations: what flows into layers loses its smallest values, by a rule for each tensor that comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ops import base_port, floating, quantisable
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.prune_activations import ROUNDS, PruneActivationsOptions
from espalier.passes.observed.tensor_statistics import port_map
from espalier.passes.pruning.magnitudes import Magnitudes
from espalier.passes.pruning.module_calls import all_calls
from espalier.passes.running.splits import data_of, load_split
from espalier.passes.select import chosen

if TYPE_CHECKING:
    from torch import Tensor

_STEADY = 0.01  # share of a threshold by which it may still move
Place = tuple[str, str]


def prunable_activations(node: Node, graph: Graph) -> bool:
    """Whether what flows into a node's data_in is computed, and can be pruned."""
    return bool(_ports(node, graph, PruneActivationsOptions()))


@transform("prune_activations", "Prune activations", PruneActivationsOptions)
def prune_activations(graph: Graph, options: PruneActivationsOptions, context: Context) -> tuple[Graph, Report]:
    """Zero the smallest values that flow into the selected nodes, before their format; 0 takes the pruning away.

    top_k: exactly round(sparsity·values) of each sample (an entry of the first axis), ties by place. threshold: all
    magnitudes up to the quantile of |x| on data, of each tensor or of all together, so that the share varies with the
    input; a tensor is measured where those before it are pruned already (global: in some rounds). In training the
    gradient passes for what stays. BitOPs count as before: a multiplication is saved only where hardware skips zeros.
    """
    nodes = chosen(graph, options.select, lambda n: bool(_ports(n, graph, options)), "pruned in their activations")
    nodes = all_calls(nodes, graph)
    places = {(n.id, p): (p,) for n in nodes for p in _ports(n, graph, options)}
    measured = _measured(graph, places, options, context) if options.sparsity else {}
    rows: list[Row] = []
    changed: list[Node] = []
    for node in nodes:
        ports = _ports(node, graph, options)
        held = {p: s for p, s in node.sparsity.items() if p not in ports}
        found = {p: _sparsity(measured.get((node.id, p)), options, context) for p in ports if options.sparsity}
        changed.append(replace(node, sparsity={**held, **found}))
        rows += [_row(node, p, found.get(p)) for p in ports]
    summary = {"nodes": len(nodes), "tensors": len(places), "sparsity": options.sparsity}
    return graph.replace(*changed), Report("prune_activations", tuple(rows), summary)


def _row(node: Node, port: str, held: Sparsity | None) -> Row:
    return {"node": node.id, "port": port, "pattern": held.pattern if held else None,
            "sparsity": held.ratio if held else 0.0, "threshold": held.threshold if held else None}  # fmt: skip


def _ports(node: Node, graph: Graph, options: PruneActivationsOptions) -> list[str]:
    """The operands of a node that are computed, and can be pruned."""
    able = quantisable(node)
    return [
        p for p, meta in node.ports.items()
        if base_port(p) in options.ports and base_port(p) in able and floating(meta)
        and weight_at(node, p, graph) is None
    ]  # fmt: skip


def _sparsity(known: tuple[float, float] | None, options: PruneActivationsOptions, context: Context) -> Sparsity:
    """What a port keeps: of a threshold the share that it took of the data."""
    threshold, share = known or (None, options.sparsity)
    seed = context.seed if options.method == "random" else 0
    return Sparsity(options.method, share, options.scope, None, 0, options.pattern, threshold=threshold, seed=seed)


def _measured(
    graph: Graph, places: Mapping[Place, tuple[str, ...]], options: PruneActivationsOptions, context: Context
) -> dict[Place, tuple[float, float]]:
    """(threshold, share) of each place, after some rounds."""
    if options.pattern != "threshold":
        return {}
    options.ready()
    watch = _Watch(graph, places, options, context)
    if options.scope == "local" and graph.runs == "graph":
        return watch.in_order(frozenset(places))
    found = {place: (0.0, 0.0) for place in places}
    for _ in range(ROUNDS):
        before, found = found, watch.thresholds(found)
        if all(abs(limit - before[k][0]) <= _STEADY * limit for k, (limit, _) in found.items()):
            break
    return found


class _Watch:
    """Thresholds from magnitudes, on a model that is pruned with thresholds from before: what one tensor loses, the
    next layers see. Formats are off.
    """

    def __init__(self, graph: Graph, places: Mapping[Place, tuple[str, ...]], options: PruneActivationsOptions,
                 context: Context) -> None:  # fmt: skip
        others = {n.id: {p: s for p, s in n.sparsity.items() if (n.id, p) not in places} for n in graph}
        self.bare = graph.replace(*(replace(n, precision={}, sparsity=others[n.id]) for n in graph))
        self.options, self.context = options, context
        self.split = load_split(data_of(options), context)
        self.same = {(n, p): _told_by(graph[n], p, graph) for n, p in places}

    def in_order(self, places: frozenset[Place]) -> dict[Place, tuple[float, float]]:
        """(threshold, share) of each place, where those of all places before it hold."""
        from espalier.model.torch.build import build
        from espalier.passes.pruning.sequential import Sequential
        from espalier.passes.recovery.walk import samples_of

        open_ = self._pruned(dict.fromkeys(places, (0.0, 0.0)))
        module = build(open_, self.context.store, self.context.callables)
        samples = samples_of(self.split, open_, self.options.batch_size)
        found = Sequential(module, samples, self.options.sparsity).thresholds(
            places, lambda done: self.context.progress(done, len(places), "measuring thresholds")
        )
        if missing := next((p for p in sorted(places) if p not in found), None):
            raise PassError(f"Nothing flowed into {missing[0]}.", "Leave it out of the selection.", missing[0])
        return found

    def thresholds(self, before: Mapping[Place, tuple[float, float]]) -> dict[Place, tuple[float, float]]:
        """(threshold, share) of each place, where `before` holds for all of them; 0 is none."""
        found, share = self._magnitudes(before), self.options.sparsity
        whole = Magnitudes()
        if self.options.scope == "global":
            for each in found.values():
                whole.counts += each.counts
        limits = {k: (whole if self.options.scope == "global" else m).threshold(share) for k, m in found.items()}
        return {place: (limits[key], found[key].share(limits[key])) for place, key in self.same.items()}

    def _magnitudes(self, before: Mapping[Place, tuple[float, float]]) -> dict[Place, Magnitudes]:
        from espalier.passes.running.observing import observe

        found = {key: Magnitudes() for key in self.same.values()}
        ports, _ = port_map({place: (place[1],) for place, key in self.same.items() if key == place})

        def sink(node: str, port: str, x: Tensor) -> None:
            found[node, port].add(x.detach().float().cpu().numpy())

        observe(self._pruned(before), self.split, self.options.batch_size, ports, sink, self.context)
        hollow = next((key for key, m in found.items() if not m.total), None)
        if hollow:
            raise PassError(f"Nothing flowed into {hollow[0]}.", "Leave it out of the selection.", hollow[0])
        return found

    def _pruned(self, limits: Mapping[Place, tuple[float, float]]) -> Graph:
        nodes: dict[str, Node] = {}
        for (name, port), (limit, share) in limits.items():
            node = nodes.get(name, self.bare[name])
            held = Sparsity("l1", share, "local", None, 0, "threshold", threshold=limit)
            nodes[name] = replace(node, sparsity={**node.sparsity, port: held})
        return self.bare.replace(*nodes.values())


def _told_by(node: Node, port: str, graph: Graph) -> Place:
    """Where a place is looked at: in a recorded model each call of a module tells of all its calls."""
    if graph.runs != "module":
        return node.id, port
    first = next(n for n in graph if n.call == "call_module" and n.target == node.target)
    return first.id, port
