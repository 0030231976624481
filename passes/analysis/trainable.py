"""Counts trainable parameters by module of the hierarchy and in total, each once."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.graph.adapters import adapted
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.passes.base import Context, Report, Row, analysis


@dataclass(frozen=True, slots=True)
class TrainableOptions:
    """The depth of the hierarchy."""

    depth: int = field(default=0, metadata={"min": 0, "max": 64, "help": "depth of the module tree; 0 = all"})


@dataclass(slots=True)
class _Count:
    parameters: int = 0
    before: int = 0
    trainable: int = 0
    adapters: int = 0

    def add(self, weight: Weight, of_adapter: bool) -> None:
        self.parameters += weight.elements
        self.trainable += weight.elements if weight.trainable else 0
        self.adapters += weight.elements if of_adapter else 0
        self.before += weight.elements if not of_adapter and (weight.trainable or weight.rests) else 0


@analysis("trainable", "Trainable parameters", TrainableOptions, instant=True)
def trainable(graph: Graph, options: TrainableOptions, context: Context) -> tuple[Graph, Report]:
    """Numbers of trainable, frozen and adapter parameters per module and in total.

    `without_adapters`: number that trained before adapters were inserted. A module's row includes its submodules; a
    shared weight counts once, in the module of its name.
    """
    of_adapters = {name for _, adapter in adapted(graph) for name in (adapter.a, adapter.b)}
    counts: dict[str, _Count] = {"": _Count()}
    for name, weight in graph.weights.items():
        if weight.role == "parameter":
            for path in ("", *_modules(name, options.depth)):
                counts.setdefault(path, _Count()).add(weight, name in of_adapters)
    total = counts.pop("")
    rows = tuple(_row(path, counts[path], total) for path in _in_order(counts))
    return graph, Report("trainable", rows, {k: v for k, v in _figures(total, total).items() if k != "share"})


def _modules(name: str, depth: int) -> list[str]:
    """The modules around a weight, the outermost first."""
    parts = name.split(".")[:-1]
    return [".".join(parts[: i + 1]) for i in range(len(parts) if not depth else min(depth, len(parts)))]


def _in_order(counts: dict[str, _Count]) -> list[str]:
    """Each module before what is inside it, otherwise in the model's order."""
    position = {path: i for i, path in enumerate(counts)}
    parents = {path: [".".join(path.split(".")[: i + 1]) for i in range(path.count(".") + 1)] for path in counts}
    return sorted(counts, key=lambda path: [position[p] for p in parents[path]])


def _row(path: str, count: _Count, total: _Count) -> Row:
    return {"module": path, "level": path.count("."), **_figures(count, total)}


def _figures(count: _Count, total: _Count) -> Row:
    """`share`: share of the model's trainable parameters."""
    return {"parameters": count.parameters, "trainable": count.trainable,
            "frozen": count.parameters - count.trainable, "adapters": count.adapters,
            "without_adapters": count.before,
            "trainable_share": count.trainable / count.parameters if count.parameters else 0.0,
            "share": count.trainable / total.trainable if total.trainable else 0.0}  # fmt: skip
