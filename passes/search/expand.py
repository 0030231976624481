"""Expands the entries of a search space to choices on one model: layers, values, conditions. No torch."""

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
from espalier.passes.choices.pruning import Method
from espalier.passes.choices.quantize import PORTS
from espalier.passes.costs.parallel import product_of
from espalier.passes.search.format_lists import FLOAT, formats_of
from espalier.passes.search.space import IDENTITY, LINEAR, Choice, Plain, Space
from espalier.passes.search.spec import SearchSpec, Vary, When
from espalier.passes.search.target import check_rest, limited
from espalier.passes.select import chosen
from espalier.passes.sweep.spec_text import parse_place
from espalier.passes.sweep.sweep import Setting, with_settings
from espalier.passes.sweep.values import parse_values, value_text
from espalier.passes.unpruned import prunable

MAX_CHOICES = 5000
FLOAT_BITS = 32.0


def expand(spec: SearchSpec, graph: Graph, recipe: Recipe) -> Space:
    """The space on `graph`, the result of the recipe; raises OptionsError with the path of the invalid entry.

    Binary points and exponent biases are not fitted yet: see `espalier.passes.search.fit`.
    """
    if not spec.space:
        raise OptionsError("The space is empty: nothing varies.", "Add an entry: layers and the formats to try.")
    choices: dict[str, Choice] = {}
    entries: dict[str, list[Choice]] = {}
    for i, entry in enumerate(spec.space):
        where = f"space[{i}]"
        made = limited(_choices(entry, graph, recipe, where), graph, spec.target)
        for choice in [_conditional(c, entry, choices, entries, where) for c in made]:
            unique = _unique(choice, choices)
            choices[unique.name] = unique
            entries.setdefault(entry.name or entry.kind, []).append(unique)
    if len(choices) > MAX_CHOICES:
        raise OptionsError(f"The space has {len(choices)} choices.", f"At most {MAX_CHOICES}: tie layers with `per`.")
    check_rest(choices.values(), graph, spec.target)
    return Space(tuple(choices.values()), score=spec.score)


def _unique(choice: Choice, choices: dict[str, Choice]) -> Choice:
    """The choice with a number added to its name if an earlier one has that name."""
    names = (f"{choice.name}{f' {i}' if i > 1 else ''}" for i in range(1, len(choices) + 2))
    return replace(choice, name=next(n for n in names if n not in choices))


def _choices(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> list[Choice]:
    return list(_MAKERS[entry.kind](entry, graph, recipe, where))


# -- on nodes


def _formats(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    invalid = next((p for p in entry.ports if p not in PORTS), None)
    if invalid is not None or not entry.ports:
        raise OptionsError(f"{where}.ports: {invalid or 'none'} is not a port.", nearest(invalid or "", PORTS))
    values = sorted(formats_of(entry.values, f"{where}.values"), key=_bits)
    for name, nodes in _groups(entry, graph, lambda n: any(p in offered(n) for p in entry.ports), "given formats"
                               f" at {', '.join(entry.ports)}", where).items():  # fmt: skip
        ports = tuple(p for p in entry.ports if any(p in offered(n) for n in nodes))
        label = name if entry.name else ".".join(filter(None, (name, "+".join(ports))))
        yield Choice(label, "format", tuple(values), ordered=True, nodes=_ids(nodes), ports=ports, fit=entry.fit)


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
    """Name of a choice → the nodes that it ties; nodes that share a weight are always tied."""
    try:
        nodes = chosen(graph, entry.select, able, purpose)
    except EspalierError as error:
        raise OptionsError(f"{where}.select: {error.message}", error.hint, error.node) from error
    by_weight: dict[str, str] = {}
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        key = _key(entry, node)
        weight = weight_at(node, "weight", graph)
        key = by_weight.setdefault(weight, key) if weight else key
        groups.setdefault(key, []).append(node)
    return {" ".join(filter(None, (entry.name, key))): tied for key, tied in groups.items()}


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


# -- numbers and listed values


def _options(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    plain = _numbers(entry, where)
    try:
        step_option = parse_place(recipe, entry.key)
        for value in plain.values or (plain.low, plain.high):
            with_settings(recipe, [Setting(*step_option, value)])
    except EspalierError as error:
        raise OptionsError(f"{where}.key {entry.key}: {error.message}", error.hint) from error
    yield replace(plain, name=entry.name or entry.key, key=entry.key, whole=_is_integer(plain, recipe, step_option))


def _is_integer(plain: Choice, recipe: Recipe, step_option: tuple[int, str]) -> bool:
    """Whether the option accepts integers only: both limits are integers, and a value between them is refused."""
    if plain.low is None or plain.high is None or not (plain.low.is_integer() and plain.high.is_integer()):
        return False
    try:
        with_settings(recipe, [Setting(*step_option, plain.low + 0.5)])
    except EspalierError:
        return True
    return False


def _configurations(entry: Vary, graph: Graph, recipe: Recipe, where: str) -> Iterator[Choice]:
    if not entry.key:
        raise OptionsError(f"{where}.key is empty.", "Name a configuration key, such as num_hidden_layers.")
    plain = _numbers(entry, where)
    whole = not plain.values and float(plain.low or 0).is_integer() and float(plain.high or 0).is_integer()
    yield replace(plain, name=entry.name or entry.key, key=entry.key, whole=whole)


_MAKERS: dict[str, Any] = {
    "format": _formats, "sparsity": _sparsities, "identity": _identities, "option": _options,
    "config": _configurations, "parallel": _parallel,
}  # fmt: skip


def _numbers(entry: Vary, where: str) -> Choice:
    """A choice of listed values, or of a number between two limits."""
    if entry.values and (entry.low is not None or entry.high is not None):
        raise OptionsError(f"{where} has both values and limits.", "Give one of them.")
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
    choice: Choice, entry: Vary, choices: dict[str, Choice], entries: dict[str, list[Choice]], where: str
) -> Choice:
    """The choice with its condition resolved to an earlier choice: one of that name, or of that entry on its nodes."""
    if entry.when is None:
        return choice
    name = entry.when.name
    leader = choices.get(name) or _on_same_nodes(choice, entries.get(name, []))
    if leader is None:
        hint = f"A condition names an earlier choice. {nearest(name, {*choices, *entries})}"
        raise OptionsError(f"{where}.when: there is no choice {name!r} before it.", hint.strip())
    values = tuple(_matching_value(leader, v, where) for v in entry.when.values)
    if not values:
        raise OptionsError(f"{where}.when names no value.", "List those under which the entry exists.")
    return replace(choice, when=When(leader.name, values))


def _on_same_nodes(choice: Choice, others: list[Choice]) -> Choice | None:
    if len(others) == 1:
        return others[0]
    return next((c for c in others if c.nodes and set(choice.nodes) <= set(c.nodes)), None)


def _matching_value(choice: Choice, value: Any, where: str) -> Any:
    """The choice's own form of a condition's value: a format has several notations."""
    same = [v for v in choice.values if v == value or value_text(v) == value_text(value)]
    if not same and choice.kind == "format" and isinstance(value, str):
        same = [v for v in choice.values if isinstance(v, str) and _alike(value, v)]
    if not same:
        values = [value_text(v) for v in choice.values]
        raise OptionsError(f"{where}.when: {choice.name} is never {value!r}.", nearest(str(value), values))
    return same[0]


def _alike(written: str, value: str) -> bool:
    try:
        return formats_of(written) == (value,)
    except OptionsError:
        return False
