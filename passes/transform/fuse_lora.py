"""Put adapters into the weights that they correct, and take them out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from espalier.model.errors import PassError
from espalier.model.graph.adapters import PORT, adapted, fused, module_path, size_of, without
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Weight
from espalier.model.graph.ports import weight_at, weights_of
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, chosen
from espalier.passes.transform.lora import require_adapters

Place = tuple[str, Adapter]


@dataclass(frozen=True, slots=True)
class FuseLoraOptions:
    """Which adapters, and what becomes of weights that other layers use too."""

    select: Select = field(default=Select(), metadata={"help": "which layers"})
    untie: bool = field(
        default=False,
        metadata={"help": "untie a weight that other layers use; else the layer is skipped"},
    )


@transform("fuse_lora", "Fuse LoRA", FuseLoraOptions)
def fuse_lora(graph: Graph, options: FuseLoraOptions, context: Context) -> tuple[Graph, Report]:
    """Weights become W + s·B·A, computed in float32; the adapters go, and what rested because of them trains again.

    Formats and masks stay and apply to the new weights: zeros of a mask stay zero, and values are rounded after the
    sum, so that only float layers without a mask compute as before.
    """
    from espalier.model.torch.threads import torch_threads

    require_adapters(graph)
    if any(graph.weights[x].key is None for _, a in adapted(graph) for x in (a.a, a.b)):
        raise PassError("The model was opened without weights, so nothing can be fused.", "Open it with weights.")
    nodes = chosen(graph, options.select, lambda n: PORT in n.adapters, "fused")
    groups, left = _groups(nodes, graph, options.untie)
    if not groups:
        raise PassError(f"None of the adapters can be fused: {left[0]['skipped']}.",
                        "Switch untie on, or leave the adapter beside the weight.", str(left[0]["node"]))  # fmt: skip
    work = _Fusing(graph, context.store)
    with torch_threads(1):  # the thin products wait for memory; threads would only wait for each other, up to 10×
        for i, group in enumerate(groups):
            context.progress(i, len(groups), group[0].id)
            work.fuse(group)
    done = {n.id for group in groups for n in group}
    after = without(graph.with_weights(work.weights).replace(*work.untied), done)
    summary = {"fused": len(groups), "skipped": len(left), "untied": len(work.untied)}
    return after, Report("fuse_lora", (*work.rows, *left), summary)


def _groups(nodes: list[Node], graph: Graph, untie: bool) -> tuple[list[list[Node]], list[Row]]:
    """The nodes that share weight and adapter, and rows of those that cannot be fused."""
    readers: dict[str, list[Node]] = {}
    for node in graph:
        for _, name in weights_of(node, graph):
            readers.setdefault(name, []).append(node)
    groups: dict[Place, list[Node]] = {}
    left: list[Row] = []
    for node in nodes:
        name, held = weight_at(node, PORT, graph) or "", node.adapters[PORT]
        other = next((n for n in readers[name] if n.adapters.get(PORT) != held or n not in nodes), None)
        if other is not None and not (untie and node.call == "call_module"):
            left.append({"node": node.id, "skipped": f"{node.id} shares its weight with {other.id}"})
        else:
            groups.setdefault((name, held), []).append(node)
    return list(groups.values()), left


class _Fusing:
    """New weights as they come to be. `untied`: nodes that name a weight of their own."""

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
        """One weight, of all nodes that read it with this adapter."""
        import torch

        from espalier.model.torch.tensors import to_numpy, to_torch

        node = group[0]
        held, name = node.adapters[PORT], weight_at(node, PORT, self.graph) or ""
        old = self.graph.weights[name]
        value, a, b = (to_torch(self.store.get(self.graph.weights[k].key or "")) for k in (name, held.a, held.b))
        with torch.no_grad():
            made = fused(node, held, value, a, b)
            ratio = size_of(held, a, b) / max(float(torch.linalg.vector_norm(value, dtype=torch.float32)), 1e-30)
        new = replace(old, key=self.store.hold(to_numpy(made)))
        own = self._readers[name] <= {n.id for n in group}
        place = name if own else self._free(f"{module_path(node, self.graph)}.weight")
        self.weights[place] = new
        if not own:
            self.untied += [replace(n, weights={**n.weights, PORT: place}) for n in group]
        self.rows += [{"node": n.id, "rank": held.rank, "change": ratio, "rounded": PORT in n.precision,
                       "masked": PORT in n.sparsity, "weight": place} for n in group]  # fmt: skip

    def _free(self, name: str) -> str:
        taken = {*self.graph.weights, *self.weights}
        count = 0
        found = name
        while found in taken:
            count += 1
            found = f"{name}_{count}"
        return found
