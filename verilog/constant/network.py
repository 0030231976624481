"""A network of adders: exact evaluation, value ranges, depth and cost in adder bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from espalier.verilog.numbers.fixed import Codes, Fixed, covering

Form = Literal["a+b", "a-b", "b-a"]
Range = tuple[int, int]  # minimum and maximum
SAVED = 0.42  # share of adder bits after sharing; defined here so that it can be read without numba


@dataclass(frozen=True, slots=True)
class Adder:
    """a + b·2^shift, a − b·2^shift or b·2^shift − a; `a` and `b` are value numbers of the network."""

    a: int
    b: int
    shift: int
    form: Form

    def of(self, a: int, b: int) -> int:
        """Evaluate for two numbers."""
        b <<= self.shift
        return a + b if self.form == "a+b" else a - b if self.form == "a-b" else b - a

    def range(self, a: Range, b: Range) -> Range:
        """Range of the result."""
        ends = [self.of(x, y) for x in a for y in b]
        return min(ends), max(ends)

    def bits(self, a: Range, b: Range) -> int:
        """Width of the adder: bits of `a` below the shifted `b` pass through unless they are negated."""
        result = self.range(a, b)
        if self.form == "b-a":
            return width(result)
        if self.form == "a+b" and a[0] >= 0 and a[1] < 1 << self.shift:
            return 0  # a concatenation
        return max(width(result) - self.shift, 0)


@dataclass(frozen=True, slots=True)
class Output:
    """A value times 2^shift; 0 where `value` is −1."""

    value: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Network:
    """Values are numbered: the inputs, then `constants`, then one per adder in topological order."""

    inputs: tuple[Range, ...]
    constants: tuple[int, ...]
    adders: tuple[Adder, ...]
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        for value, adder in enumerate(self.adders, self.first):
            if not (0 <= adder.a < value and 0 <= adder.b < value):
                raise ValueError(f"the adder of value {value} reads {adder.a} and {adder.b}; both must come before it")

    @property
    def first(self) -> int:
        """Value number of the first adder."""
        return len(self.inputs) + len(self.constants)

    def ranges(self) -> list[Range]:
        """Range of every value."""
        ranges = [*self.inputs, *((c, c) for c in self.constants)]
        for adder in self.adders:
            ranges.append(adder.range(ranges[adder.a], ranges[adder.b]))
        return ranges

    def depths(self) -> list[int]:
        """Adders on the longest path to every value."""
        depths = [0] * self.first
        for adder in self.adders:
            depths.append(max(depths[adder.a], depths[adder.b]) + 1)
        return depths

    @property
    def depth(self) -> int:
        """Adders on the longest path to an output."""
        depths = self.depths()
        return max((depths[o.value] for o in self.outputs if o.value >= 0), default=0)

    @property
    def bits(self) -> int:
        """Total width of all adders, about the number of look-up tables."""
        ranges = self.ranges()
        return sum(adder.bits(ranges[adder.a], ranges[adder.b]) for adder in self.adders)

    def run(self, x: Codes) -> Codes:
        """x [frames, inputs] → [frames, outputs]."""
        values = [*x.T, *(np.full(len(x), c) for c in self.constants)]
        for adder in self.adders:
            a, b = values[adder.a], values[adder.b] << np.int64(adder.shift)
            values.append(a + b if adder.form == "a+b" else a - b if adder.form == "a-b" else b - a)
        zeros = np.zeros(len(x), np.int64)
        return np.stack([zeros if o.value < 0 else values[o.value] << np.int64(o.shift) for o in self.outputs], axis=1)


def form_of(span: Range) -> Fixed:
    """The narrowest integer format of a range."""
    return covering(*span, 0)


def width(span: Range) -> int:
    """Bits of a value; 0 for a constant 0."""
    return 0 if span == (0, 0) else form_of(span).width


def composed(first: Network, second: Network) -> Network:
    """The two networks in series: the inputs of `second` are the outputs of `first`."""
    base = len(first.inputs)
    moved: list[tuple[int, int]] = []  # value number in the second → (number in the composition, shift)
    constants = (*first.constants, *second.constants)
    extra = len(second.constants)

    def renumbered(value: int) -> int:
        return value if value < first.first else value + extra

    moved += [(renumbered(o.value), o.shift) for o in first.outputs]
    moved += [(base + len(first.constants) + k, 0) for k in range(extra)]
    adders = [Adder(renumbered(a.a), renumbered(a.b), a.shift, a.form) for a in first.adders]
    for adder in second.adders:
        rewired, shift = _rewired(adder, moved)
        moved.append((len(constants) + base + len(adders), shift))
        adders.append(rewired)
    outputs = tuple(
        o if o.value < 0 else Output(moved[o.value][0], o.shift + moved[o.value][1]) for o in second.outputs
    )
    return Network(first.inputs, constants, tuple(adders), outputs)


def _rewired(adder: Adder, moved: Sequence[tuple[int, int]]) -> tuple[Adder, int]:
    """The adder with shifted operands in place of its own, and the shift common to both, to apply to its result."""
    (a, low), (b, high) = moved[adder.a], moved[adder.b]
    high += adder.shift
    base = min(low, high)
    if low <= high:
        return Adder(a, b, high - base, adder.form), base
    swapped: dict[Form, Form] = {"a+b": "a+b", "a-b": "b-a", "b-a": "a-b"}
    return Adder(b, a, low - base, swapped[adder.form]), base
