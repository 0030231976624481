"""How nodes compute with the arithmetic of hardware where the model runs: tables, softmax, norms, fused steps.

What computes it is registered from above (`verilog` derives it from the integer models of its templates), as fast
versions of formats are. No torch is imported here.
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
    """How hardware computes a node. `sources`: the values that it reads; `trains`: whether it does so in training."""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """The tensors that hardware computes it of, before any format of the node."""
        ...

    @property
    def trains(self) -> bool:
        """Whether a training step computes it so too: not what drops values or learns statistics."""
        ...

    @property
    def content(self) -> Hashable:
        """Equal for emulations that give the same."""
        ...

    def run(self, like: Tensor, *values: Tensor) -> Tensor:
        """The result for `sources`, of the shape and dtype of `like`."""
        ...


def in_float(graph: Graph) -> Graph:
    """The graph with torch's arithmetic everywhere, for what leaves this program."""
    return graph.replace(*(replace(n, arithmetic="float") for n in graph if n.arithmetic != "float"))


Emulator = Callable[["Graph", "WeightStore", "Node", "Mapping[str, Tensor]"], "Emulation | None"]
_emulators: list[Emulator] = []  # one, or none


def register(emulator: Emulator) -> None:
    """Let `emulator` compute nodes whose arithmetic is hardware's; raises ValueError where another one does."""
    if _emulators and _emulators[0] is not emulator:
        raise ValueError("an emulator is already registered")
    _emulators[:] = [emulator]


def emulation_of(graph: Graph, store: WeightStore, node: Node, tensors: Mapping[str, Tensor]) -> Emulation | None:
    """How hardware computes a node; None where it computes in float or nothing in it has a format.

    `tensors`: live values by weight name.

    Raises GraphError where nothing is registered, EmitError where the node has no hardware in these formats.
    """
    if node.arithmetic == "float":
        return None
    if not _emulators:
        raise GraphError(f"{node.id} computes as hardware does, which this program cannot.",
                         "Run pass hardware_functions with arithmetic=float.", node.id)  # fmt: skip
    return _emulators[0](graph, store, node, tensors)
