"""Bias correction: subtracts the mean error of quantised layers through their biases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import TensorMeta, Weight
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at, weights_of
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.recovery import RecoveryOptions
from espalier.passes.recovery.layers import plain
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen


@dataclass(frozen=True, slots=True)
class BiasCorrectionOptions(RecoveryOptions):
    """Data, and what else is corrected."""

    add: bool = field(default=False, metadata={"help": "add a bias to layers without one, where it helps"})
    pruning: bool = field(default=False, metadata={"help": "also correct the shift by pruning"})
    reference: Literal["stored", "baseline"] = field(
        default="stored",
        metadata={"help": "the float model: the present weights, or the recipe's first model (after GPTQ)"},
    )


@transform("bias_correction", "Bias correction", BiasCorrectionOptions)
def bias_correction(graph: Graph, options: BiasCorrectionOptions, context: Context) -> tuple[Graph, Report]:
    """Add E[y] − E[ŷ] of each output channel to the biases of Linears and convolutions, from calibration data.

    y is the layer's result in the float model, ŷ in the quantised model with earlier layers already corrected (Nagel et
    al. 2019, arXiv:1906.04721, section 4.2; 2021, arXiv:2106.08295, section 3.4). The float model has the stored
    weights; after GPTQ, which rounds those, use the recipe's first model as the reference.
    """
    from espalier.model.torch.build import build, read_back
    from espalier.passes.recovery.biases import Correction, means
    from espalier.passes.recovery.walk import reporting, samples_of, walk

    if any(w.key is None for w in graph.weights.values()):
        raise PassError("The model was opened without weights, so no error can be corrected.", "Open it with weights.")
    nodes = chosen(graph, options.select, lambda n: category(n) == "linear", "corrected")
    prepared = with_biases(graph, nodes, context.store) if options.add else graph
    biases, skipped = _biases([prepared.nodes[n.id] for n in nodes], prepared)
    if not biases:
        raise PassError(f"None of the {len(nodes)} selected layers can be corrected: {skipped[0]['skipped']}.",
                        "Select others, or switch on add.", nodes[0].id)  # fmt: skip
    split = calibration_split(options, context)
    module = build(prepared, context.store, context.callables)
    reference = _reference(graph, list(biases), options, context)
    targets = means(reference, list(biases), split, options.batch_size, context)
    work = Correction(module, biases, targets)
    visit = reporting(work.visit, len(biases), context, "Bias of")
    walk(module, prepared, samples_of(split, graph, options.batch_size), list(biases), visit)
    after = read_back(module, prepared, context.store)
    names = {biases[i] for i in work.changed}
    corrected = graph.replace(*(prepared.nodes[i] for i in sorted(work.changed)))
    after = corrected.with_weights({k: after.weights[k] for k in names})
    summary: Row = {"layers": len(names), "left": len(biases) - len(names), "skipped": len(skipped),
                    "samples": len(split), "added": len(names - graph.weights.keys())}  # fmt: skip
    if not names:
        summary["warning"] = _unchanged(graph, work.rows, options)
    return after, Report("bias_correction", (*work.rows, *skipped), summary)


def _unchanged(graph: Graph, rows: list[Row], options: BiasCorrectionOptions) -> str:
    """Why no bias changed, and what to do."""
    if any(row["shift_before"] for row in rows):
        return "No bias changed: no correction would reduce a layer's mean error. Give the biases a finer format."
    lost = "formats or pruning" if options.pruning else "formats"
    if options.reference == "stored" and any("weight" in graph.nodes[row["node"]].precision for row in rows):
        return (f"No bias changed: {lost} shift no selected layer's mean. If the stored weights are rounded, as "
                'after GPTQ, set reference = "baseline", or correct before rounding.')  # fmt: skip
    return f"No bias changed: {lost} shift no selected layer's mean. Quantise first, or select others."


def _reference(graph: Graph, ids: list[str], options: BiasCorrectionOptions, context: Context) -> Graph:
    """The float model; raises PassError if the recipe's first model lacks one of the nodes."""
    if options.reference == "stored":
        return plain(graph, options.pruning)
    base = context.base or graph
    if missing := next((i for i in ids if i not in base.nodes), None):
        raise PassError(f"The recipe's first model has no {missing}.",
                        'Set reference = "stored", or leave it out of the selection.', missing)  # fmt: skip
    return plain(base, True)


def _biases(nodes: list[Node], graph: Graph) -> tuple[dict[str, str], list[Row]]:
    """Node → its bias, in order; and rows of nodes without a bias of their own."""
    biases: dict[str, str] = {}
    skipped: list[Row] = []
    users: dict[str, list[str]] = {}
    for node in graph:
        for _, name in weights_of(node, graph):
            users.setdefault(name, []).append(node.id)
    for node in nodes:
        name = weight_at(node, "bias", graph)
        if name is None:
            skipped.append({"node": node.id, "skipped": "it has no stored bias"})
        elif len(users[name]) > 1:
            other = next((i for i in users[name] if i != node.id), node.id)
            skipped.append({"node": node.id, "skipped": f"it shares its bias with {other}"})
        else:
            biases[node.id] = name
    return {i: biases[i] for i in graph.nodes if i in biases}, skipped


def with_biases(graph: Graph, nodes: list[Node], store: WeightStore) -> Graph:
    """The graph with zero biases for modules without one; modules of a recorded model are unchanged."""
    weights: dict[str, Weight] = {}
    changed: list[Node] = []
    for node in nodes if graph.runs == "graph" else ():
        name = f"{node.target}.bias"
        if node.call != "call_module" or "bias" in node.weights or name in graph.weights or not node.out:
            continue
        weight = graph.weights[node.weights["weight"]]
        count = _outputs(node, weight)
        value = Tensor(np.zeros(count, Tensor.carrier(weight.dtype)), weight.dtype)
        weights[name] = Weight(store.hold(value), (count,), weight.dtype)
        ports = {**node.ports, "bias": TensorMeta((count,), weight.dtype)}
        attrs = {**node.attrs, "bias": True}
        changed.append(replace(node, ports=ports, attrs=attrs, weights={**node.weights, "bias": name}))
    return graph.replace(*changed).with_weights(weights)


def _outputs(node: Node, weight: Weight) -> int:
    """Output channels."""
    if "transpose" in node.op:
        groups = node.attrs.get("groups", 1)
        return weight.shape[1] * (groups if isinstance(groups, int) else 1)
    return weight.shape[0]
