"""Quantised layers that an ONNX file computes in float, each with the format that would change it."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled import TENSOR
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node

LAYERS = ("linear", "conv1d", "conv2d", "conv3d")
MOST = 8  # layers that are named
MOST_BITS = 8
ONE_SCALE = "scaled_integer(width=8, granularity=tensor)"
BY_CHANNEL = "scaled_integer(width=8, granularity=channel)"


def in_float_layers(graph: Graph, integers: frozenset[str]) -> Iterator[str]:
    """A sentence for each layer with formats of weight and input that no integer operator computes."""
    nodes = [
        n for n in graph if n.op in LAYERS and {"weight", "data_in"} <= set(n.precision) and n.target not in integers
    ]
    yield from (f"{n.id} computes in float: {_reason(n, graph)}." for n in nodes[:MOST])
    if len(nodes) > MOST:
        yield f"{len(nodes) - MOST} more quantised layers compute in float."


def _reason(node: Node, graph: Graph) -> str:
    data, weight = node.precision["data_in"], node.precision["weight"]
    if not _one_scale(data.format):
        return f"its input is {data.format.label}; {ONE_SCALE} has an integer operator"
    if not _by_channel(weight.format):
        return f"its weight is {weight.format.label}; {BY_CHANNEL} has an integer operator"
    if isinstance(data.format, ScaledInteger) and data.scale is None:
        return "its input takes its scale from the data; a static scale (calibrate) has an integer operator"
    if _rounded(node, graph):
        return "no integer operator of onnxruntime was found for it"
    return "its result is not rounded to 8 bits; a format of its data_out, or of the input of what follows, does that"


def _rounded(node: Node, graph: Graph) -> bool:
    """Whether its result, or the input of an operation that follows, has a format of 8 bits at most."""
    out = node.precision.get("data_out")
    formats = [out.format] if out is not None else []
    users, seen, waiting = graph.users(), {node.id}, [node.id]
    while waiting:
        for reader in (graph[i] for i in users[waiting.pop()]):
            if reader.id not in seen:
                seen.add(reader.id)
                if "data_in" in reader.precision:
                    formats.append(reader.precision["data_in"].format)
                elif len(reader.inputs) == 1 and not reader.weights:
                    waiting.append(reader.id)
    return any(map(_one_scale, formats))


def _one_scale(fmt: Format) -> bool:
    match fmt:
        case ScaledInteger(width=width):
            return width <= MOST_BITS and fmt.per == TENSOR
        case Integer(width=width):
            return width <= MOST_BITS
        case _:
            return False


def _by_channel(fmt: Format) -> bool:
    match fmt:
        case ScaledInteger(width=width, symmetric=symmetric, granularity=granularity):
            return width <= MOST_BITS and symmetric and granularity != "group"
        case Integer(width=width):
            return width <= MOST_BITS
        case _:
            return False
