"""Distributes the tensors of a graph over a mesh of devices: placements as choices on nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sharding, TensorMeta
from espalier.passes.base import Context, Report, transform
from espalier.passes.choices.shard import ShardOptions, ShardRule
from espalier.passes.select import chosen
from espalier.passes.sharding.apply import resharding, stored_as_used
from espalier.passes.sharding.mesh import Mesh, parse_mesh

if TYPE_CHECKING:
    from espalier.passes.sharding.options import ShardPlanOptions


@transform("shard", "Shard over devices", ShardOptions)
def shard(graph: Graph, options: ShardOptions, context: Context) -> tuple[Graph, Report]:
    """Choose how each tensor is placed on a mesh of devices: replicated, split along a dimension, or a partial sum.

    The graph stays whole; what is redistributed between nodes follows from their placements. `main.py shard --run`
    runs the model that way.
    """
    if graph.runs == "module":
        text = "This model was recorded from a run, so its operations cannot be split over devices."
        raise PassError(text, "Use a model that torch.export can capture.")
    mesh = parse_mesh(options.mesh)
    from espalier.passes.sharding.plan import baseline, make_plan
    from espalier.passes.sharding.presets import device

    planned = _plan_options(options)
    memory = _memory(options)
    if options.strategy == "replicated" or mesh.devices == 1:
        shardings = {n.id: Sharding(mesh.shape, _whole(n, mesh)) for n in graph}
        strategies, notes = dict[str, str](), ()
    else:
        devices = device(options.device, mesh, memory, options.rates)
        plan = (
            make_plan(graph, mesh, devices, planned, compare=False)
            if options.strategy == "auto"
            else baseline(options.strategy, graph, mesh, devices, planned)
        )
        shardings, strategies, notes = plan.shardings, plan.strategies, plan.notes
    shardings |= stored_as_used(graph, shardings)
    for rule in options.rules:
        for node in chosen(graph, rule.select, lambda n: n.call != "output", "sharded"):
            shardings[node.id] = _ruled(node, rule, mesh, shardings.get(node.id), graph)
    after = graph.replace(*(replace(graph.nodes[k], sharding=s) for k, s in shardings.items()))
    rows = tuple(
        {"node": n.id, "strategy": strategies.get(n.id, ""), **{p: " ".join(t) for p, t in n.sharding.ports.items()}}
        for n in after if n.sharding and any(t != "R" for texts in n.sharding.ports.values() for t in texts)
    )  # fmt: skip
    moves = list(resharding(after))
    summary = {"mesh": str(mesh), "devices": mesh.devices, "split": len(rows), "collectives": len(moves),
               "bytes": sum(m.bytes for m in moves)} | ({"warning": " ".join(notes)} if notes else {})  # fmt: skip
    return after, Report("shard", rows, summary)


def _plan_options(options: ShardOptions) -> ShardPlanOptions:
    from espalier.passes.sharding.options import ShardPlanOptions

    return ShardPlanOptions(mesh=options.mesh, device=options.device, training=options.training,
                            memory=options.memory, rates=options.rates, batch_size=options.batch_size,
                            sizes=options.sizes)  # fmt: skip


def _memory(options: ShardOptions) -> float | None:
    from espalier.passes.sharding.options import memory_of

    return memory_of(options.memory) if options.memory else None


def _whole(node: Node, mesh: Mesh) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(node.ports, ("R",) * len(mesh.shape))


def _ruled(node: Node, rule: ShardRule, mesh: Mesh, before: Sharding | None, graph: Graph) -> Sharding:
    """The sharding of a node with the placements of a rule; raises PassError where they do not fit its tensors."""
    ports = rule.ports(len(mesh.shape))
    for port, texts in ports.items():
        meta = node.ports.get(port)
        if meta is None:
            raise PassError(f"{node.id} has no tensor {port}.", f"It has {', '.join(node.ports)}.", node.id)
        _check(node, port, meta, texts, mesh, graph)
    return Sharding(mesh.shape, {**(before.ports if before else _whole(node, mesh)), **ports})


def _check(
    node: Node, port: str, meta: TensorMeta, texts: tuple[str, ...], mesh: Mesh, graph: Graph
) -> None:  # fmt: skip
    """Raise PassError unless the splits have dimensions of the tensor that they divide."""
    sizes = list(meta.sizes(graph.symbols))
    for count, text in zip(mesh.shape, texts, strict=True):
        if not text.startswith("S"):
            continue
        dim = int(text[1:])
        if dim >= len(sizes):
            shape = " × ".join(map(str, meta.shape))
            raise PassError(f"{port} of {node.id} has no dimension {dim}.", f"Its shape is {shape}.", node.id)
        if isinstance(meta.shape[dim], int) and sizes[dim] % count:
            fits = ", ".join(str(n) for n in range(2, min(sizes[dim], 64) + 1) if sizes[dim] % n == 0)
            text = f"{port} of {node.id} has size {sizes[dim]} there; {count} devices do not divide it."
            raise PassError(text, f"Use {fits} devices along that axis." if fits else "Leave it whole.", node.id)
        sizes[dim] //= count
