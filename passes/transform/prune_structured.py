"""Structured pruning: whole heads, neurons, channels, widths or layers get masks, which another pass removes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from espalier.model.errors import GraphError, OptionsError, PassError
from espalier.model.graph import Graph
from espalier.model.meta import Sparsity
from espalier.passes.analysis.evaluate import EvaluateOptions, load_split
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.select import Select, chosen, matches
from espalier.passes.structure.axes import Kept
from espalier.passes.structure.layers import mask_layers
from espalier.passes.structure.masks import dead, masked
from espalier.passes.structure.scores import WITH_DATA, Amount, Score, fewest, scores
from espalier.passes.structure.sets import Structure, Units, structure_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split

What = Literal["heads", "queries", "neurons", "channels", "width", "layers"]
WITHOUT = {
    "heads": "attention heads", "queries": "queries that share a key", "neurons": "neurons between two layers",
    "channels": "channels between convolutions", "width": "residual width",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PruneStructuredOptions:
    """`ratio` is the share of the units of each set that is gone afterwards: round(ratio·n) of n, one unit stays."""

    what: What = field(default="neurons", metadata={
        "help": "heads (groups that share a key); queries of each group; neurons of feed-forwards; channels of "
                "convolutions; the residual width (norms then see other statistics: fine-tune after); whole pre-norm "
                "layers"})  # fmt: skip
    ratio: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "share of the units that goes"})
    count: int = field(default=0, metadata={"min": 0, "help": "so many of each set instead; 0 = by the ratio"})
    score: Score = field(default="l1", metadata={
        "help": "which go first: the smallest weights; at random; those whose shutting changes the loss least (taylor) "
                "or that the least flows through (activation): these two need data"})  # fmt: skip
    scope: Literal["local", "global"] = field(default="local", metadata={"help": "count per set, or over all sets"})
    multiple: int = field(default=1, metadata={"min": 1, "max": 4096, "help": "what is left is a multiple of this"})
    select: Select = field(default=Select(), metadata={"help": "sets with one of these nodes"})
    data: str = field(default="", metadata={
        "help": "for taylor and activation: demo:NAME, hub:NAME, a file or a folder", "edit": "data"})  # fmt: skip
    split: str = field(default="train", metadata={"help": "never the one that is scored on", "edit": "split"})
    limit: int = field(default=128, metadata={"min": 0, "help": "at most so many samples; 0 = all"})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "samples that run at once"})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "longest text in tokens; 0 = what model and tokenizer take"}
    )

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1 or self.count < 0 or self.multiple < 1:
            raise OptionsError(f"ratio is {self.ratio:g}, count is {self.count}, multiple is {self.multiple}.",
                               "ratio must be from 0 to 1, count at least 0, multiple at least 1.")  # fmt: skip


@transform("prune_structured", "Prune structures", PruneStructuredOptions)
def prune_structured(graph: Graph, options: PruneStructuredOptions, context: Context) -> tuple[Graph, Report]:
    """Mask whole units in all weights and biases that they lie in, so that they can be removed without a change.

    Which dimensions go together is found from the graph (DepGraph, Fang et al. 2023, arXiv:2301.12900). Masks can be
    measured, trained under and undone; *Remove what is pruned* then makes the model smaller.
    """
    split = _split(options, context)
    amount = Amount(options.ratio, options.count, options.multiple, options.scope, options.score == "taylor")
    if options.what == "layers":
        like = Sparsity(options.score, options.ratio, options.scope, None, 0, "layers")
        return mask_layers(graph, options.select, amount, like, split, options.batch_size, context)
    structure = structure_of(graph)
    free, blocked = _chosen(structure, options)
    like = Sparsity(options.score, options.ratio, options.scope, None, 0, options.what)
    worth = scores(structure, free, options.score, split, options.batch_size, context)
    already = {s: dead(structure, s, context.store) for s in free}
    gone = fewest(worth, already, amount)
    after, zeros = masked(structure, gone, like, context.store)
    rows = [_row(s, structure, gone[s]) for s in free] + [_held(s, structure) for s in blocked]
    summary = {"sets": len(free), "units": sum(s.size for s in free), "gone": sum(int(w.sum()) for w in gone.values()),
               "blocked": len(blocked), "zeros": sum(zeros.values())}  # fmt: skip
    return after, Report("prune_structured", tuple(rows), summary)


def _split(options: PruneStructuredOptions, context: Context) -> Split | None:
    """The data sample, where the scores need one."""
    if options.score not in WITH_DATA:
        return None
    if not options.data:
        raise PassError(f"The score {options.score} looks at data, and none is named.",
                        "Name some, such as demo:reviews, or choose l1.")  # fmt: skip
    shared = ("data", "split", "limit", "batch_size", "text", "label", "tokenizer", "max_length")
    return load_split(EvaluateOptions(**{n: getattr(options, n) for n in shared}), context)


def _chosen(structure: Structure, options: PruneStructuredOptions) -> tuple[list[Units], list[Units]]:
    """The selected sets of the wanted kind: free ones, and those that something holds. Raises GraphError."""
    graph = structure.graph
    kind = [s for s in structure.sets if s.kind == options.what]
    members = {m.node for s in kind for m in s.members}
    if not kind:
        held = sorted({s.kind for s in structure.sets if s.kind != "other" and not s.blocked})
        hint = f"It has {', '.join(held)}." if held else "Nothing can be removed from it."
        raise GraphError(f"This model has no {WITHOUT[options.what]}.", hint)
    chosen(graph, options.select, lambda n: n.id in members, f"pruned by {options.what}")
    found = [s for s in kind if any(matches(graph.nodes[m.node], options.select) for m in s.members)]
    free, blocked = [s for s in found if not s.blocked], [s for s in found if s.blocked]
    if not free and blocked[0].blocked:
        reason = blocked[0].blocked
        raise GraphError(f"{reason.node} prevents the removal of the {options.what} of {blocked[0].first.node}: "
                         f"{reason.text}.", "Select others.", reason.node)  # fmt: skip
    return free, blocked


def _row(held: Units, structure: Structure, gone: Kept) -> Row:
    nodes = list(dict.fromkeys(m.node for m in held.members if structure.graph.nodes[m.node].call != "get_attr"))
    note = f"changes the statistics of {held.norm}" if held.norm else ""
    return {"node": held.first.node, "kind": held.kind, "units": held.size, "gone": int(gone.sum()),
            "left": int(np.count_nonzero(~gone)), "nodes": len(nodes), "note": note}  # fmt: skip


def _held(held: Units, structure: Structure) -> Row:
    reason = held.blocked
    assert reason is not None
    return {**_row(held, structure, np.zeros(held.size, np.bool_)), "note": f"{reason.node}: {reason.text}"}
