"""A fully unrolled constant matrix product by adders: a row of operands in a beat, a row of results in a beat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from espalier.verilog.area.resources import Area
from espalier.verilog.constant.module_text import ModuleSpec, ResultRounding, module_text
from espalier.verilog.constant.network import Network, Range, form_of, width
from espalier.verilog.constant.pipeline import Pipeline, pipelined
from espalier.verilog.constant.solve import solve_cached
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, product, requantise, shifted


@dataclass(frozen=True, kw_only=True, eq=False)
class Unrolled(Template):
    """`weight` [outputs, inputs] and `bias` [outputs] are codes, the bias in the accumulator's fraction.

    `span`: range of the operand's codes; `relu`: fused ReLU; `every`: adders between registers.
    """

    weight: Codes
    weight_format: Fixed
    bias: Codes
    accumulator: Fixed
    span: Range
    every: int
    rounding: Rounding = "nearest_even"
    relu: bool = False

    @property
    def module(self) -> str:
        """The generated module's name."""
        return f"unrolled_{self.name}"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("adder", "settle")

    def parameters(self) -> dict[str, int]:
        """None: the module is generated."""
        return {}

    @property
    def _shift(self) -> int:
        """Places from a product's fraction to the accumulator's."""
        return self.accumulator.frac - self.inputs[0].fixed.frac - self.weight_format.frac

    @property
    def _drop(self) -> int:
        """Places from the accumulator's fraction down to the result's."""
        return self.accumulator.frac - self.outputs[0].fixed.frac

    @cached_property
    def _rounds(self) -> NDArray[np.bool_]:
        """The outputs whose sums have more fraction bits than their results."""
        low = (shifted(self.weight, self._shift) | self.bias[:, None]) & ((1 << max(self._drop, 0)) - 1)
        return np.asarray(low.any(axis=1) & self.weight.any(axis=1))

    @cached_property
    def network(self) -> Network:
        """The adders; the constants include half a step of the result where sums are rounded to the nearest."""
        half = 1 << (self._drop - 1) if self._drop > 0 and self.rounding == "nearest_even" else 0
        constants = np.where(self._rounds, self.bias + half, self.bias) * self.weight.any(axis=1)
        return solve_cached(shifted(self.weight, self._shift), self.span, constants)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline registers."""
        return pipelined(self.network, self.every)

    @cached_property
    def result_rounding(self) -> tuple[ResultRounding, ...]:
        """Rounding of each sum."""
        constants = self._rounded(self.bias)
        roundings = []
        for k, out in enumerate(self.network.outputs):
            if out.value < 0 or not self.weight[k].any():
                roundings.append(ResultRounding(constant=int(constants[k])))
            else:
                even = bool(self._rounds[k]) and self.rounding == "nearest_even"
                roundings.append(ResultRounding(self._drop - out.shift, even))
        return tuple(roundings)

    def _rounded(self, sums: Codes) -> Codes:
        codes = requantise(sums, self.accumulator.frac, self.outputs[0].fixed, self.rounding)
        return np.maximum(codes, 0) if self.relu else codes

    def texts(self) -> dict[str, str]:
        """The generated module."""
        x, y, net = self.inputs[0], self.outputs[0], self.network
        about = (
            f"{self.module}: y = x W^T + b of {self.node} by additions, generated; change the graph, not this file.",
            f"{y.size} results of {x.size} elements: {len(net.adders)} adders of {net.bits} bits in total, "
            f"depth {net.depth}, with a register after every {self.every}.",
            f"A row per cycle, with a latency of {self.pipeline.stages} cycles.",
        )
        spec = ModuleSpec(
            self.module, net, self.pipeline, self.result_rounding, x.fixed.width, y.fixed.width, y.fixed.signed,
            self.relu, about,
        )  # fmt: skip
        return {self.module: module_text(spec)}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Exact sums, one requantisation."""
        sums = product(codes[0], self.weight.T, self.accumulator.width, self.node)
        return (self._rounded(shifted(sums, self._shift) + self.bias),)

    def engines(self) -> tuple[Engine, ...]:
        """A row per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, self.pipeline.stages),)

    def content_counts(self) -> dict[str, int]:
        """Bits that are added, stored in registers, rounded and saturated."""
        ranges, y = self.network.ranges(), self.outputs[0].fixed
        ends = [(ranges[o.value], s) for o, s in zip(self.network.outputs, self.result_rounding, strict=True)
                if s.constant is None]  # fmt: skip
        cut = [max(width(r) - s.drop - y.width + (not form_of(r).signed), 0) for r, s in ends]
        return {
            "ADD": self.network.bits, "KEEP": self.pipeline.register_bits(ranges, y.width),
            "ROUND": sum(-(-s.drop // 5) for _, s in ends if s.even),
            "CUT": sum(y.width + -(-c // 5) for c in cut if c) + sum(y.width for c in cut if not c and self.relu),
        }  # fmt: skip

    def area(self) -> Area:
        """Area by the number of adders."""
        from espalier.verilog.area.unrolled import adders

        return adders(self.content_counts())

    def remark(self) -> str:
        """Size of the network."""
        net = self.network
        return f"{len(net.adders)} adders of {net.bits} bits, depth {net.depth}"
