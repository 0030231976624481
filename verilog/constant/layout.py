"""When each value of a network is made: registers after every few adders, and how long each value has to be kept."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.verilog.constant.network import Network, Range, width


@dataclass(frozen=True, slots=True)
class Laid:
    """`stage` by value: registers before it; `last`: the latest stage that reads it; `done` by output.

    A result is rounded a level after its sum, and all leave after `stages` registers.
    """

    stages: int
    stage: tuple[int, ...]
    last: tuple[int, ...]
    done: tuple[int, ...]

    def kept(self, ranges: list[Range], out_bits: int) -> int:
        """Bits in registers."""
        held = sum((b - a) * width(r) for a, b, r in zip(self.stage, self.last, ranges, strict=True))
        return held + sum(self.stages - s for s in self.done) * out_bits + self.stages


def laid(network: Network, every: int) -> Laid:
    """Registers after `every` adders on any way; results take one level more. Values are made as early as they can."""
    depths = network.depths()
    stage = [max(d - 1, 0) // every for d in depths]
    last = list(stage)
    for k, adder in enumerate(network.adders):
        for value in (adder.a, adder.b):
            last[value] = max(last[value], stage[network.first + k])
    done = []
    for out in network.outputs:
        when = depths[out.value] // every if out.value >= 0 else 0
        done.append(when)
        if out.value >= 0:
            last[out.value] = max(last[out.value], when)
    for k in range(len(network.inputs), network.first):
        last[k] = stage[k]  # constants are everywhere
    return Laid(max(done, default=0) + 1, tuple(stage), tuple(last), tuple(done))
