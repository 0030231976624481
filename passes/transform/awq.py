"""AWQ: protects the weights of salient input channels by scales that a previous layer absorbs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.awq import AwqOptions
from espalier.passes.recovery.groups import Group, groups_of
from espalier.passes.recovery.layers import layers_of, plain
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@transform("awq", "AWQ", AwqOptions, lasting=True)
def awq(graph: Graph, options: AwqOptions, context: Context) -> tuple[Graph, Report]:
    """Multiply input channels of Linears by s = mean|x|^α and divide their inputs by it, with the least output error.

    For each group of Linears with a common input, α is the one of 20 values from 0 on with the least ‖WX −
    Q(W·s)(X/s)‖² (Lin et al. 2024, arXiv:2306.00978, section 3.2), on inputs of the float model. The division is folded
    into the preceding norm, Linear, product or values of an attention, so that the float model stays the same function;
    Linears for which none can take it are named with the reason, or with `insert` get a multiplication. Then weights
    are clipped: each row or group takes the share of its range, from 1 to 0.55, with the least error of its part of
    the output; Linears of queries and keys are not clipped. Formats of activations do not enter.
    """
    _check(graph)
    able, first = (lambda n: n.op == "linear" and "weight" in n.precision), "Give weights of Linears a format first."
    nodes = chosen(graph, options.select, able, "scaled by AWQ", no_node_hint=first)
    results = list(groups_of(nodes, graph, options.insert))
    groups = [g for g in results if isinstance(g, Group)]
    skipped: list[Row] = [{"node": n.id, "skipped": g[1]} for g in results if not isinstance(g, Group) for n in g[0]]
    if not groups and not options.clip:
        raise PassError(f"No input of the {len(nodes)} selected Linears can be divided: {skipped[0]['skipped']}.",
                        "Switch on insert or clip." if not options.insert else "Select others.",
                        skipped[0]["node"])  # fmt: skip
    split = calibration_split(options, context)
    after, rows = _scaled(graph, groups, options, split, context)
    clips: dict[str, Row] = {}
    if options.clip:
        after, clips = _clipped(after, nodes, options, split, context)
    rows = [row | clips.pop(row["node"], {}) for row in rows]
    skipped = [row | clips.pop(row["node"], {}) for row in skipped]
    from espalier.passes.recovery.channel_scales import difference

    summary = _summary(groups, rows, skipped, after, graph)
    summary["float_difference"] = difference(graph, after, split, options.batch_size, context)
    return after, Report("awq", (*rows, *skipped, *clips.values()), summary)


def _check(graph: Graph) -> None:
    if graph.runs == "module":
        text = "This model was recorded from a run, so other users of a layer's input are unknown."
        raise PassError(text, "Open a model that torch.export can capture.")
    if any(w.key is None for w in graph.weights.values()):
        raise PassError("The model was opened without weights, so there is nothing to scale.", "Open it with weights.")


def _scaled(
    graph: Graph, groups: list[Group], options: AwqOptions, split: Split, context: Context
) -> tuple[Graph, list[Row]]:
    """The graph with scaled groups; inputs are those of the float model, which scaling does not change."""
    from espalier.model.torch.build import build
    from espalier.passes.recovery.awq import Moments, Scaling
    from espalier.passes.recovery.walk import Stop, reporting, samples_of, walk

    work, by_first = Scaling(graph, options.grid, context.store), {g.consumers[0].id: g for g in groups}

    def visit(stop: Stop) -> None:
        work.scale(by_first[stop.node.id], Moments(stop))

    if by_first:
        exact = plain(graph)
        module, samples = build(exact, context.store, context.callables), samples_of(split, graph, options.batch_size)
        walk(module, exact, samples, [i for i in graph.nodes if i in by_first],
             reporting(visit, len(by_first), context, "AWQ: scaling"))  # fmt: skip
    return work.graph, work.rows


def _clipped(
    graph: Graph, nodes: list[Node], options: AwqOptions, split: Split, context: Context
) -> tuple[Graph, dict[str, Row]]:
    from espalier.model.torch.build import build
    from espalier.passes.recovery.awq import Clipping, Moments, why_not_clipped
    from espalier.passes.recovery.walk import Stop, reporting, samples_of, walk

    layers, _ = layers_of([graph.nodes[n.id] for n in nodes], graph)
    firsts = {x.nodes[0].id: x for x in layers if not why_not_clipped(x)}
    work, rows = Clipping(graph, context.store), dict[str, Row]()

    def visit(stop: Stop) -> None:
        rows[stop.node.id] = work.clip(firsts[stop.node.id], Moments(stop))

    if firsts:
        exact = plain(graph)
        module, samples = build(exact, context.store, context.callables), samples_of(split, graph, options.batch_size)
        walk(module, exact, samples, [i for i in graph.nodes if i in firsts],
             reporting(visit, len(firsts), context, "AWQ: clipping"))  # fmt: skip
    return work.graph, rows


def _summary(groups: list[Group], rows: list[Row], skipped: list[Row], after: Graph, before: Graph) -> Row:
    """The numbers of scaled groups, of folded and inserted divisions, of clipped and skipped Linears; the geometric
    mean of the ratios of errors after and before scaling.
    """
    ratios = [r["error"] / r["error_rounded"] for r in rows if r["error"] and r["error_rounded"]]
    inserted = sum(not g.producers for g in groups)
    clipped = sum(
        bool(n.precision["weight"].scale) and not before.nodes[n.id].precision["weight"].scale
        for n in after if "weight" in n.precision and n.id in before.nodes and "weight" in before.nodes[n.id].precision
    )  # fmt: skip
    return {"groups": len(groups), "folded": len(groups) - inserted, "inserted": inserted, "clipped": clipped,
            "skipped": len(skipped),
            "mean_error_ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None}  # fmt: skip
