"""Distributes the tensors of a graph over a mesh of devices: placements as choices on nodes."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sharding
from espalier.passes.base import Context, Report, transform
from espalier.passes.choices.shard import ShardOptions, ShardRule
from espalier.passes.select import chosen
from espalier.passes.sharding.apply import resharding, stored_as_used
from espalier.passes.sharding.mesh import Mesh, parse_mesh


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
        devices = device(options.device, mesh, memory)
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


def _plan_options(options: ShardOptions) -> object:
    from espalier.passes.sharding.options import ShardPlanOptions

    return ShardPlanOptions(mesh=options.mesh, device=options.device, training=options.training,
                            memory=options.memory, batch_size=options.batch_size, sizes=options.sizes)  # fmt: skip


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
        sizes = list(meta.sizes(graph.symbols))
        for axis, text in enumerate(texts):
            if text.startswith("S"):
                dim = int(text[1:])
                if dim >= len(sizes):
                    raise PassError(f"{port} of {node.id} has no dimension {dim}.",
                                    f"Its shape is {' × '.join(map(str, meta.shape))}.", node.id)  # fmt: skip
                if isinstance(meta.shape[dim], int) and sizes[dim] % mesh.shape[axis]:
                    fits = [n for n in range(2, min(sizes[dim], 64) + 1) if sizes[dim] % n == 0]
                    raise PassError(
                        f"{port} of {node.id} has size {sizes[dim]} there; {mesh.shape[axis]} devices do not divide it.",
                        f"Use {', '.join(map(str, fits))} devices along that axis.", node.id,
                    )  # fmt: skip
                sizes[dim] //= mesh.shape[axis]
    return Sharding(mesh.shape, {**(before.ports if before else _whole(node, mesh)), **ports})
