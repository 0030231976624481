"""A design: instances of templates and the wires between them, before any file is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from espalier.model.errors import EmitError
from espalier.verilog.design.host_part import Hosted
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template, port
from espalier.verilog.numbers.fixed import Codes, Rounding


@dataclass(frozen=True, slots=True)
class Wire:
    """A stream's source: output `output` of an instance, or input `output` of the design where `source` is ""."""

    source: str
    output: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """An input or output of the design. `node`: the graph's node whose result it is.

    `index` [rows · size]: which element of that tensor (one sample, flattened) travels in each place of the stream.
    """

    name: str
    stream: Stream
    node: str
    shape: tuple[int, ...]
    index: np.ndarray
    output: int = 0  # of the node
    rounding: Rounding = "nearest_even"  # how the host brings values into the stream's format
    axis: int = 0  # of that tensor, along which samples lie
    mask: bool = False  # the host's tensor is added to scores, 0 or so low that nothing is left: a bit for the latter


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Instances in the order of the data, `wires[name]` the sources of an instance's inputs, `ends` of the outputs.

    `symbols`: the sizes that it is made for. `edited`: module → text that stands in the place of the library's.
    `hosted`: the nodes that the host computes. `remarks`: node → what a person asked for and did not get, and why.
    `notes`: what a person should know of the whole.
    """

    name: str
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    instances: tuple[Template, ...]
    wires: dict[str, tuple[Wire, ...]]
    ends: tuple[Wire, ...]
    symbols: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]
    edited: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    hosted: tuple[Hosted, ...] = ()
    remarks: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    notes: tuple[str, ...] = ()

    def instance(self, name: str) -> Template:
        """The instance called `name`."""
        return next(i for i in self.instances if i.name == name)

    def stream(self, wire: Wire) -> Stream:
        """What travels on a wire."""
        return self.instance(wire.source).outputs[wire.output] if wire.source else self.inputs[wire.output].stream

    def label(self, wire: Wire) -> str:
        """The wire's name in the text: that of its source."""
        return f"{wire.source}_{port('y', wire.output)}" if wire.source else self.inputs[wire.output].name

    def all_wires(self) -> Iterator[Wire]:
        """Every wire once: the design's inputs, then the outputs of the instances."""
        yield from (Wire("", k) for k in range(len(self.inputs)))
        yield from (Wire(i.name, k) for i in self.instances for k in range(len(i.outputs)))

    @property
    def endless(self) -> frozenset[str]:
        """The instances that hang on constants alone: they run ahead of the frames."""
        found: set[str] = set()
        for instance in self.instances:
            if all(w.source in found for w in self.wires[instance.name]):
                found.add(instance.name)
        return frozenset(found)

    def run(self, *inputs: Codes) -> dict[Wire, Codes]:
        """The integer model of the whole: input codes [frames, rows, size] → the codes on every wire."""
        held = {Wire("", k): codes for k, codes in enumerate(inputs)}
        for instance in self.instances:
            taken = zip(instance.inputs, self.wires[instance.name], strict=True)
            given = instance.reference(*(s.reads(self.stream(w), held[w]) for s, w in taken))
            if not instance.inputs:  # a constant gives one frame for all
                given = tuple(np.broadcast_to(g, (len(inputs[0]), *g.shape[1:])) for g in given)
            for k, (codes, stream) in enumerate(zip(given, instance.outputs, strict=True)):
                if not stream.fixed.holds(codes):
                    text = f"{instance.name} gives values beyond {stream.fixed.label}: its template is wrong."
                    raise EmitError(text, "Please report this.", instance.node)
                held[Wire(instance.name, k)] = codes
        return held

    def check(self) -> None:
        """Every wire has one reader of the same stream; raises EmitError."""
        readers = [w for ws in self.wires.values() for w in ws] + list(self.ends)
        for wire in self.all_wires():
            if readers.count(wire) != 1:
                raise EmitError(
                    f"The wire {self.label(wire)} has {readers.count(wire)} readers.", "Please report this."
                )
        for instance in self.instances:
            for want, wire in zip(instance.inputs, self.wires[instance.name], strict=True):
                if not self.stream(wire).carries(want):
                    text = (
                        f"{instance.name} takes {want.label}, and {self.label(wire)} brings {self.stream(wire).label}."
                    )
                    raise EmitError(text, "Please report this.", instance.node)
