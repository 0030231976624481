"""What differs between two paired nodes: operation, shapes, formats, sparsity, weights, texts; with stored bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Adapter, Precision, Sparsity, Weight
from espalier.model.graph.node import Arg, Node, Ref, map_arg
from espalier.model.graph.ports import weights_of
from espalier.model.packed.layout import Use, stored, use_at

Kind = Literal[
    "added", "removed", "op", "attribute", "arguments", "inputs", "shape", "type", "format", "granularity", "sparsity",
    "weights", "adapter", "parallelism", "arithmetic", "title", "note", "colour", "muted",
]  # fmt: skip
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
GRANULAR = ("granularity", "group", "block")  # fields of formats that say what shares a scale or an exponent
# Attributes that repeat what the shapes of the weights say.
SIZES = ("in_features", "out_features", "in_channels", "out_channels", "num_embeddings", "embedding_dim",
         "normalized_shape", "num_features", "num_channels", "input_size", "hidden_size", "embed_dim")  # fmt: skip
FLOAT = "float"
Value = str | float | int | bool | None
Distance = Callable[[str, str], float | None]  # keys of two tensors of one shape → ‖B − A‖ / ‖A‖


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `node`: in B, in A for a removed one; `other`: its partner in A, empty for an added or removed.

    `port`: of weight, bias, data_in, …, or the name of an attribute. `a`, `b`: what it is in each (None: nothing).
    `size_bytes`: change of the stored bytes of the node's weights, None where it does not depend on them; the changes
    of one weight add up to the whole. A weight that several nodes read is counted as if this one alone read it.
    `distance`: ‖B − A‖ / ‖A‖ (Frobenius norms) of weights.
    """

    node: str
    kind: Kind
    a: Value
    b: Value
    port: str = ""
    other: str = ""
    size_bytes: int | None = None
    distance: float | None = None

    @property
    def what(self) -> str:
        """Port and kind, such as `weight format`."""
        kind = "values" if self.kind == "weights" else self.kind
        return f"{self.port} {kind}" if self.port and self.kind != "attribute" else self.port or kind


@dataclass(frozen=True, slots=True)
class Sides:
    """Both graphs, the partner in A of each node of B, and how to measure the distance of two tensors."""

    a: Graph
    b: Graph
    pairs: dict[str, str]
    distance: Distance | None = None


def changes_of(old: Node, new: Node, sides: Sides) -> Iterator[Change]:
    """What turned node `old` of A into node `new` of B."""
    for kind, port, a, b, size, distance in _differences(old, new, sides):
        yield Change(new.id, kind, a, b, port, old.id, size, distance)


_Part = tuple[Kind, str, Value, Value, int | None, float | None]


def _differences(old: Node, new: Node, sides: Sides) -> Iterator[_Part]:
    if old.op != new.op:
        yield "op", "", old.op, new.op, None, None
    yield from _weights(old, new, sides)
    yield from _outputs(old, new)
    yield from _choices(old, new, sides)
    if old.op == new.op:
        yield from _attributes(old, new, sides)
    yield from _wiring(old, new, sides)
    adapters = _adapters(old), _adapters(new)
    if adapters[0] != adapters[1]:
        size = _adapter_bytes(new, sides.b) - _adapter_bytes(old, sides.a)
        yield "adapter", "", adapters[0], adapters[1], size, None
    if old.parallel != new.parallel:
        labels = [n.parallel.label if n.parallel else None for n in (old, new)]
        yield "parallelism", "", labels[0], labels[1], None, None
    if old.arithmetic != new.arithmetic:
        yield "arithmetic", "", old.arithmetic, new.arithmetic, None, None
    texts: tuple[Kind, ...] = ("title", "note", "colour", "muted")
    for kind in texts:
        a, b = getattr(old.annotation, kind), getattr(new.annotation, kind)
        if a != b:
            yield kind, "", a, b, None, None


# -- weights


def _ports(node: Node, graph: Graph) -> dict[str, str]:
    """Port → the stored tensor there."""
    if node.call == "get_attr":
        return dict(node.weights)
    return {port: name for port, name in weights_of(node, graph) if port and name in graph.weights}


