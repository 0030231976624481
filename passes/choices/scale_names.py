"""Names of weights that passes add to a graph."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from espalier.model.graph.graph import Node
    from espalier.model.graph.meta import Weight


def scale_name(node: Node, port: str, weights: Mapping[str, Weight]) -> str:
    """The name of a new scale: `<module>.weight_scale`, numbered if `weights` has it."""
    return unused_name(f"{node.target if node.call == 'call_module' else node.id}.{port}_scale", weights)


def unused_name(name: str, names: Container[str]) -> str:
    """`name`, with the first number added that makes it no element of `names`."""
    return next(n for n in (name, *(f"{name}_{i}" for i in range(1, 1 << 20))) if n not in names)
