"""The netlist of a design: instances of templates and the wires between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from espalier.model.errors import EmitError
from espalier.verilog.design.host_part import HostNode
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
    """An input or output of the design. `node`: the graph node whose result it carries.

    `index` [rows · size]: the element of that tensor (one sample, flattened) at each position of the stream.
    """

    name: str
    stream: Stream
    node: str
    shape: tuple[int, ...]
    index: np.ndarray
    output: int = 0  # of the node
    rounding: Rounding = "nearest_even"  # of the host's conversion to the stream's format
    axis: int = 0  # the tensor's batch axis
    mask: bool = False  # an additive mask of 0 and very low values, sent as one bit: 1 where masked


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Instances in topological order, `wires[name]` the sources of an instance's inputs, `ends` those of the outputs.

    `symbols`: the sizes of symbolic dimensions. `edited`: module → text that replaces the library's.
    `host_nodes`: the nodes that the host computes. `remarks`: node → option that was not applied, and why.
    `notes`: warnings about the whole design.
    """

    name: str
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    instances: tuple[Template, ...]
    wires: dict[str, tuple[Wire, ...]]
    ends: tuple[Wire, ...]
    symbols: dict[str, int] = field(default_factory=dict)  # type: ignore[assignment]
    edited: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    host_nodes: tuple[HostNode, ...] = ()
    remarks: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    notes: tuple[str, ...] = ()

    def instance(self, name: str) -> Template:
        """The instance called `name`."""
        return next(i for i in self.instances if i.name == name)

    def stream(self, wire: Wire) -> Stream:
        """The stream on a wire."""
        return self.instance(wire.source).outputs[wire.output] if wire.source else self.inputs[wire.output].stream

    def label(self, wire: Wire) -> str:
        """The wire's name in SystemVerilog, from its source."""
        return f"{wire.source}_{port('y', wire.output)}" if wire.source else self.inputs[wire.output].name

    def all_wires(self) -> Iterator[Wire]:
        """Every wire once: the design's inputs, then the outputs of the instances."""
        yield from (Wire("", k) for k in range(len(self.inputs)))
        yield from (Wire(i.name, k) for i in self.instances for k in range(len(i.outputs)))

    @property
    def free_running(self) -> frozenset[str]:
        """The instances that depend on constants alone; they are not synchronised to frames."""
        names: set[str] = set()
        for instance in self.instances:
            if all(w.source in names for w in self.wires[instance.name]):
                names.add(instance.name)
        return frozenset(names)

    def run(self, *inputs: Codes) -> dict[Wire, Codes]:
        """Evaluate the integer model: input codes [frames, rows, size] → the codes on every wire."""
        values = {Wire("", k): codes for k, codes in enumerate(inputs)}
        for instance in self.instances:
            sources = zip(instance.inputs, self.wires[instance.name], strict=True)
            results = instance.reference(*(s.reads(self.stream(w), values[w]) for s, w in sources))
            if not instance.inputs:  # a constant gives one frame for all
                results = tuple(np.broadcast_to(r, (len(inputs[0]), *r.shape[1:])) for r in results)
            for k, (codes, stream) in enumerate(zip(results, instance.outputs, strict=True)):
                if not stream.fixed.holds(codes):
                    text = f"{instance.name} gives values outside {stream.fixed.label}: its template is wrong."
                    raise EmitError(text, "Please report this.", instance.node)
                values[Wire(instance.name, k)] = codes
        return values

    def check(self) -> None:
        """Check that every wire has exactly one reader, with an equal stream; raises EmitError."""
        readers = [w for ws in self.wires.values() for w in ws] + list(self.ends)
        for wire in self.all_wires():
            if readers.count(wire) != 1:
                raise EmitError(
                    f"The wire {self.label(wire)} has {readers.count(wire)} readers.", "Please report this."
                )
        for instance in self.instances:
            for want, wire in zip(instance.inputs, self.wires[instance.name], strict=True):
                if not self.stream(wire).carries(want):
                    text = f"{instance.name} takes {want.label}; {self.label(wire)} carries {self.stream(wire).label}."
                    raise EmitError(text, "Please report this.", instance.node)