def _weights(old: Node, new: Node, sides: Sides) -> Iterator[_Part]:
    """Shapes, types and values of the tensors that both name themselves, then values of their scales and adapters."""
    for port, name in new.weights.items():
        other = old.weights.get(port)
        if other is None or other not in sides.a.weights or name not in sides.b.weights:
            continue
        a, b = sides.a.weights[other], sides.b.weights[name]
        use = use_at(old, port, other) if old.call != "get_attr" else Use()
        resized = replace(a, shape=b.shape)
        if a.shape != b.shape:
            size = _stored(resized, _within(use, b)) - _stored(a, use)
            yield "shape", port, sizes(a.shape), sizes(b.shape), size, None
        else:
            yield from _values(port, a, b, sides)
        if a.dtype != b.dtype:
            size = _stored(b, _within(use, b)) - _stored(resized, _within(use, b))
            yield "type", port, a.dtype, b.dtype, size, None
    before, after = _side_tensors(old), _side_tensors(new)
    for port, name in after.items():
        first, second = sides.a.weights.get(before.get(port, "")), sides.b.weights.get(name)
        if first and second and first.shape == second.shape:
            yield from _values(port, first, second, sides)


def _values(port: str, a: Weight, b: Weight, sides: Sides) -> Iterator[_Part]:
    """A change of the values of a tensor that kept its shape."""
    if a.key != b.key:
        distance = sides.distance(a.key, b.key) if sides.distance and a.key and b.key else None
        text = sizes(b.shape) if distance is None else f"{distance:.3g} of its norm away"
        yield "weights", port, sizes(a.shape), text, None, distance


def _side_tensors(node: Node) -> dict[str, str]:
    """Name beside the port → tensor: given scales, matrices of adapters as PEFT names them."""
    scales = {f"{port} scale": chosen.scale for port, chosen in node.precision.items() if chosen.scale}
    matrices = {f"{p} {n}": t for p, x in node.adapters.items() for n, t in (("lora_A", x.a), ("lora_B", x.b))}
    return scales | matrices


def _adapters(node: Node) -> str | None:
    """`weight: LoRA r4, alpha 8`, of each port; None without an adapter."""
    return "; ".join(f"{port}: {_adapter(x)}" for port, x in node.adapters.items()) or None


def _adapter(adapter: Adapter) -> str:
    """Rank and alpha, then what is unusual."""
    parts = [adapter.label, f"alpha {adapter.alpha:g}"]
    parts += ["alpha/√rank"] if adapter.rooted else []
    parts += [f"dropout {adapter.dropout:g}"] if adapter.dropout else []
    return ", ".join(parts)


def _adapter_bytes(node: Node, graph: Graph) -> int:
    """Bytes of the matrices of a node's adapters."""
    names = dict.fromkeys(name for x in node.adapters.values() for name in (x.a, x.b))
    return sum(_stored(graph.weights[n], Use()) for n in names if n in graph.weights)


def _within(use: Use, weight: Weight) -> Use:
    """A use with at most as many zeros as a weight has elements."""
    return use._replace(zeros=min(use.zeros, weight.elements))


def sizes(shape: tuple[Any, ...]) -> str:
    """`768 × 3072`."""
    return " × ".join(map(str, shape)) or "scalar"


def _stored(weight: Weight, use: Use) -> int:
    """Bytes of a weight that is read in one way."""
    return sum(p.size for p in stored("w", weight, [use]))


def stored_bytes(node: Node, graph: Graph) -> int:
    """Bytes of the weights that a node names itself, scales and adapters included."""
    own = {name: use_at(node, port, name) for port, name in node.weights.items()} if node.call != "get_attr" else {}
    names = [n for n in node.tensors if n in graph.weights]
    return sum(_stored(graph.weights[n], own.get(n, Use())) for n in dict.fromkeys(names))


# -- choices


def _choices(old: Node, new: Node, sides: Sides) -> Iterator[_Part]:
    """Formats, then sparsity, by port."""
    held = _ports(old, sides.a), _ports(new, sides.b)
    for port in dict.fromkeys((*old.precision, *new.precision, *old.sparsity, *new.sparsity)):
        formats = [n.precision.get(port) for n in (old, new)]
        pruned = [n.sparsity.get(port) for n in (old, new)]
        steps = _steps(port, held, (old, new), sides) if port in held[0] and port in held[1] else (None, None)
        if formats[0] != formats[1] and (part := _format(port, formats[0], formats[1], steps[0])):
            yield part
        if pruned[0] != pruned[1]:
            yield _sparsity(port, pruned[0], pruned[1], steps[1])


