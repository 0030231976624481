"""From what people write to choices on one model: layers selected, values listed, conditions resolved. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import offered
from espalier.model.graph.ports import weight_at
from espalier.passes.choices.prune import prunable
from espalier.passes.choices.pruning import Method
from espalier.passes.choices.quantize import PORTS
from espalier.passes.costs.parallel import product_of
from espalier.passes.search.format_lists import FLOAT, formats_of
from espalier.passes.search.space import IDENTITY, LINEAR, Choice, Plain, Space
from espalier.passes.search.spec import SearchSpec, Vary, When
from espalier.passes.select import chosen
from espalier.passes.sweep.spec_text import parse_place
from espalier.passes.sweep.sweep import Setting, with_settings
from espalier.passes.sweep.values import parse_values, value_text

MOST = 5000  # choices
FLOAT_BITS = 32.0


def expand(spec: SearchSpec, graph: Graph, recipe: Recipe) -> Space:
    """The space on `graph`, what the recipe leads to; raises OptionsError that says which entry is wrong, and how.

    Binary points and exponent biases are not fitted yet: see `espalier.passes.search.fit`.
    """
    if not spec.space:
        raise OptionsError("The space is empty: nothing varies.", "Add an entry: layers and the formats to try.")
    found: dict[str, Choice] = {}
    entries: dict[str, list[Choice]] = {}
    for i, entry in enumerate(spec.space):
        where = f"space[{i}]"
        made = [_conditional(c, entry, found, entries, where) for c in _choices(entry, graph, recipe, where)]
        for choice in made:
            named = _unique(choice, found)
            found[named.name] = named
            entries.setdefault(entry.name or entry.kind, []).append(named)
    if len(found) > MOST:
        raise OptionsError(f"The space has {len(found)} choices.", f"At most {MOST}: tie layers with `per`.")
    return Space(tuple(found.values()), score=spec.score)


def _unique(choice: Choice, found: dict[str, Choice]) -> Choice:
    """Two entries may vary the same: the later one gets a number."""
    names = (f"{choice.name}{f' {i}' if i > 1 else ''}" for i in range(1, len(found) + 2))
    return replace(choice, name=next(n for n in names if n not in found))


def _choices(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> list[Choice]:
    return list(_MAKERS[entry.kind](entry, graph, recipe, where))


# -- on nodes


def _formats(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    strange = next((p for p in entry.ports if p not in PORTS), None)
    if strange is not None or not entry.ports:
        raise OptionsError(f"{where}.ports: {strange or 'none'} is not a port.", nearest(strange or "", PORTS))
    values = sorted(formats_of(entry.values, f"{where}.values"), key=_bits)
    for name, nodes in _groups(entry, graph, lambda n: any(p in offered(n) for p in entry.ports), "given formats"
                               f" at {', '.join(entry.ports)}", where).items():  # fmt: skip
        there = tuple(p for p in entry.ports if any(p in offered(n) for n in nodes))
        label = name if entry.name else ".".join(filter(None, (name, "+".join(there))))
        yield Choice(label, "format", tuple(values), ordered=True, nodes=_ids(nodes), ports=there, fit=entry.fit)


def _bits(text: str) -> float:
    return FLOAT_BITS if text == FLOAT else parse_format(text).bits


def _sparsities(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    if entry.method not in get_args(Method):
        raise OptionsError(f"{where}.method is {entry.method!r}.", nearest(entry.method, get_args(Method)))
    plain = _numbers(entry, where)
    bounds = [v for v in (*plain.values, plain.low, plain.high) if v is not None]
    for value in bounds:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            raise OptionsError(f"{where}.values: {value!r} is no sparsity.", "It must be a number from 0 to 1.")
    for name, nodes in _groups(entry, graph, lambda n: prunable(n, graph), "pruned", where).items():
        label = name if entry.name else ".".join(filter(None, (name, "sparsity")))
        yield replace(plain, name=label, nodes=_ids(nodes), method=entry.method,
                      values=tuple(sorted(map(float, plain.values), reverse=True)),  # type: ignore[arg-type]
                      ordered=bool(plain.values))  # fmt: skip


def _identities(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    if graph.runs == "module":
        raise OptionsError(f"{where}: a recorded model cannot be given identities.", "Vary its formats.")
    for name, nodes in _groups(entry, graph, lambda n: _square(n, graph), "an identity (as many outputs as inputs)",
                               where).items():  # fmt: skip
        label = name if entry.name else ".".join(filter(None, (name, "identity")))
        yield Choice(label, "identity", (IDENTITY, LINEAR), ordered=True, nodes=_ids(nodes))


def _parallel(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    plain = _numbers(entry, where)
    bounds = [v for v in (*plain.values, plain.low, plain.high) if v is not None]
    for value in bounds:
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 1 or value % 1:
            raise OptionsError(f"{where}.values: {value!r} is no number of products.", "Write 1, 4, 16, 64.")
    purpose = "computed in parts by hardware"
    for name, nodes in _groups(entry, graph, lambda n: product_of(n, graph) is not None, purpose, where).items():
        label = name if entry.name else ".".join(filter(None, (name, "products")))
        yield replace(plain, name=label, nodes=_ids(nodes), whole=not plain.values, ordered=bool(plain.values),
                      values=tuple(sorted(int(v) for v in plain.values if v is not None)))  # fmt: skip


def _square(node: Node, graph: Graph) -> bool:
    name = weight_at(node, "weight", graph) if node.op == "linear" else None
    return name is not None and len(set(graph.weights[name].shape)) == 1


def _ids(nodes: list[Node]) -> tuple[str, ...]:
    return tuple(n.id for n in nodes)


def _groups(entry: Vary, graph: Graph, able: Any, purpose: str, where: str) -> dict[str, list[Node]]:
    """What is tied together by the name of its choice; what shares a weight always is."""
    try:
        nodes = chosen(graph, entry.select, able, purpose)
    except EspalierError as error:
        raise OptionsError(f"{where}.select: {error.message}", error.hint, error.node) from error
    firsts: dict[str, str] = {}
    found: dict[str, list[Node]] = {}
    for node in nodes:
        key = _key(entry, node)
        weight = weight_at(node, "weight", graph)
        key = firsts.setdefault(weight, key) if weight else key
        found.setdefault(key, []).append(node)
    return {" ".join(filter(None, (entry.name, key))): held for key, held in found.items()}


def _key(entry: Vary, node: Node) -> str:
    match entry.per:
        case "layer":
            return node.id
        case "type":
            return node.op
        case "module":
            path = node.target if node.call == "call_module" else node.module_path
            return ".".join(path.split(".")[: entry.depth]) or node.id
        case _:
            return "" if entry.name else "all"


# -- numbers and words


def _options(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    plain = _numbers(entry, where)
    try:
        place = parse_place(recipe, entry.key)
        for value in plain.values or (plain.low, plain.high):
            with_settings(recipe, [Setting(*place, value)])
    except EspalierError as error:
        raise OptionsError(f"{where}.key {entry.key}: {error.message}", error.hint) from error
    yield replace(plain, name=entry.name or entry.key, key=entry.key, whole=_whole(plain, recipe, place))


def _whole(plain: Choice, recipe: Recipe, place: tuple[int, str]) -> bool:
    """Whether only whole numbers between the limits will do: the option refuses what is between."""
    if plain.low is None or plain.high is None or not (plain.low.is_integer() and plain.high.is_integer()):
        return False
    try:
        with_settings(recipe, [Setting(*place, plain.low + 0.5)])
    except EspalierError:
        return True
    return False


def _configurations(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    if not entry.key:
        raise OptionsError(f"{where}.key: no key of the configuration is named.", "Write num_hidden_layers.")
    plain = _numbers(entry, where)
    whole = not plain.values and float(plain.low or 0).is_integer() and float(plain.high or 0).is_integer()
    yield replace(plain, name=entry.name or entry.key, key=entry.key, whole=whole)


_MAKERS: dict[str, Any] = {
    "format": _formats, "sparsity": _sparsities, "identity": _identities, "option": _options,
    "config": _configurations, "parallel": _parallel,
}  # fmt: skip


def _numbers(entry: Vary, where: str) -> Choice:
    """A choice of listed values, or of a number between two limits (whole ones where both are)."""
    if entry.values and (entry.low is not None or entry.high is not None):
        raise OptionsError(f"{where} has values and limits.", "Give one of them.")
    if entry.values:
        try:
            values: tuple[Plain, ...] = parse_values(entry.values)
        except EspalierError as error:
            raise OptionsError(f"{where}.values: {error.message}", error.hint) from error
        return Choice("", entry.kind, values)
    low, high = entry.low, entry.high
    if low is None or high is None or not low < high:
        raise OptionsError(f"{where} has no values to choose from.", "List values, or give low and a greater high.")
    if entry.log and low <= 0:
        raise OptionsError(f"{where}.low is {low:g}.", "On a logarithmic scale it must be above 0.")
    return Choice("", entry.kind, low=float(low), high=float(high), log=entry.log)


# -- conditions


def _conditional(
    choice: Choice, entry: Vary, found: dict[str, Choice], entries: dict[str, list[Choice]], where: str
) -> Choice:
    """The condition resolved to a choice before: one of that name, or the one of that entry on the same nodes."""
    if entry.when is None:
        return choice
    name = entry.when.name
    held = found.get(name) or _same(choice, entries.get(name, []))
    if held is None:
        hint = f"A condition names a choice that stands before it. {nearest(name, {*found, *entries})}"
        raise OptionsError(f"{where}.when: there is no choice {name!r} before it.", hint.strip())
    values = tuple(_as_in(held, v, where) for v in entry.when.values)
    if not values:
        raise OptionsError(f"{where}.when names no value.", "List those under which the entry exists.")
    return replace(choice, when=When(held.name, values))


def _same(choice: Choice, held: list[Choice]) -> Choice | None:
    if len(held) == 1:
        return held[0]
    return next((c for c in held if c.nodes and set(choice.nodes) <= set(c.nodes)), None)


def _as_in(choice: Choice, value: Any, where: str) -> Any:
    """A value of a condition as the choice has it: formats may be written in other words."""
    same = [v for v in choice.values if v == value or value_text(v) == value_text(value)]
    if not same and choice.kind == "format" and isinstance(value, str):
        same = [v for v in choice.values if isinstance(v, str) and _alike(value, v)]
    if not same:
        known = [value_text(v) for v in choice.values]
        raise OptionsError(f"{where}.when: {choice.name} is never {value!r}.", nearest(str(value), known))
    return same[0]


def _alike(written: str, value: str) -> bool:
    try:
        return formats_of(written) == (value,)
    except OptionsError:
        return False
