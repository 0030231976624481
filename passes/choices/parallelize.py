"""Options of hardware parallelism: multipliers of a node, or a design's targets."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import PassError
from espalier.model.graph.meta import Parallel
from espalier.passes.select import Select
from espalier.verilog.lowering.parallelism import at_most, divisors


@dataclass(frozen=True, slots=True)
class ParallelRule:
    """How much of some nodes at once: inputs, outputs and rows, or a number of products that is split by itself."""

    select: Select = field(default_factory=Select, metadata={"help": "the nodes"})
    inputs: int = field(default=1, metadata={"min": 1, "help": "inputs per cycle"})
    outputs: int = field(default=1, metadata={"min": 1, "help": "outputs per cycle"})
    tokens: int = field(default=1, metadata={"min": 1, "help": "rows (tokens, pixels) per cycle"})
    products: int = field(default=0, metadata={"min": 0, "help": "maximum number of products per cycle; 0: as above"})

    def of(self, sizes: tuple[int, int, int], node: str) -> Parallel:
        """For a node of these inputs, outputs and rows; raises PassError where numbers do not divide them."""
        if self.products:
            return at_most(sizes, self.products)
        for title, size in zip(("inputs", "outputs", "tokens"), sizes, strict=True):
            if size % getattr(self, title):
                fits = ", ".join(map(str, divisors(size)))
                what = "rows" if title == "tokens" else title
                text = f"{node} has {size} {what}; {getattr(self, title)} at once do not divide them."
                raise PassError(text, f"Choose one of {fits}.", node)
        return Parallel(self.inputs, self.outputs, self.tokens)


@dataclass(frozen=True, slots=True)
class ParallelizeOptions(ParallelRule):
    """How much of the selected nodes at once; each number must divide the node's inputs, outputs or rows."""

    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})
    rules: tuple[ParallelRule, ...] = field(
        default=(), metadata={"help": "instead: several groups of nodes, each with its own; the last match applies"}
    )


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """Where to stop."""

    multipliers: int = field(
        default=64, metadata={"min": 1, "help": "maximum number of products per cycle of the design"}
    )
    interval: int = field(default=0, metadata={"min": 0, "help": "cycles per sample that suffice; 0 = any"})
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})
