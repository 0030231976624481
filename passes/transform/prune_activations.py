"""Pruning of activations: the smallest input values of layers become zero, by a rule applied to each tensor."""

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
from espalier.passes.observed.tensor_statistics import PortRef, port_map
from espalier.passes.pruning.magnitudes import Magnitudes
from espalier.passes.pruning.module_calls import all_calls
from espalier.passes.running.splits import calibration_split, data_of
from espalier.passes.select import chosen

if TYPE_CHECKING:
    from torch import Tensor

_TOLERANCE = 0.01  # relative change of a threshold at which rounds end


def prunable_activations(node: Node, graph: Graph) -> bool:
    """Whether a node's data_in is a computed tensor that can be pruned."""
    return bool(_ports(node, graph, PruneActivationsOptions()))


@transform("prune_activations", "Prune activations", PruneActivationsOptions)
def prune_activations(graph: Graph, options: PruneActivationsOptions, context: Context) -> tuple[Graph, Report]:
    """Zero the smallest input values of the selected nodes, before their format; sparsity 0 removes the pruning.

    top_k: exactly round(sparsity·values) of each sample (entry of the first axis), ties by index. threshold: all
    magnitudes up to the quantile of |x| on data, per tensor or over all (global), so the share varies with the input;
    tensors are measured in order under the thresholds of earlier ones (global: in several rounds). In training,
    gradients pass for remaining values. BitOPs are unchanged: only hardware that skips zeros saves multiplications.
    """
    nodes = chosen(graph, options.select, lambda n: bool(_ports(n, graph, options)), "pruned in their activations")
    nodes = all_calls(nodes, graph)
    refs = {(n.id, p): (p,) for n in nodes for p in _ports(n, graph, options)}
    measured = _measured(graph, refs, options, context) if options.sparsity else {}
    rows: list[Row] = []
    changed: list[Node] = []
    for node in nodes:
        ports = _ports(node, graph, options)
        others = {p: s for p, s in node.sparsity.items() if p not in ports}
        new = {p: _sparsity(measured.get((node.id, p)), options, context) for p in ports if options.sparsity}
        changed.append(replace(node, sparsity={**others, **new}))
        rows += [_row(node, p, new.get(p)) for p in ports]
    summary = {"nodes": len(nodes), "tensors": len(refs), "sparsity": options.sparsity}
    return graph.replace(*changed), Report("prune_activations", tuple(rows), summary)


def _row(node: Node, port: str, new: Sparsity | None) -> Row:
    return {"node": node.id, "port": port, "pattern": new.pattern if new else None,
            "sparsity": new.ratio if new else 0.0, "threshold": new.threshold if new else None}  # fmt: skip


def _ports(node: Node, graph: Graph, options: PruneActivationsOptions) -> list[str]:
    """The computed operands of a node that can be pruned."""
    quantisable_ = quantisable(node)
    return [
        p for p, meta in node.ports.items()
        if base_port(p) in options.ports and base_port(p) in quantisable_ and floating(meta)
        and weight_at(node, p, graph) is None
    ]  # fmt: skip


def _sparsity(measured: tuple[float, float] | None, options: PruneActivationsOptions, context: Context) -> Sparsity:
    """A port's sparsity; `measured`: (threshold, share of zeros on the data)."""
    threshold, share = measured or (None, options.sparsity)
    seed = context.seed if options.method == "random" else 0
    return Sparsity(options.method, share, options.scope, None, 0, options.pattern, threshold=threshold, seed=seed)


def _measured(
    graph: Graph, refs: Mapping[PortRef, tuple[str, ...]], options: PruneActivationsOptions, context: Context
) -> dict[PortRef, tuple[float, float]]:
    """Port → (threshold, share)."""
    if options.pattern != "threshold":
        return {}
    options.ready()
    measurement = _Measurement(graph, refs, options, context)
    if options.scope == "local" and graph.runs == "graph":
        return measurement.in_order(frozenset(refs))
    thresholds = dict.fromkeys(refs, (0.0, 0.0))
    for _ in range(ROUNDS):
        before, thresholds = thresholds, measurement.thresholds(thresholds)
        if all(abs(limit - before[k][0]) <= _TOLERANCE * limit for k, (limit, _) in thresholds.items()):
            break
    return thresholds


