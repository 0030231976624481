"""Quantisation errors of weights and, on data, of activations, layer results and logits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.figure import EXPANSION, OPENED, Figure
from espalier.passes.observed.difference import Comparison, Difference
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.observed.stored_tensors import mask_in_view, stored_scale, weight_in_view
from espalier.passes.observed.tensor_statistics import PortRef, operands
from espalier.passes.score import one_sample, port_bits

if TYPE_CHECKING:
    from espalier.passes.observed.model_comparison import Outcome


@analysis("quantization", "Quantisation error", ObserveOptions)
def quantization(graph: Graph, options: ObserveOptions, context: Context) -> tuple[Graph, Report]:
    """Per quantised weight: format, bits, SQNR, largest and mean error, saturated, underflow and zero fraction, cosine.

    Bits are stored bits per element, shared scales included. SQNR = 10·log10(Σx² / Σ(x − q(x))²) dB, of the masked
    weight; empty without error. With data, also for each quantised activation, relative to its input; and for the
    result of each quantised layer (output) and of the model (logits), relative to the same weights in float with masks
    on the same batches. If steps changed weights (GPTQ, training), figures of the opened model are given too.
    """
    ports = [(n, p) for n in graph for p in n.precision if weight_at(n, p, graph)]
    rows, sizes = list[Row](), one_sample(graph)
    for i, (node, port) in enumerate(ports):
        context.progress(i, len(ports), node.id)
        rows.append(_row(node, port, "weight", _weight_error(node, port, graph, context), sizes))
    summary = {"weights": len(rows), **_worst(rows, "worst")}
    if options.data:
        more, on_data = _on_data(graph, options, context)
        rows, summary = [*rows, *more], {**summary, **on_data}
    return graph, Report("quantization", tuple(rows), summary)


def _row(node: Node, port: str, kind: str, error: Difference, sizes: dict[str, int]) -> Row:
    precision = node.precision.get(port)
    fmt = precision.format if precision and kind in ("weight", "activation") else None
    bits = port_bits(node, port, sizes) if fmt else None
    return {"node": node.id, "port": port, "kind": kind, "format": str(fmt) if fmt else None, "bits": bits,
            **error.row()}  # fmt: skip


def _worst(rows: list[Row], name: str) -> Row:
    worst = min((r for r in rows if r["sqnr_db"] is not None), key=lambda r: r["sqnr_db"], default=None)
    return {name: worst["node"] if worst else None, f"{name}_sqnr_db": worst["sqnr_db"] if worst else None}


def _weight_error(node: Node, port: str, graph: Graph, context: Context) -> Difference:
    """The error of all stored tensors with the format of the port, together."""
    stored = [p for p in operands(node, port) if weight_at(node, p, graph)] or [port]
    fmt, scale = node.precision[port].format, stored_scale(node.precision[port], graph, context.store)
    comparison = Comparison()
    for each in stored:
        mask = mask_in_view(node, each, graph, context.store)
        comparison.add_format(fmt, weight_in_view(node, each, graph, context.store), scale, mask)
    return comparison.difference()


def _on_data(graph: Graph, options: ObserveOptions, context: Context) -> tuple[list[Row], Row]:
    from espalier.passes.observed.model_comparison import compare_models, scored
    from espalier.passes.running.data_fit import text_facts
    from espalier.passes.running.splits import length_of, load_split

    split = load_split(options, context)
    plain = graph.replace(*(replace(n, precision={}) for n in graph))
    outcome = compare_models(plain, graph, split, options.batch_size, context)
    activations = _rows(graph, outcome.activations, "activation")
    outputs = _rows(graph, outcome.outputs, "output")
    logits = _row(graph.output, "logits", "logits", outcome.logits.difference(), {})
    read = {"split": split.name, **text_facts(split, length_of(options, context))}
    summary = {"activations": len(activations), **_worst(activations, "worst_activation"), "outputs": len(outputs),
               **_worst(outputs, "worst_output"), "logits_sqnr_db": logits["sqnr_db"],
               "logits_cosine": logits["cosine"], **read, **_scores(outcome, len(split))}  # fmt: skip
    changed, base = _changed(graph, context.base), context.base
    if changed and base is not None:
        summary |= {"weights_changed_by_steps": changed}
        first = scored(base, split, options.batch_size, context)
        now, opened = outcome.after.main, first.main
        if now is not None and opened is not None:
            summary |= {"baseline": OPENED, f"{now.name}_of_samples_baseline": opened.value,
                        "loss_of_samples_baseline": first.loss,
                        **_change("baseline", now, opened, OPENED)}  # fmt: skip
    return [*activations, *outputs, logits], summary


def _changed(graph: Graph, base: Graph | None) -> int:
    """The number of parameters that differ from the opened model's, or are new."""
    if base is None:
        return 0
    scales = {c.scale for n in graph for c in n.precision.values()}
    return sum(
        weight.role == "parameter"
        and name not in scales
        and (name not in base.weights or base.weights[name].key != weight.key)
        for name, weight in graph.weights.items()
    )


def _rows(graph: Graph, comparisons: dict[PortRef, Comparison], kind: str) -> list[Row]:
    order = {name: i for i, name in enumerate(graph.nodes)}
    refs = sorted(comparisons, key=lambda p: order[p[0]])
    sizes = one_sample(graph)
    return [_row(graph[node], port, kind, comparisons[node, port].difference(), sizes) for node, port in refs]


def _scores(outcome: Outcome, samples: int) -> dict[str, Any]:
    """The main metric before (same weights in float) and after quantisation with 95 % intervals, their difference, and
    the share of equal predictions.

    The keys say "of samples", as the score's figures are of the whole split. Shares and losses of a language model are
    of tokens.
    """
    before, after = outcome.before.main, outcome.after.main
    if before is None or after is None:
        return {"samples": samples}
    agreement = {"agreement": outcome.same / max(after.n, 1)} if after.share else {}
    return {"samples": samples, "before": EXPANSION, **agreement,
            f"{after.name}_of_samples_before": before.value, f"{after.name}_of_samples": after.value,
            "interval_of_samples_before": list(before.interval), "interval_of_samples": list(after.interval),
            **_change("before", after, before, EXPANSION),
            "loss_of_samples_before": outcome.before.loss,
            "loss_of_samples": outcome.after.loss}  # fmt: skip


def _change(name: str, after: Figure, before: Figure, baseline: str) -> dict[str, Any]:
    """The main metric's difference from a baseline, and whether noise explains it (a paired test, p ≥ 0.05)."""
    change = after.against(before, baseline)
    return {f"change_from_{name}": change.value, f"change_from_{name}_within_noise": change.noise}