def _steps(
    port: str, names: tuple[dict[str, str], dict[str, str]], nodes: tuple[Node, Node], sides: Sides
) -> tuple[int, int]:
    """Bytes that the format adds to B's tensor under A's mask, and then B's mask; scales from outside included."""
    weight = sides.b.weights[names[1][port]]
    first, last = use_at(nodes[0], port, names[0][port]), use_at(nodes[1], port, names[1][port])
    before = _within(first, weight)
    between = last._replace(mask=before.mask, zeros=before.zeros, exact=before.exact)
    scales = [_scale(n, port, g) for n, g in zip(nodes, (sides.a, sides.b), strict=True)]
    middle = _stored(weight, between)
    return middle - _stored(weight, before) + scales[1] - scales[0], _stored(weight, last) - middle


def _scale(node: Node, port: str, graph: Graph) -> int:
    """Bytes of a scale that is given from outside."""
    chosen = node.precision.get(port)
    weight = graph.weights.get(chosen.scale) if chosen and chosen.scale else None
    return _stored(weight, Use()) if weight else 0


def _format(port: str, a: Precision | None, b: Precision | None, size: int | None) -> _Part | None:
    """A change of the format, or of nothing but its granularity; None if only its scale or its gradient is another."""
    old, new = (p.format if p else None for p in (a, b))
    if old == new:
        if a is None or b is None or (a.scale is None) == (b.scale is None):
            return None
        scales = ["own scale" if p.scale is None else "given scale" for p in (a, b)]
        return "granularity", port, scales[0], scales[1], size, None
    kind: Kind = "granularity" if old and new and _coarse(old) == _coarse(new) else "format"
    return kind, port, str(old) if old else FLOAT, str(new) if new else FLOAT, size, None


def _coarse(fmt: Format) -> tuple[Any, ...]:
    """All of a format but what shares a scale."""
    return type(fmt), *(getattr(fmt, f.name) for f in fields(fmt) if f.name not in GRANULAR)


def _sparsity(port: str, a: Sparsity | None, b: Sparsity | None, size: int | None) -> _Part:
    ratios = [s.ratio if s else 0.0 for s in (a, b)]
    if ratios[0] != ratios[1]:
        return "sparsity", port, ratios[0], ratios[1], size, None
    labels = [f"{s.label}, {s.method}" if s else None for s in (a, b)]
    if labels[0] == labels[1]:
        labels = ["mask", "other mask"]
    return "sparsity", port, labels[0], labels[1], size, None


# -- facts


def _outputs(old: Node, new: Node) -> Iterator[_Part]:
    """The shape of the first result, where numbers in it differ; symbols of two traces need not have the same names."""
    a, b = old.out, new.out
    if a is None or b is None or old.call == "get_attr":
        return
    other = len(a.shape) != len(b.shape) or any(
        isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape, strict=True)
    )
    if other:
        yield "shape", "data_out", sizes(a.shape), sizes(b.shape), None, None


def _attributes(old: Node, new: Node, sides: Sides) -> Iterator[_Part]:
    """Constructor arguments, then the constants among the arguments of a function."""
    resized = any(
        (a := sides.a.weights.get(old.weights.get(port, "")))
        and (b := sides.b.weights.get(name))
        and a.shape != b.shape
        for port, name in new.weights.items()
    )
    for name in dict.fromkeys((*old.attrs, *new.attrs)):
        a, b = old.attrs.get(name), new.attrs.get(name)
        if not _same(a, b) and not (resized and name in SIZES):
            yield "attribute", name, plain(a), plain(b), None, None
    a, b = (_constants(n) for n in (old, new))
    if old.call == new.call == "call_function" and not _same(a, b):
        yield "arguments", "", plain(a), plain(b), None, None


def _same(a: Arg, b: Arg) -> bool:
    return repr(a) == repr(b)


def _constants(node: Node) -> Arg:
    """The arguments with a mark in place of each input."""
    mark = lambda ref: Ref("")  # noqa: E731
    return (*(map_arg(x, mark) for x in node.args), *((k, map_arg(x, mark)) for k, x in sorted(node.kwargs.items())))


def plain(value: Arg) -> Value:
    """A value as it is shown; inputs as `·`."""
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    return str(value).replace("Ref(node='', output=0)", "·")


def _wiring(old: Node, new: Node, sides: Sides) -> Iterator[_Part]:
    """Inputs that are not the partners of the others'."""
    a = [(r.node, r.output) for r in old.inputs]
    b = [(sides.pairs.get(r.node), r.output) for r in new.inputs]
    if a != b:
        names = [", ".join(r.node for r in n.inputs) or None for n in (old, new)]
        yield "inputs", "", names[0], names[1], None, None
