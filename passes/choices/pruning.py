"""What a pruning asks for, whichever weight it is of: how much, over what, in which pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from espalier.model.errors import OptionsError

Method = Literal["l1", "l2", "random", "wanda", "snip", "hessian", "movement"]
Scope = Literal["local", "global", "row"]
Pattern = Literal["element", "n:m", "block"]
METHODS: tuple[Method, ...] = get_args(Method)
SCOPES: tuple[Scope, ...] = get_args(Scope)
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
SQUARED = ("l2", "hessian")  # a block's score is the sum of squares
SIGNED = ("movement",)  # the least go, not the least in magnitude
WITH_DATA = ("wanda", "snip", "hessian", "movement")
MOST = 4096  # the longest group, and side of a block


@dataclass(frozen=True, slots=True)
class Choice:
    """`ratio` of the elements go: of each weight (local), of all together (global) or of each row.

    n:m keeps the n best of every m in a row, whatever the ratio; the last, shorter group of a row keeps up to n.
    Blocks of `size` (rows, columns) go whole: round(ratio·blocks) of them; at the ends they are smaller, and ranked by
    their mean. `least` and `most`: what global may take of a single weight.
    """

    ratio: float
    method: str = "l1"
    scope: Scope = "local"
    pattern: Pattern = "element"
    size: tuple[int, int] = (1, 1)
    least: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise OptionsError(f"sparsity is {self.ratio}.", "sparsity must be a number from 0 to 1.")
        first, second = self.size
        if not (1 <= first <= MOST and 1 <= second <= MOST):
            raise OptionsError(f"The {self.pattern} pattern has the size {first} by {second}.",
                               f"Write whole numbers from 1 to {MOST}.")  # fmt: skip
        if self.pattern == "n:m" and first > second:
            raise OptionsError(f"n is {first} and m is {second}.", "n of m are kept: n is at most m, as in 2:4.")
        if not 0 <= self.least <= self.most <= 1:
            raise OptionsError(f"least is {self.least:g} and most is {self.most:g}.", "Write 0 ≤ least ≤ most ≤ 1.")
        if self.scope == "global" and self.ratio and not self.least <= self.ratio <= self.most:
            raise OptionsError(f"sparsity {self.ratio:g} is not from least {self.least:g} to most {self.most:g}.",
                               "Without a weight that may go as far, the whole cannot.")  # fmt: skip

    @property
    def signed(self) -> bool:
        """Whether scores rank by their value, and not by their magnitude."""
        return self.method in SIGNED
