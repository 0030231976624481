"""Fuses LoRA adapters into their weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from espalier.model.errors import PassError
from espalier.model.graph.adapters import PORT, adapted, fused, module_path, size_of, without
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.graph.ports import weight_at, weights_of
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.scale_names import unused_name
from espalier.passes.select import Select, chosen
from espalier.passes.transform.lora import require_adapters


@dataclass(frozen=True, slots=True)
class FuseLoraOptions:
    """Selected adapters, and whether shared weights are untied."""

    select: Select = field(default=Select(), metadata={"help": "which layers"})
    untie: bool = field(
        default=False,
        metadata={"help": "untie a weight that other layers use; else the layer is skipped"},
    )


@transform("fuse_lora", "Fuse LoRA", FuseLoraOptions)
def fuse_lora(graph: Graph, options: FuseLoraOptions, context: Context) -> tuple[Graph, Report]:
    """Replace weights by W + s·B·A, computed in float32, and remove the adapters; parameters frozen for them train.

    Formats and masks stay and apply to the new weights: masked zeros stay zero, and values are rounded after the sum,
    so only float layers without a mask compute as before.
    """
    from espalier.model.torch.threads import torch_threads

    require_adapters(graph)
    if any(graph.weights[x].key is None for _, a in adapted(graph) for x in (a.a, a.b)):
        raise PassError("The model was opened without weights, so nothing can be fused.", "Open it with weights.")
    nodes = chosen(graph, options.select, lambda n: PORT in n.adapters, "fused")
    groups, skipped = _groups(nodes, graph, options.untie)
    if not groups:
        raise PassError(f"None of the adapters can be fused: {skipped[0]['skipped']}.",
                        "Switch untie on, or do not fuse this adapter.", str(skipped[0]["node"]))  # fmt: skip
    work = _Fusing(graph, context.store)
    with torch_threads(1):  # thin products are bound by memory: more threads are up to 10× slower
        for i, group in enumerate(groups):
            context.progress(i, len(groups), group[0].id)
            work.fuse(group)
    fused_ids = {n.id for group in groups for n in group}
    after = without(graph.with_weights(work.weights).replace(*work.untied), fused_ids)
    summary = {"fused": len(groups), "skipped": len(skipped), "untied": len(work.untied)}
    return after, Report("fuse_lora", (*work.rows, *skipped), summary)


def _groups(nodes: list[Node], graph: Graph, untie: bool) -> tuple[list[list[Node]], list[Row]]:
    """Groups of nodes that share a weight and an adapter, and rows of nodes that cannot be fused."""
    readers: dict[str, list[Node]] = {}
    for node in graph:
        for _, name in weights_of(node, graph):
            readers.setdefault(name, []).append(node)
    groups: dict[tuple[str, Adapter], list[Node]] = {}
    skipped: list[Row] = []
    for node in nodes:
        name, adapter = weight_at(node, PORT, graph) or "", node.adapters[PORT]
        other = next((n for n in readers[name] if n.adapters.get(PORT) != adapter or n not in nodes), None)
        if other is not None and not (untie and node.call == "call_module"):
            skipped.append({"node": node.id, "skipped": f"{node.id} shares its weight with {other.id}"})
        else:
            groups.setdefault((name, adapter), []).append(node)
    return list(groups.values()), skipped


class _Fusing:
    """Fuses weights one by one. `untied`: nodes that get a weight of their own."""

    def __init__(self, graph: Graph, store: WeightStore) -> None:
        self.graph, self.store = graph, store
        self.weights: dict[str, Weight] = {}
        self.untied: list[Node] = []
        self.rows: list[Row] = []
        self._readers: dict[str, set[str]] = {}
        for node in graph:
            for _, name in weights_of(node, graph):
                self._readers.setdefault(name, set()).add(node.id)

    def fuse(self, group: list[Node]) -> None:
        """Fuse the weight and the adapter that these nodes share."""
        import torch

        from espalier.model.torch.tensors import to_numpy, to_torch

        node = group[0]
        adapter, name = node.adapters[PORT], weight_at(node, PORT, self.graph) or ""
        old = self.graph.weights[name]
        value, a, b = (to_torch(self.store.get(self.graph.weights[k].key or "")) for k in (name, adapter.a, adapter.b))
        with torch.no_grad():
            result = fused(node, adapter, value, a, b)
            ratio = size_of(adapter, a, b) / max(float(torch.linalg.vector_norm(value, dtype=torch.float32)), 1e-30)
        new = replace(old, key=self.store.hold(to_numpy(result)))
        is_shared = not self._readers[name] <= {n.id for n in group}
        target = unused_name(f"{module_path(node, self.graph)}.weight", {*self.graph.weights, *self.weights})
        target = target if is_shared else name
        self.weights[target] = new
        if is_shared:
            self.untied += [replace(n, weights={**n.weights, PORT: target}) for n in group]
        self.rows += [{"node": n.id, "rank": adapter.rank, "change": ratio, "rounded": PORT in n.precision,
                       "masked": PORT in n.sparsity, "weight": target} for n in group]  # fmt: skip
