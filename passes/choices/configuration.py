"""The configuration of a node (formats, sparsities, adapter) as a value that can be given to other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.model.errors import PassError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import base_port, quantisable
from espalier.passes.choices.edits import with_activation_sparsity, with_format, with_lora, with_sparsity
from espalier.passes.choices.pruning import WITH_DATA


@dataclass(frozen=True, slots=True)
class Pruned:
    """How a port is pruned. `threshold`: a limit that was measured on data cannot be given to other nodes."""

    ratio: float = field(default=0.0, metadata={"min": 0.0, "max": 1.0})
    method: str = "l1"
    scope: str = "local"
    pattern: str = "element"
    size: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class LowRank:
    """A LoRA adapter without its values."""

    rank: int = field(default=8, metadata={"min": 1, "max": 4096})
    alpha: float = field(default=16.0, metadata={"min": 0.0})
    dropout: float = field(default=0.0, metadata={"min": 0.0, "max": 0.99})


@dataclass(frozen=True, slots=True)
class Configuration:
    """Choices of a node by port. A port that is missing is float, and not pruned."""

    formats: dict[str, Format] = field(default_factory=dict[str, Format])
    pruned: dict[str, Pruned] = field(default_factory=dict[str, Pruned])
    adapter: LowRank | None = None

    def describe(self) -> str:
        """`weight mxint4, data_in int8 · 50 % pruned · LoRA r8`, or `float`."""
        parts = [", ".join(f"{port} {fmt.label}" for port, fmt in self.formats.items())]
        parts += [f"{port} {100 * p.ratio:.3g} % pruned" for port, p in self.pruned.items()]
        parts += [f"LoRA r{self.adapter.rank}"] if self.adapter else []
        return " · ".join(filter(None, parts)) or "float"


def configuration_of(node: Node) -> Configuration:
    """The choices of a node."""
    adapter = next(iter(node.adapters.values()), None)
    return Configuration(
        {port: chosen.format for port, chosen in node.precision.items()},
        {port: Pruned(s.ratio, s.method, s.scope, s.pattern, s.size) for port, s in node.sparsity.items()
         if s.pattern != "threshold"},
        LowRank(adapter.rank, adapter.alpha, adapter.dropout) if adapter else None,
    )  # fmt: skip


def with_configuration(recipe: Recipe, graph: Graph, ids: Sequence[str], wanted: Configuration) -> Recipe:
    """The recipe that gives nodes these choices where they can have them, and takes others of the same ports away.

    Raises PassError where none of the nodes can have a format, be pruned or have an adapter.
    """
    before = recipe
    nodes = [graph[i] for i in ids]
    ports = {p: tuple(n.id for n in nodes if _able(n, p)) for n in nodes for p in (*n.precision, *wanted.formats)}
    for port, names in ports.items():
        chosen = wanted.formats.get(port)
        differing = tuple(i for i in names if _format(graph[i], port) != chosen)
        if differing:
            recipe = with_format(recipe, differing, port, chosen)
    recipe = _pruned(recipe, nodes, wanted)
    layers = tuple(n.id for n in nodes if n.op == "linear" and "weight" in n.weights)
    adapter = wanted.adapter
    if adapter and layers:
        recipe = with_lora(recipe, {(adapter.rank, adapter.alpha, adapter.dropout): layers})
    elif held := tuple(n.id for n in nodes if n.adapters):
        recipe = with_lora(recipe, {(0, 16.0, 0.0): held})
    able = layers or any(ports.values()) or any("weight" in n.weights for n in nodes)
    if recipe == before and not able:
        raise PassError("None of the selected nodes can take this configuration.", "Select layers or operations.")
    return recipe


def _able(node: Node, port: str) -> bool:
    """Whether the port can have a format."""
    return port in node.ports and base_port(port) in quantisable(node)


def _format(node: Node, port: str) -> Format | None:
    held = node.precision.get(port)
    return held.format if held else None


def _pruned(recipe: Recipe, nodes: Sequence[Node], wanted: Configuration) -> Recipe:
    weight = wanted.pruned.get("weight")
    if weight and weight.pattern not in ("top_k", "threshold"):
        layers = tuple(n.id for n in nodes if "weight" in n.weights and n.op != "embedding" and _able(n, "weight"))
        if layers:
            method = "l1" if weight.method in WITH_DATA else weight.method  # data are another model's matter
            recipe = with_sparsity(recipe, layers, weight.ratio, method, "local", pattern=weight.pattern,
                                   **_size(weight))  # fmt: skip
    elif whole := tuple(n.id for n in nodes if "weight" in n.sparsity and not n.sparsity["weight"].flows):
        recipe = with_sparsity(recipe, whole, 0.0, "l1", "local")
    flowing = wanted.pruned.get("data_in")
    if flowing and (layers := tuple(n.id for n in nodes if _able(n, "data_in") and n.op == "linear")):
        values = {"sparsity": flowing.ratio, "method": flowing.method, "pattern": "top_k"}
        recipe = with_activation_sparsity(recipe, layers, values)
    elif flows := tuple(n.id for n in nodes if "data_in" in n.sparsity):
        recipe = with_activation_sparsity(recipe, flows, {"sparsity": 0.0})
    return recipe


def _size(pruned: Pruned) -> dict[str, Any]:
    first, second = pruned.size
    return {"n:m": {"n": first, "m": second}, "block": {"rows": first, "columns": second}}.get(pruned.pattern, {})
