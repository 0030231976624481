"""A network of adders: what it computes exactly, the range of every value, its depth and its cost in adder bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from espalier.verilog.numbers.fixed import Codes, Fixed, covering

Form = Literal["a+b", "a-b", "b-a"]
Range = tuple[int, int]  # the least and the largest value
SAVED = 0.42  # what sharing leaves of the adders; here, where the window can read it without numba


@dataclass(frozen=True, slots=True)
class Adder:
    """a + b·2^shift, a − b·2^shift or b·2^shift − a; `a` and `b` are numbers of values of the network."""

    a: int
    b: int
    shift: int
    form: Form

    def of(self, a: int, b: int) -> int:
        """The result for two numbers."""
        b <<= self.shift
        return a + b if self.form == "a+b" else a - b if self.form == "a-b" else b - a

    def range(self, a: Range, b: Range) -> Range:
        """That of the result."""
        ends = [self.of(x, y) for x in a for y in b]
        return min(ends), max(ends)

    def bits(self, a: Range, b: Range) -> int:
        """Bits that are truly added: what lies below the other operand passes through, where it is not negated."""
        made = self.range(a, b)
        if self.form == "b-a":
            return width(made)
        if self.form == "a+b" and a[0] >= 0 and a[1] < 1 << self.shift:
            return 0  # side by side
        return max(width(made) - self.shift, 0)


@dataclass(frozen=True, slots=True)
class Output:
    """A value times 2^shift; 0 where `value` is −1."""

    value: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Network:
    """Values are numbered: the inputs, then `constants`, then one for each adder, in an order that they can take."""

    inputs: tuple[Range, ...]
    constants: tuple[int, ...]
    adders: tuple[Adder, ...]
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        for value, adder in enumerate(self.adders, self.first):
            if not (0 <= adder.a < value and 0 <= adder.b < value):
                raise ValueError(f"the adder of value {value} reads {adder.a} and {adder.b}: one is not made before it")

    @property
    def first(self) -> int:
        """The number of the first adder's value."""
        return len(self.inputs) + len(self.constants)

    def ranges(self) -> list[Range]:
        """Of every value."""
        found = [*self.inputs, *((c, c) for c in self.constants)]
        for adder in self.adders:
            found.append(adder.range(found[adder.a], found[adder.b]))
        return found

    def depths(self) -> list[int]:
        """Adders on the longest way to every value."""
        found = [0] * self.first
        for adder in self.adders:
            found.append(max(found[adder.a], found[adder.b]) + 1)
        return found

    @property
    def depth(self) -> int:
        """Adders on the longest way."""
        found = self.depths()
        return max((found[o.value] for o in self.outputs if o.value >= 0), default=0)

    @property
    def bits(self) -> int:
        """The sum of what all adders add: about the look-up tables that they take."""
        held = self.ranges()
        return sum(adder.bits(held[adder.a], held[adder.b]) for adder in self.adders)

    def run(self, x: Codes) -> Codes:
        """x [frames, inputs] → [frames, outputs]."""
        held = [*x.T, *(np.full(len(x), c) for c in self.constants)]
        for adder in self.adders:
            a, b = held[adder.a], held[adder.b] << np.int64(adder.shift)
            held.append(a + b if adder.form == "a+b" else a - b if adder.form == "a-b" else b - a)
        none = np.zeros(len(x), np.int64)
        return np.stack([none if o.value < 0 else held[o.value] << np.int64(o.shift) for o in self.outputs], axis=1)


def form_of(span: Range) -> Fixed:
    """The narrowest format that holds a range."""
    return covering(*span, 0)


def width(span: Range) -> int:
    """Bits of a value; none for a constant 0."""
    return 0 if span == (0, 0) else form_of(span).width


def joined(first: Network, second: Network) -> Network:
    """The second network fed by the outputs of the first, which `second.inputs` stand for, in their order."""
    base = len(first.inputs)
    moved: list[tuple[int, int]] = []  # number in the second → (number in the joined one, shift)
    constants = (*first.constants, *second.constants)
    extra = len(second.constants)

    def early(value: int) -> int:
        return value if value < first.first else value + extra

    moved += [(early(o.value), o.shift) for o in first.outputs]
    moved += [(base + len(first.constants) + k, 0) for k in range(extra)]
    adders = [Adder(early(a.a), early(a.b), a.shift, a.form) for a in first.adders]
    for adder in second.adders:
        made, shift = _placed(adder, moved)
        moved.append((len(constants) + base + len(adders), shift))
        adders.append(made)
    outputs = tuple(
        o if o.value < 0 else Output(moved[o.value][0], o.shift + moved[o.value][1]) for o in second.outputs
    )
    return Network(first.inputs, constants, tuple(adders), outputs)


def _placed(adder: Adder, moved: Sequence[tuple[int, int]]) -> tuple[Adder, int]:
    """An adder of other operands, which themselves are shifted: what all are shifted by is left for later."""
    (a, low), (b, high) = moved[adder.a], moved[adder.b]
    high += adder.shift
    base = min(low, high)
    if low <= high:
        return Adder(a, b, high - base, adder.form), base
    turned: dict[Form, Form] = {"a+b": "a+b", "a-b": "b-a", "b-a": "a-b"}
    return Adder(b, a, low - base, turned[adder.form]), base
