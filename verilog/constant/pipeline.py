"""Pipelining of a network of adders: the stage of each value, and how long it stays in registers."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.verilog.constant.network import Network, Range, width


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`stage` by value: registers before it; `last`: the latest stage that reads it; `done`: stage by output.

    A result is rounded one level after its sum; all results leave after `stages` registers.
    """

    stages: int
    stage: tuple[int, ...]
    last: tuple[int, ...]
    done: tuple[int, ...]

    def register_bits(self, ranges: list[Range], out_bits: int) -> int:
        """Total bits in registers."""
        values = sum((b - a) * width(r) for a, b, r in zip(self.stage, self.last, ranges, strict=True))
        return values + sum(self.stages - s for s in self.done) * out_bits + self.stages


def pipelined(network: Network, every: int) -> Pipeline:
    """As-soon-as-possible schedule with a register after `every` adders on each path; results take one more level."""
    depths = network.depths()
    stage = [max(d - 1, 0) // every for d in depths]
    last = list(stage)
    for k, adder in enumerate(network.adders):
        for value in (adder.a, adder.b):
            last[value] = max(last[value], stage[network.first + k])
    done = []
    for out in network.outputs:
        stage_of_output = depths[out.value] // every if out.value >= 0 else 0
        done.append(stage_of_output)
        if out.value >= 0:
            last[out.value] = max(last[out.value], stage_of_output)
    for k in range(len(network.inputs), network.first):
        last[k] = stage[k]  # constants need no registers
    return Pipeline(max(done, default=0) + 1, tuple(stage), tuple(last), tuple(done))
