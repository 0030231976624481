"""Difference of two graphs by node: formats, sparsities, weights, wiring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from espalier.app.api.reports import Report, Row
from espalier.model.graph.graph import Graph, Node
from espalier.passes.score import static_score

FIGURES = ("size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops")


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Report):
    """Difference of two models: a row a change, with `node`, `what`, `before` and `after`.

    Figures: numbers of added, removed and changed nodes; costs of both, such as `size_bytes` and
    `size_bytes_before`. False if nothing differs.
    """

    def __bool__(self) -> bool:
        return bool(self.table)


def difference(before: Graph, after: Graph) -> Difference:
    """Compute the difference of two graphs."""
    delta = after.delta(before)
    rows = [{"node": i, "what": "added", "before": None, "after": after[i].op} for i in delta.added]
    rows += [{"node": i, "what": "removed", "before": before[i].op, "after": None} for i in delta.removed]
    for node in delta.changed:
        rows += _changes(before[node], after[node])
    rows += _weights(before, after)
    old, new = static_score(before), static_score(after)
    figures = {"added": len(delta.added), "removed": len(delta.removed), "changed": len(delta.changed)}
    for name in FIGURES:
        figures |= {name: getattr(new, name), f"{name}_before": getattr(old, name)}
    return Difference("difference", figures, tuple(rows))


def _changes(old: Node, new: Node) -> Iterator[Row]:
    for port in dict.fromkeys((*old.precision, *new.precision)):
        a, b = old.precision.get(port), new.precision.get(port)
        if a != b:
            yield _row(new, f"{port} format", str(a.format) if a else "float", str(b.format) if b else "float")
    for port in dict.fromkeys((*old.sparsity, *new.sparsity)):
        a, b = old.sparsity.get(port), new.sparsity.get(port)
        if a != b:
            yield _row(new, f"{port} sparsity", a.ratio if a else 0.0, b.ratio if b else 0.0)
    for what in ("op", "target", "call", "adapters", "attrs", "weights"):
        a, b = getattr(old, what), getattr(new, what)
        if a != b:
            yield _row(new, what, str(a), str(b))
    if old.args != new.args or old.kwargs != new.kwargs:
        yield _row(new, "inputs", ", ".join(r.node for r in old.inputs), ", ".join(r.node for r in new.inputs))


def _row(node: Node, what: str, before: object, after: object) -> Row:
    return {"node": node.id, "what": what, "before": before, "after": after}


def _weights(before: Graph, after: Graph) -> Iterator[Row]:
    """Rows of weights with changed values or shapes."""
    for name, new in after.weights.items():
        old = before.weights.get(name)
        if old is not None and (old.key != new.key or old.shape != new.shape):
            what = "values" if old.shape == new.shape else "shape"
            shapes = [" × ".join(map(str, w.shape)) for w in (old, new)]
            yield {"node": name, "what": f"weight {what}", "before": shapes[0], "after": shapes[1]}
