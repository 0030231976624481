"""SmoothQuant: moves outliers of activations into the following weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.recovery import RecoveryOptions
from espalier.passes.recovery.groups import Group, groups_of
from espalier.passes.running.splits import calibration_split
from espalier.passes.select import chosen


@dataclass(frozen=True, slots=True)
class SmoothquantOptions(RecoveryOptions):
    """Data, strength, and whether nodes may be added."""

    alpha: float = field(
        default=0.5,
        metadata={"min": 0.0, "max": 1.0, "help": "0: weights keep their range; 1: activations are flattened"},
    )
    insert: bool = field(default=False, metadata={"help": "insert a division where no previous layer can absorb it"})

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise OptionsError(f"alpha is {self.alpha:g}.", "It must be from 0 to 1, such as 0.5.")


@transform("smoothquant", "SmoothQuant", SmoothquantOptions)
def smoothquant(graph: Graph, options: SmoothquantOptions, context: Context) -> tuple[Graph, Report]:
    """Divide input channels of Linears by s_j = max|X_j|^α / max|W_j|^(1−α), and multiply their weights by s_j.

    The float model stays the same function (Xiao et al. 2023, arXiv:2211.10438). The division is folded into the
    preceding LayerNorm, RMSNorm, Linear or product if only Linears use its result; otherwise, with `insert`, it
    becomes a multiplication node. Calibrate afterwards: layers with a fixed scale are skipped.
    """
    from espalier.passes.recovery.channel_scales import difference
    from espalier.passes.recovery.smoothing import Smoothing, observed

    if graph.runs == "module":
        text = "This model was recorded from a run, so other users of a layer's input are unknown."
        raise PassError(text, "Open a model that torch.export can capture.")
    _needs_weights(graph)
    nodes = chosen(graph, options.select, lambda n: n.op == "linear", "smoothed")
    results = list(groups_of(nodes, graph, options.insert))
    groups = [g for g in results if isinstance(g, Group)]
    skipped = [{"node": n.id, "skipped": g[1]} for g in results if not isinstance(g, Group) for n in g[0]]
    if not groups:
        raise PassError(f"No input of the {len(nodes)} selected Linears can be divided: {skipped[0]['skipped']}.",
                        "Switch on insert, which adds multiplications." if not options.insert else "Select others.",
                        skipped[0]["node"])  # fmt: skip
    split = calibration_split(options, context)
    work = Smoothing(graph, options.alpha, context.store)
    for group, inputs in zip(groups, observed(graph, groups, split, options.batch_size, context), strict=True):
        work.smooth(group, inputs)
    changed = difference(graph, work.graph, split, options.batch_size, context)
    summary = _summary(groups, len(skipped), changed)
    return work.graph, Report("smoothquant", (*work.rows, *skipped), summary)


def _needs_weights(graph: Graph) -> None:
    if any(w.key is None for w in graph.weights.values()):
        raise PassError("The model was opened without weights, so there is nothing to smooth.", "Open it with weights.")


def _summary(groups: list[Group], skipped: int, changed: float) -> Row:
    """Numbers of folded and inserted divisions and of skipped Linears; relative change of the float model's result."""
    folded = sum(bool(g.producers) for g in groups)
    return {"groups": len(groups), "folded": folded, "inserted": len(groups) - folded, "skipped": skipped,
            "float_difference": changed}  # fmt: skip