class _Measurement:
    """Measures thresholds on a model pruned with earlier thresholds, whose effect later layers see. Formats are off."""

    def __init__(self, graph: Graph, refs: Mapping[PortRef, tuple[str, ...]], options: PruneActivationsOptions,
                 context: Context) -> None:  # fmt: skip
        others = {n.id: {p: s for p, s in n.sparsity.items() if (n.id, p) not in refs} for n in graph}
        self.bare = graph.replace(*(replace(n, precision={}, sparsity=others[n.id]) for n in graph))
        self.options, self.context = options, context
        self.split = calibration_split(data_of(options), context)
        self.sources = {(n, p): _observed_at(graph[n], p, graph) for n, p in refs}

    def in_order(self, refs: frozenset[PortRef]) -> dict[PortRef, tuple[float, float]]:
        """Port → (threshold, share), with the thresholds of all earlier ports applied."""
        from espalier.model.torch.build import build
        from espalier.passes.pruning.sequential import Sequential
        from espalier.passes.recovery.walk import samples_of

        unpruned = self._pruned(dict.fromkeys(refs, (0.0, 0.0)))
        module = build(unpruned, self.context.store, self.context.callables)
        samples = samples_of(self.split, unpruned, self.options.batch_size)
        thresholds = Sequential(module, samples, unpruned, self.options.sparsity).thresholds(
            refs, lambda done: self.context.progress(done, len(refs), "measuring thresholds")
        )
        if missing := next((p for p in sorted(refs) if p not in thresholds), None):
            raise _no_input(missing[0])
        return thresholds

    def thresholds(self, before: Mapping[PortRef, tuple[float, float]]) -> dict[PortRef, tuple[float, float]]:
        """Port → (threshold, share), with the thresholds `before` applied to all; 0: no pruning."""
        magnitudes, share = self._magnitudes(before), self.options.sparsity
        total = Magnitudes()
        if self.options.scope == "global":
            for each in magnitudes.values():
                total.counts += each.counts
        limits = {k: (total if self.options.scope == "global" else m).threshold(share) for k, m in magnitudes.items()}
        return {ref: (limits[key], magnitudes[key].share(limits[key])) for ref, key in self.sources.items()}

    def _magnitudes(self, before: Mapping[PortRef, tuple[float, float]]) -> dict[PortRef, Magnitudes]:
        from espalier.passes.running.observing import observe

        magnitudes = {key: Magnitudes() for key in self.sources.values()}
        ports, _ = port_map({ref: (ref[1],) for ref, key in self.sources.items() if key == ref})

        def sink(node: str, port: str, x: Tensor) -> None:
            magnitudes[node, port].add(x.detach().float().cpu().numpy())

        observe(self._pruned(before), self.split, self.options.batch_size, ports, sink, self.context)
        empty = next((key for key, m in magnitudes.items() if not m.total), None)
        if empty:
            raise _no_input(empty[0])
        return magnitudes

    def _pruned(self, limits: Mapping[PortRef, tuple[float, float]]) -> Graph:
        nodes: dict[str, Node] = {}
        for (name, port), (limit, share) in limits.items():
            node = nodes.get(name, self.bare[name])
            sparsity = Sparsity("l1", share, "local", None, 0, "threshold", threshold=limit)
            nodes[name] = replace(node, sparsity={**node.sparsity, port: sparsity})
        return self.bare.replace(*nodes.values())


def _no_input(node: str) -> PassError:
    return PassError(f"{node} received no values.", "Leave it out of the selection.", node)


def _observed_at(node: Node, port: str, graph: Graph) -> PortRef:
    """The port where a tensor is observed: in a recorded model the first call of a module stands for all."""
    if graph.runs != "module":
        return node.id, port
    first = next(n for n in graph if n.call == "call_module" and n.target == node.target)
    return first.id, port
