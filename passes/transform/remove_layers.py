"""Whole layers taken out: what flowed into a repeated block flows past it."""

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
    """Which blocks of each chain of blocks: by number, or a share of them."""

    numbers: tuple[int, ...] = field(default=(), metadata={"help": "layer numbers, from 0; empty: by the ratio"})
    ratio: float = field(
        default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction to remove; at least one stays"}
    )
    pick: Literal["spread", "last", "influence"] = field(default="spread", metadata={
        "help": "evenly spread (as DistilBERT's teacher); the last ones; those that change what flows the least "
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
    """Pass by whole blocks of a repeated stack (encoder layers, residual blocks): round(ratio·n) of n, or by number.

    The model changes: fine-tune after. Only a block that gives a tensor of the size that it takes can be passed by.
    """
    if graph.runs == "module":
        raise PassError("A recorded model runs its own code, so no layer can be passed by.",
                        "Open a model that torch.export can capture.")  # fmt: skip
    found = selected_chains(graph, options.select)
    ways: dict[Ref, Ref] = {}
    rows: list[Row] = []
    for chain in found:
        gone = _numbers(graph, chain, options, context)
        for block in chain.blocks:
            if block.number in gone:
                ways |= {block.result: block.source} if block.result and block.source else {}
            rows.append({"node": block.nodes[0], "layer": f"{chain.path}.{block.number}",
                         "removed": block.number in gone, "note": block.why})  # fmt: skip
    after = bypassed(graph, ways) if ways else graph
    rows = [{**r, "node": r["node"] if r["node"] in after.nodes else None} for r in rows]
    summary = {"layers": len(rows), "removed": len(ways), "nodes": len(graph) - len(after)}
    return after, Report("remove_layers", tuple(rows), summary)


def _numbers(graph: Graph, chain: Chain, options: RemoveLayersOptions, context: Context) -> set[int]:
    """The numbers of the blocks of a chain that go; raises GraphError for one that cannot, naming its node."""
    able = list(chain.passable)
    if options.numbers:
        blocks = {b.number: b for b in chain.blocks}
        for number in options.numbers:
            _refuse(chain, blocks.get(number), number)
        return set(options.numbers)
    if not able:
        _refuse(chain, chain.blocks[0], chain.blocks[0].number)
    count = min(round(options.ratio * len(able)), len(able) - (len(able) == len(chain.blocks)))
    if options.pick == "last":
        return {b.number for b in able[len(able) - count :]}
    if options.pick == "spread":
        return {able[int((i + 0.5) * len(able) / count)].number for i in range(count)}
    worth = influence(graph, able, _split(options, context), options.batch_size, context)
    ranked = sorted(zip(worth, able, strict=True), key=lambda e: e[0])
    return {b.number for _, b in ranked[:count]}


def _refuse(chain: Chain, block: Block | None, number: int) -> None:
    if block is None:
        raise GraphError(f"{chain.path} has no layer {number}.",
                         f"Its layers: {', '.join(str(b.number) for b in chain.blocks)}.")  # fmt: skip
    if block.why:
        raise GraphError(f"{chain.path}.{number} cannot be passed by: {block.why}.", "Choose others.", block.nodes[0])


def _split(options: RemoveLayersOptions, context: Context) -> Split:
    from espalier.passes.running.splits import load_split

    if not options.data:
        raise PassError("The influence of layers is seen on data, and none is named.",
                        "Name some, such as demo:reviews, or pick spread.")  # fmt: skip
    return load_split(options, context)
