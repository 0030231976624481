"""Removes whole layers: repeated blocks are bypassed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from espalier.model.errors import GraphError, OptionsError, PassError
from espalier.model.graph.graph import Graph, Ref
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.recovery import RecoveryOptions
from espalier.passes.select import Select
from espalier.passes.structure.blocks import Block, Chain, bypassed
from espalier.passes.structure.layers import influence, selected_chains

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@dataclass(frozen=True, slots=True)
class RemoveLayersOptions(RecoveryOptions):
    """Blocks of each chain, by number or by ratio."""

    numbers: tuple[int, ...] = field(default=(), metadata={"help": "layer numbers, from 0; empty: by the ratio"})
    ratio: float = field(
        default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction to remove; at least one stays"}
    )
    pick: Literal["spread", "last", "influence"] = field(default="spread", metadata={
        "help": "evenly spread (as in DistilBERT); the last ones; those that change their input least "
                "(ShortGPT), which needs data"})  # fmt: skip
    data: str = field(default="", metadata={"help": "for influence: demo:NAME, hub:NAME, a file or a folder",
                                            "edit": "data"})  # fmt: skip
    select: Select = field(default=Select(), metadata={"help": "blocks that contain one of these nodes"})

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1 or any(n < 0 for n in self.numbers):
            raise OptionsError(f"ratio is {self.ratio:g}, numbers are {list(self.numbers)}.",
                               "ratio must be from 0 to 1, numbers at least 0.")  # fmt: skip


@transform("remove_layers", "Remove layers", RemoveLayersOptions)
def remove_layers(graph: Graph, options: RemoveLayersOptions, context: Context) -> tuple[Graph, Report]:
    """Bypass whole blocks of a repeated stack (encoder layers, residual blocks): round(ratio·n) of n, or by number.

    The outputs change: fine-tune afterwards. Only a block whose result has the shape of its input can be bypassed.
    """
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so no layer can be bypassed.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    replacements: dict[Ref, Ref] = {}
    rows: list[Row] = []
    for chain in selected_chains(graph, options.select):
        numbers = _numbers(graph, chain, options, context)
        for block in chain.blocks:
            if block.number in numbers:
                replacements |= {block.result: block.source} if block.result and block.source else {}
            rows.append({"node": block.nodes[0], "layer": f"{chain.path}.{block.number}",
                         "removed": block.number in numbers, "note": block.why})  # fmt: skip
    after = bypassed(graph, replacements) if replacements else graph
    rows = [{**r, "node": r["node"] if r["node"] in after.nodes else None} for r in rows]
    summary = {"layers": len(rows), "removed": len(replacements), "nodes": len(graph) - len(after)}
    return after, Report("remove_layers", tuple(rows), summary)


def _numbers(graph: Graph, chain: Chain, options: RemoveLayersOptions, context: Context) -> set[int]:
    """The numbers of the blocks of a chain to remove; raises GraphError, with the node, for one that cannot be."""
    candidates = list(chain.passable)
    if options.numbers:
        blocks = {b.number: b for b in chain.blocks}
        for number in options.numbers:
            _refuse(chain, blocks.get(number), number)
        return set(options.numbers)
    if not candidates:
        _refuse(chain, chain.blocks[0], chain.blocks[0].number)
    total = len(candidates)
    count = min(round(options.ratio * total), total - (total == len(chain.blocks)))
    if options.pick == "last":
        return {b.number for b in candidates[total - count :]}
    if options.pick == "spread":
        return {candidates[int((i + 0.5) * total / count)].number for i in range(count)}
    worth = influence(graph, candidates, _split(options, context), options.batch_size, context)
    ranked = sorted(zip(worth, candidates, strict=True), key=lambda e: e[0])
    return {b.number for _, b in ranked[:count]}


def _refuse(chain: Chain, block: Block | None, number: int) -> None:
    if block is None:
        raise GraphError(f"{chain.path} has no layer {number}.",
                         f"Its layers: {', '.join(str(b.number) for b in chain.blocks)}.")  # fmt: skip
    if block.why:
        raise GraphError(f"{chain.path}.{number} cannot be bypassed: {block.why}.", "Choose others.", block.nodes[0])


def _split(options: RemoveLayersOptions, context: Context) -> Split:
    from espalier.passes.running.splits import calibration_split

    if not options.data:
        raise PassError("Picking layers by influence needs data, but none is named.",
                        "Name some, such as demo:reviews, or pick spread.")  # fmt: skip
    return calibration_split(options, context)
