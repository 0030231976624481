"""The interface of stages: what happens to each segment in one sweep over the weights, and with which inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.layers import Compressed
from espalier.passes.base import Row
from espalier.passes.running.batches import fit_error
from espalier.passes.streaming.segments import Segment
from espalier.passes.streaming.states import Flow, Inputs, States


@dataclass(slots=True)
class Work:
    """A segment in a stage. `graph`: the segment with its values in `store`, as earlier stages left it.

    `flows`: the inputs of the stage's runs. `given`: the states that they leave for the next segment.
    """

    segment: Segment
    graph: Graph
    store: WeightStore
    flows: list[Flow]
    given: list[States]

    @property
    def is_last(self) -> bool:
        """Whether the segment gives the model's results."""
        return self.segment.after is None

    def advance(self, number: int, module: nn.Module) -> None:
        """Run the segment's `module` on a flow, and keep its results for the next segment."""
        if not self.is_last:
            self.given[number].write(self.results(number, module))

    def results(self, number: int, module: nn.Module) -> Iterator[Any]:
        """The results of the segment's `module` by batch."""
        untyped, names = cast("Any", module), {n.target for n in self.graph.placeholders}
        with torch.no_grad():
            for inputs in self.flows[number]:
                with fit_error(inputs):
                    yield untyped(**{k: v for k, v in inputs.items() if k in names})


@dataclass(slots=True)
class Stage:
    """A stage of the sweep. `samples`: inputs of the model by batch. `rows`: of its report.

    `count`: how many runs of the model it needs beside one another. `bonds`: nodes that it needs in one segment.
    """

    title: str
    samples: Sequence[Inputs]
    count: int = 1
    bonds: list[set[str]] = field(default_factory=list[set[str]])
    rows: list[Row] = field(default_factory=list[Row])

    def run(self, work: Work) -> Graph:
        """The segment after the stage, with the states of all flows written."""
        raise NotImplementedError

    def begins(self, folder: Path, number: int, index: int) -> list[States]:
        """The files of the states that segment `index` leaves; `number`: of the stage."""
        return [States(folder / f"states-{number}-{flow}-{index}.bin") for flow in range(self.count)]


def settled(module: nn.Module) -> None:
    """Replace the stored weights of a built module by those that take part in the arithmetic, one after the other.

    The module then computes the same, without a second copy of each weight.
    """
    for part in [m for m in module.modules() if isinstance(m, Compressed)]:
        for port, effective in list(part.effective.items()):
            value: Any = getattr(part.inner, port, None)
            if isinstance(value, nn.Parameter):
                with torch.no_grad():
                    setattr(part.inner, port, nn.Parameter(effective(value.detach()), requires_grad=False))
                del part.effective[port]
