"""Inserts low-rank adapters (LoRA) and freezes other parameters. The outputs are unchanged at insertion."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from espalier.model.errors import PassError
from espalier.model.graph.adapters import PORT, adaptable, adapted, freeze_except_adapters, module_path, without
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.lowrank.head import head_of
from espalier.passes.lowrank.insert import insert_adapters, siblings, weight_of
from espalier.passes.select import by_name, chosen


@transform("lora", "LoRA", LoraOptions)
def lora(graph: Graph, options: LoraOptions, context: Context) -> tuple[Graph, Report]:
    """Add s·B·A·x to results of layers, A [rank, inputs], B [outputs, rank] = 0, s = alpha/rank; only A and B train.

    Hu et al. 2021, arXiv:2106.09685; s = alpha/√rank: Kalajdzievski 2023, arXiv:2312.03732. Formats and masks of the
    layers stay; the adapters are float32. A node with an unchanged rank keeps its A and B.
    """
    nodes = siblings(graph, chosen(graph, options.select, lambda n: adaptable(n, graph), "given an adapter"))
    head = head_of(graph) if options.train_head else []
    ranks = _ranks(graph, [n for n in nodes if n not in head], options)
    adapters = {k: Adapter(r, options.alpha, options.dropout, "", "", options.rooted) for k, r in ranks.items() if r}
    removed = {k for k, r in ranks.items() if not r} | {n.id for n in head}
    bare = without(graph, {k for k in removed if graph.nodes[k].adapters})
    after = insert_adapters(bare, adapters, {}, context.seed, context.store)
    after = _without_unused(after, graph)
    if options.freeze and any(n.adapters for n in after):
        trained = {name for n in head for name in n.weights.values()}
        # Parameters that were unfrozen beside earlier adapters stay unfrozen.
        after = freeze_except_adapters(after, trained, everything=not any(w.rests for w in graph.weights.values()))
    rows = tuple(adapter_row(after.nodes[k], after, graph) for k in adapters)
    return after, Report("lora", rows, {**adapter_summary(after), "removed": len(removed & _with_adapter(graph)),
                                        "head": ", ".join(module_path(n, graph) for n in head)})  # fmt: skip


def _ranks(graph: Graph, nodes: list[Node], options: LoraOptions) -> dict[str, int]:
    """Node → rank; raises PassError for a rule that matches none of the selected layers."""
    ids, names = {n.id for n in nodes}, by_name(graph)
    ranks = dict.fromkeys((n.id for n in nodes), options.rank)
    for rule in options.ranks:
        matched = chosen(graph, rule.select, lambda n: n.id in ids, "given another rank", names)
        ranks |= {n.id: rule.rank for n in siblings(graph, matched) if n.id in ids}
    return ranks


def _with_adapter(graph: Graph) -> set[str]:
    return {n.id for n, _ in adapted(graph)}


def _without_unused(graph: Graph, before: Graph) -> Graph:
    """`graph` without matrices of adapters of `before` that no node uses any more."""
    unused = {x for _, a in adapted(before) for x in (a.a, a.b)} - {x for n in graph for x in n.tensors}
    return replace(graph, weights={k: w for k, w in graph.weights.items() if k not in unused}) if unused else graph


def adapter_row(node: Node, graph: Graph, before: Graph) -> Row:
    """A row on an adapter: rank, scaling, parameters; `values`: whether its matrices are new."""
    adapter, base = node.adapters[PORT], weight_of(node, graph)
    size = graph.weights[adapter.a].elements + graph.weights[adapter.b].elements
    kept = all(before.weights.get(name) == graph.weights[name] for name in (adapter.a, adapter.b))
    return {"node": node.id, "module": module_path(node, graph), "rank": adapter.rank, "scaling": adapter.scaling,
            "parameters": size, "of_layer": size / max(base.elements, 1),
            "values": "kept" if kept else "new"}  # fmt: skip


def adapter_summary(graph: Graph) -> Row:
    """Counts of adapters, of their parameters, and of trainable parameters."""
    matrices = dict.fromkeys(x for _, a in adapted(graph) for x in (a.a, a.b))
    parameters = [w for w in graph.weights.values() if w.role == "parameter"]
    total, trains = sum(w.elements for w in parameters), sum(w.elements for w in parameters if w.trainable)
    ranks = Counter(a.rank for _, a in adapted(graph))
    return {"adapters": len(matrices) // 2, "ranks": {f"r{r}": n for r, n in sorted(ranks.items())},
            "added": sum(graph.weights[n].elements for n in matrices), "parameters": total, "trainable": trains,
            "trainable_share": trains / total if total else 0.0}  # fmt: skip


def require_adapters(graph: Graph) -> None:
    """Raise PassError for a graph without adapters."""
    if not any(n.adapters for n in graph):
        raise PassError("The model has no adapters.", "Insert some with LoRA, or load an adapter.")
