"""AutoRound: learns rounding and ranges of weights block by block, by sign descent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from espalier.model.errors import DataError, PassError
from espalier.model.graph.graph import Graph, Node
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.observed.stored_tensors import weight_in_view
from espalier.passes.recovery.layers import Layer, layers_of, plain
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen

if TYPE_CHECKING:
    from espalier.model.store.weights import WeightStore
    from espalier.passes.recovery.units import Unit


@transform("autoround", "AutoRound", AutoroundOptions, lasting=True)
def autoround(graph: Graph, options: AutoroundOptions, context: Context) -> tuple[Graph, Report]:
    """Learn how weights are rounded, so that each block's results are near the float model's, on calibration data.

    Block by block: offsets V in [−0.5, 0.5] of ⌊W/s + V⌉ and factors α, β in [0, 1] of each scale's range follow the
    sign of the gradient of the block's mean squared error, with a step size that falls to 0; the best step counts
    (Cheng et al. 2023, arXiv:2309.05516). Inputs come from the already quantised blocks. Layers outside of blocks are
    learned one by one. For scaled_integer and for integers of scaled_element. A block keeps plain rounding if that is
    no worse.
    """
    from espalier.model.torch.build import build
    from espalier.passes.recovery.sign_descent import SignDescent
    from espalier.passes.recovery.unit_runs import UnitRun
    from espalier.passes.recovery.walk import samples_of

    units, skipped = units_to_learn(graph, options)
    check_weights(units, graph, context.store)
    samples = samples_of(calibration_split(options, context), graph, options.batch_size)
    if not samples:
        raise DataError("There are no samples to learn from.", "Choose data with at least one sample.")
    exact, rounded = (
        UnitRun(build(g, context.store, context.callables), samples, units, g) for g in (plain(graph), graph)
    )
    work = SignDescent(graph, options, context.store, exact, rounded, context.seed)
    total = len(units) * options.steps
    for number, unit in enumerate(units):

        def report(step: int, loss: float, first: int = number * options.steps, title: str = unit.title) -> None:
            """Report a step of the unit."""
            context.progress(first + step, total, learning_text(title, step, loss))

        work.learn(number, report)
    rows = [*work.rows, *({"node": n.id, "skipped": why} for n, why in skipped)]
    return work.graph, Report("autoround", tuple(rows), _summary(work.rows, len(skipped)))


def learning_text(title: str, step: int, loss: float) -> str:
    """The text of a progress report."""
    return f"AutoRound: {title}, step {step + 1}, loss {loss:.3g}"


def units_to_learn(graph: Graph, options: AutoroundOptions) -> tuple[list[Unit], list[tuple[Node, str]]]:
    """(units of the selected layers in order, other selected nodes with the reason). Raises PassError for none, and for
    a recorded model.
    """
    from espalier.passes.recovery.units import units_of

    if graph.runs == "module":
        text = "This model was recorded from a run, so its blocks cannot run alone."
        raise PassError(text, "Open a model that torch.export can capture, or use gptq.")
    able, first = (lambda n: "weight" in n.precision and n.op != "embedding"), "Give weights of Linears a format first."
    nodes = chosen(graph, options.select, able, "rounded by AutoRound", no_node_hint=first)
    layers, skipped = layers_of(nodes, graph)
    skipped += [
        (x.nodes[0], f"its format {_label(x)} has no integer codes with a scale") for x in layers if not _fits(x)
    ]
    units, more = units_of(graph, [x for x in layers if _fits(x)])
    skipped += more
    if not units:
        node, why = skipped[0]
        raise PassError(f"None of the {len(nodes)} selected layers can be rounded by AutoRound: {why}.",
                        "Choose scaled_integer or an integer of scaled_element for weights.", node.id)  # fmt: skip
    return units, skipped


def check_weights(units: list[Unit], graph: Graph, store: WeightStore) -> None:
    """Raise PassError for weights that are absent or not finite."""
    for layer in (x for unit in units for x in unit.layers):
        weight_in_view(layer.nodes[0], "weight", graph, store)


def _fits(layer: Layer) -> bool:
    from espalier.passes.recovery.learned_rounding import is_learnable

    return is_learnable(layer.nodes[0].precision["weight"].format)


def _label(layer: Layer) -> str:
    return layer.nodes[0].precision["weight"].label


def _summary(rows: list[Row], skipped: int) -> Row:
    """The numbers of changed, unchanged and skipped layers; the geometric mean of the error ratios of units."""
    errors = {r["unit"]: (r["error"], r["error_rounded"]) for r in rows}
    ratios = [after / before for after, before in errors.values() if after and before]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    changed = sum(r["changed"] for r in rows)
    return {"layers": changed, "left": len(rows) - changed, "skipped": skipped, "units": len(errors),
            "mean_error_ratio": mean}  # fmt: skip
