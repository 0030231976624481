"""Emulation of hardware arithmetic in a running model: tables, softmax, norms, fused steps.

The emulator is registered by a higher layer (`verilog` derives it from the integer models of its templates), like
fast versions of formats. No torch is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from espalier.model.errors import GraphError

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.graph.graph import Graph, Node, Ref
    from espalier.model.store.weights import WeightStore


class Emulation(Protocol):
    """The arithmetic of a node in hardware."""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """The tensors that hardware reads, before any format of the node."""
        ...

    @property
    def trains(self) -> bool:
        """Whether it is used in training too: not for nodes that drop values or update statistics."""
        ...

    @property
    def content(self) -> Hashable:
        """Equal for emulations with equal results."""
        ...

    def run(self, like: Tensor, *values: Tensor) -> Tensor:
        """The result for the values of `sources`, in the shape and dtype of `like`."""
        ...


def in_float(graph: Graph) -> Graph:
    """The graph with torch's arithmetic everywhere, for exports."""
    return graph.replace(*(replace(n, arithmetic="float") for n in graph if n.arithmetic != "float"))


Emulator = Callable[["Graph", "WeightStore", "Node", "Mapping[str, Tensor]"], "Emulation | None"]
_emulators: list[Emulator] = []  # one, or none


def register(emulator: Emulator) -> None:
    """Register the emulator of nodes with hardware arithmetic; raises ValueError if another one is registered."""
    if _emulators and _emulators[0] is not emulator:
        raise ValueError("an emulator is already registered")
    _emulators[:] = [emulator]


def emulation_of(graph: Graph, store: WeightStore, node: Node, tensors: Mapping[str, Tensor]) -> Emulation | None:
    """The emulation of a node; None if it computes in float or has no format. `tensors`: live values by weight name.

    Raises GraphError if no emulator is registered, EmitError if the node has no hardware in these formats.
    """
    if node.arithmetic == "float":
        return None
    if not _emulators:
        raise GraphError(f"{node.id} has hardware arithmetic, but no emulator is loaded.",
                         "Run pass hardware_functions with arithmetic=float.", node.id)  # fmt: skip
    return _emulators[0](graph, store, node, tensors)
