"""The rules of a valid graph, checked after every pass and when a file is opened."""

from __future__ import annotations

import contextlib
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.adapters import PORT, adaptable, shapes
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Dim
from espalier.model.graph.ops import base_port, keeps_shape, quantisable
from espalier.model.graph.ports import weight_at


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a node; an error makes the graph invalid, a warning does not."""

    node: str | None
    message: str
    severity: Literal["error", "warning"] = "error"


Rule = Callable[[Graph], Iterator[Problem]]
_PLAIN = re.compile(r"""[^"'`\\\x00-\x1f\x7f]+""")
_CALLS = ("placeholder", "get_attr", "call_module", "call_function", "opaque", "output")


def _sources_exist(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        for ref in node.inputs:
            if ref.node not in graph.nodes:
                yield Problem(node.id, f"{node.id} takes the output of {ref.node}, which does not exist.")


def _order(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for node in graph:
        for ref in node.inputs:
            if ref.node in graph.nodes and ref.node not in seen:
                yield Problem(node.id, f"{node.id} is before its input {ref.node}.")
        seen.add(node.id)


def _outputs_exist(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        for ref in node.inputs:
            source = graph.nodes.get(ref.node)
            if source and not 0 <= ref.output < (source.outputs or 1):
                yield Problem(node.id, f"{node.id} takes output {ref.output} of {ref.node}, which has no such output.")


def _one_output(graph: Graph) -> Iterator[Problem]:
    ends = [n.id for n in graph if n.call == "output"]
    if len(ends) != 1:
        yield Problem(None, f"The graph has {len(ends)} output nodes; it needs one.")
    elif not graph.output.args:
        yield Problem(ends[0], "The output has no value.")
    elif graph.structure != "tensor" and len(set(graph.output_names)) != len(graph.output.args):
        yield Problem(ends[0], "The output does not have a distinct name for each value.")


def _ids_match(graph: Graph) -> Iterator[Problem]:
    for name, node in graph.nodes.items():
        if name != node.id:
            yield Problem(name, f"Node {name} has the id {node.id}.")
        if node.call not in _CALLS:
            yield Problem(name, f"{name} has the unknown call {node.call!r}.")


def _weights_exist(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        for port, name in node.weights.items():
            if name not in graph.weights:
                yield Problem(node.id, f"{node.id}.{port} names the weight {name}, which does not exist.")
    yield from _scales_exist(graph, graph)


def _scales_exist(graph: Graph, nodes: Iterable[Node]) -> Iterator[Problem]:
    for node in nodes:
        for port, chosen in node.precision.items():
            if chosen.scale is None:
                continue
            if chosen.scale not in graph.weights:
                yield Problem(node.id, f"The scale of {node.id}.{port}, {chosen.scale}, does not exist.")
            if not isinstance(chosen.format, ScaledFormat):
                yield Problem(node.id, f"{node.id}.{port} has a scale, but {chosen.format.name} takes none.")


def _adapters_fit(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        for port, adapter in node.adapters.items():
            if port != PORT or not adaptable(node, graph):
                yield Problem(node.id, f"{node.id} ({node.op}) cannot have an adapter on {port}.")
                continue
            if not (adapter.rank >= 1 and 0 <= adapter.dropout < 1 and math.isfinite(adapter.alpha)):
                yield Problem(node.id, f"The adapter of {node.id} has an invalid rank, dropout or alpha.")
                continue
            expected = shapes(node, graph.weights[weight_at(node, PORT, graph) or ""], adapter.rank)
            for name, shape in zip((adapter.a, adapter.b), expected, strict=True):
                weight = graph.weights.get(name)
                if weight is None:
                    yield Problem(node.id, f"The adapter of {node.id} names {name}, which does not exist.")
                elif weight.shape != shape:
                    yield Problem(node.id, f"{name} has the shape {weight.shape}, but {node.id} needs {shape}.")


def _calls_are_complete(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        if node.call == "get_attr" and "value" not in node.weights:
            yield Problem(node.id, f"{node.id} names no weight.")
        if node.call == "call_module" and graph.runs == "graph":
            if len(node.args) != 1 or not isinstance(node.args[0], Ref):
                yield Problem(node.id, f"{node.id} needs one input.")
            if not isinstance(node.attrs.get("class"), str):
                yield Problem(node.id, f"{node.id} names no class of module.")


def _names_are_plain(graph: Graph) -> Iterator[Problem]:
    """Names are used in generated Python code, so they must not contain any."""
    for node in graph:
        if not all(_PLAIN.fullmatch(t) for t in (node.id, node.target)):
            yield Problem(node.id, f"{node.id!r} has a name that cannot be used.")
        for key in (*node.kwargs, *((node.target,) if node.call == "placeholder" else ())):
            if not key.isidentifier() or keyword.iskeyword(key) or key == "self":
                yield Problem(node.id, f"{node.id} has an input called {key!r}, which cannot be used.")
    inputs = Counter(n.target for n in graph.placeholders)
    for node in graph.placeholders:
        if inputs[node.target] > 1:
            yield Problem(node.id, f"{inputs[node.target]} inputs have the name {node.target}.")


def _choices_have_ports(nodes: Iterable[Node]) -> Iterator[Problem]:
    for node in nodes:
        for port in node.precision:
            if port not in quantisable(node) and not (port in node.ports and base_port(port) in quantisable(node)):
                yield Problem(node.id, f"{node.id} ({node.op}) cannot have a precision on {port}.")
        for port in node.sparsity:
            if port not in node.ports:
                yield Problem(node.id, f"{node.id} has no port {port} to prune.")


def _symbols_known(graph: Graph) -> Iterator[Problem]:
    valid: set[tuple[Dim, ...]] = set()
    for node in graph:
        for port, meta in node.ports.items():
            if meta.shape in valid:
                continue
            try:
                meta.sizes(graph.symbols)
                valid.add(meta.shape)
            except (KeyError, ValueError, ZeroDivisionError) as error:
                yield Problem(node.id, f"{node.id}.{port} has a shape that cannot be evaluated ({error}).")


def _shapes_kept(graph: Graph) -> Iterator[Problem]:
    """Elementwise operations, and those along an axis, preserve the shape."""
    for node in graph:
        source, result = node.ports.get("data_in"), node.ports.get("data_out")
        if source is None or result is None or source.shape == result.shape or not keeps_shape(node.op):
            continue
        with contextlib.suppress(KeyError, ValueError, ZeroDivisionError):  # reported by _symbols_known
            if source.sizes(graph.symbols) != result.sizes(graph.symbols):
                shapes = f"{list(source.shape)} and gives {list(result.shape)}"
                yield Problem(node.id, f"{node.id} takes {shapes}, but {node.op} keeps the shape.")


def _opaque(graph: Graph) -> Iterator[Problem]:
    for node in graph:
        if node.call == "opaque" and graph.runs == "graph":
            yield Problem(node.id, f"{node.id} could not be captured; it runs its original code.", "warning")


RULES: tuple[Rule, ...] = (_ids_match, _sources_exist, _order, _outputs_exist, _one_output, _weights_exist,
                           _adapters_fit, _calls_are_complete, _names_are_plain, _choices_have_ports, _symbols_known,
                           _shapes_kept, _opaque)  # fmt: skip


def check(graph: Graph, before: Graph | None = None) -> list[Problem]:
    """All problems of a graph, errors first.

    `before`: a valid graph; if `graph` differs from it only in choices, only these are checked.
    """
    changed = before and _changed_choices(graph, before)
    if changed is not None:
        return [*_choices_have_ports(changed), *_scales_exist(graph, changed)]
    problems = [p for rule in RULES for p in rule(graph)]
    return sorted(problems, key=lambda p: p.severity != "error")


_FACTS = tuple(f.name for f in fields(Node) if f.name not in ("precision", "sparsity"))
_GRAPH_FACTS = tuple(f.name for f in fields(Graph) if f.name != "nodes")


def _changed_choices(graph: Graph, before: Graph) -> list[Node] | None:
    """The nodes with other choices than in `before`; None if anything else differs. By identity, so fast."""
    if len(graph) != len(before) or any(getattr(graph, f) is not getattr(before, f) for f in _GRAPH_FACTS):
        return None
    changed: list[Node] = []
    for (name, node), (other, old) in zip(graph.nodes.items(), before.nodes.items(), strict=True):
        if name != other or (node is not old and any(getattr(node, f) is not getattr(old, f) for f in _FACTS)):
            return None
        if node is not old:
            changed.append(node)
    return changed
