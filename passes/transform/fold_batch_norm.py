"""Folds batch norms into the layers before them: in inference a batch norm only scales and shifts each channel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node, Ref, map_refs, named_weights
from espalier.model.graph.meta import Weight
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weights_of
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, chosen
from espalier.passes.transform.bias_correction import with_biases

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class FoldBatchNormOptions:
    """Selected batch norms."""

    select: Select = field(default=Select(), metadata={"help": "which batch norms are folded"})


@transform("fold_batch_norm", "Fold batch norm", FoldBatchNormOptions)
def fold_batch_norm(graph: Graph, options: FoldBatchNormOptions, context: Context) -> tuple[Graph, Report]:
    """Fold batch norms into weight and bias of the Linear or convolution before them, and remove them.

    With f = γ / √(σ² + ε), W becomes f·W and b becomes f·(b − μ) + β per output channel (Jacob et al. 2018,
    arXiv:1712.05877, section 3.2). A layer without a bias gets one. Masks and formats stay; the layer gets the batch
    norm's data_out format. Weights are scaled by f, so calibrate formats with fixed ranges again.
    """
    _refuse(graph)
    norms = chosen(graph, options.select, lambda n: n.op == "batch_norm", "folded")
    pairs, skipped = _pairs(graph, norms)
    layers = [graph.nodes[name] for name in pairs]
    prepared = with_biases(graph, layers, context.store)
    weights: dict[str, Weight] = {}
    rows: list[Row] = []
    for i, (layer, norm) in enumerate(pairs.items()):
        context.progress(i, len(pairs), norm)
        weights |= _folded(prepared.nodes[layer], graph.nodes[norm], prepared, context.store)
        rows.append(_row(graph.nodes[layer], graph.nodes[norm], None))
    after = _without(prepared.with_weights(weights), pairs)
    added = sum("bias" not in n.weights for n in layers)
    summary = {"folded": len(pairs), "skipped": len(skipped), "biases_added": added}
    return after, Report("fold_batch_norm", (*rows, *skipped), summary)


def _refuse(graph: Graph) -> None:
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so no batch norm can be removed from it.",
                        "Open a model that can be exported.")  # fmt: skip
    if any(w.key is None for w in graph.weights.values()):
        raise PassError("The model was opened without weights, so nothing can be folded.", "Open it with weights.")


def _pairs(graph: Graph, norms: list[Node]) -> tuple[dict[str, str], list[Row]]:
    """Layer → its batch norm, and rows of batch norms that stay, with the reason."""
    pairs: dict[str, str] = {}
    skipped: list[Row] = []
    users, readers = graph.users(), dict[str, list[str]]()
    for node in graph:
        for _, name in weights_of(node, graph):
            readers.setdefault(name, []).append(node.id)
    for norm in norms:
        layer = graph.nodes[norm.inputs[0].node]
        others = [i for i in users[layer.id] if i != norm.id]
        sharing = [i for name in layer.weights.values() for i in readers[name] if i != layer.id]
        if reason := _why_not(layer, norm, graph) or _shared(layer, others, sharing):
            skipped.append(_row(layer, norm, reason))
        else:
            pairs[layer.id] = norm.id
    return pairs, skipped


def _shared(layer: Node, others: list[str], sharing: list[str]) -> str:
    if others:
        return f"{layer.id} also feeds {others[0]}"
    return f"{layer.id} shares its weights with {sharing[0]}" if sharing else ""


def _why_not(layer: Node, norm: Node, graph: Graph) -> str:
    """Why a batch norm cannot be folded into the node before it; empty if it can."""
    rank = 2 if layer.op == "linear" else int(layer.op[-2]) + 2 if layer.op[-2:-1].isdigit() else 0
    scaled = [p for p, c in layer.precision.items() if p in ("weight", "bias") and c.scale]
    checks = (
        (norm.call != "call_module", "it is a function of tensors, not a module"),
        (category(layer) != "linear", f"{layer.id} is not a Linear or a convolution"),
        (layer.call != "call_module", f"{layer.id} is a function of tensors, not a module"),
        ("running_mean" not in norm.weights, "it has no running statistics, so it depends on each batch"),
        (layer.out is None or len(layer.out.shape) != rank, "its channels are not those of the layer before it"),
        ("data_out" in layer.precision or "data_in" in norm.precision, "there is a format between the two"),
        (bool(norm.sparsity), "it is pruned"),
        (bool(layer.adapters), f"{layer.id} has an adapter; fuse it first"),
        (
            "bias" not in layer.weights and f"{layer.target}.bias" in graph.weights,
            f"another tensor has the name of a bias of {layer.id}",
        ),
        (bool(scaled), f"the {' and '.join(scaled)} of {layer.id} has a fixed scale; fold before calibrating"),
    )
    return next((reason for holds, reason in checks if holds), "")


def _folded(layer: Node, norm: Node, graph: Graph, store: WeightStore) -> dict[str, Weight]:
    """The folded weight and bias by name; computed in float64, stored in their own dtypes."""
    import torch

    from espalier.model.torch.tensors import to_numpy, to_torch

    def read(node: Node, port: str) -> Tensor | None:
        key = graph.weights[node.weights[port]].key if port in node.weights else None
        return to_torch(store.get(key)).double() if key else None

    def stored(port: str, value: Tensor) -> Weight:
        old = graph.weights[layer.weights[port]]
        tensor = to_numpy(value.to(getattr(torch, old.dtype)).contiguous())
        return replace(old, key=store.hold(tensor))

    weight, bias, mean, variance = (*(read(layer, p) for p in ("weight", "bias")),
                                    *(read(norm, p) for p in ("running_mean", "running_var")))  # fmt: skip
    assert weight is not None and bias is not None and mean is not None and variance is not None
    gain, shift, eps = read(norm, "weight"), read(norm, "bias"), norm.attrs.get("eps", 1e-5)
    assert isinstance(eps, float | int)
    factor = torch.rsqrt(variance + eps) * (1.0 if gain is None else gain)
    moved = (bias - mean) * factor + (0.0 if shift is None else shift)
    return {layer.weights["weight"]: stored("weight", _scaled(weight, factor, layer)),
            layer.weights["bias"]: stored("bias", moved)}  # fmt: skip


def _scaled(weight: Tensor, factor: Tensor, layer: Node) -> Tensor:
    """The weight times a factor per output channel."""
    if "transpose" not in layer.op:
        last = layer.attrs.get("class") == "Conv1D"
        return weight * (factor if last else factor.reshape(-1, *[1] * (weight.dim() - 1)))
    groups = layer.attrs.get("groups", 1)  # weight [inputs, outputs per group, …], with groups along the inputs
    assert isinstance(groups, int)
    inputs, outputs, *kernel = weight.shape
    apart = weight.reshape(groups, inputs // groups, outputs, *kernel)
    return (apart * factor.reshape(groups, 1, outputs, *[1] * len(kernel))).reshape(weight.shape)


def _without(graph: Graph, pairs: dict[str, str]) -> Graph:
    """The graph without the batch norms: their users read the layers' results, in the formats of the batch norms."""
    source = {norm: Ref(layer) for layer, norm in pairs.items()}
    nodes: dict[str, Node] = {}
    for node in graph:
        if node.id in source:
            continue
        if any(r.node in source for r in node.inputs):
            node = map_refs(node, lambda r: source.get(r.node, r))
        if node.id in pairs:
            norm = graph.nodes[pairs[node.id]]
            result = {p: c for p, c in norm.precision.items() if p == "data_out"}
            ports = {**node.ports, "data_out": norm.ports["data_out"]}
            node = replace(node, ports=ports, precision={**node.precision, **result})
        nodes[node.id] = node
    return replace(graph, nodes=nodes, weights=named_weights(nodes.values(), graph.weights))


def _row(layer: Node, norm: Node, skipped: str | None) -> Row:
    """`dropped`: formats of the batch norm's own tensors, which are removed with it."""
    dropped = [p for p in norm.precision if p in ("weight", "bias")]
    return {"node": norm.id, "layer": layer.id, "skipped": skipped or "",
            "dropped": "" if skipped else ", ".join(dropped)}  # fmt: skip
