"""Serialisation of a graph in a packed file: a line of JSON per node and weight, compressed in chunks.

Chunks make the file size cheap to update after an edit: only those with changed lines are compressed again.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from espalier.model.borders import parse_json
from espalier.model.document.codec import encode
from espalier.model.document.graph_json import graph_from_json, limits_to_json, node_to_json, without_annotation
from espalier.model.errors import Damage
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight

LINES = 128
_WRITER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)  # created once: an edit writes hundreds of lines
MOST, RATIO, RATIO_FROM = 2**28, 100, 2**24  # maximum bytes of text; maximum compression ratio above RATIO_FROM bytes
Lines = tuple[str, ...]
Facts = Mapping[str, Any]


def first_line(graph: Graph) -> str:
    """The line of the graph without nodes and weights."""
    return _line("graph", "", {"output_names": list(graph.output_names), "structure": graph.structure,
                               "symbols": graph.symbols, "runs": graph.runs, **limits_to_json(graph)})  # fmt: skip


def node_line(node: Node) -> str:
    """The line of a node."""
    return _line("node", node.id, without_annotation(node_to_json(node)))  # annotations belong to the project


def weight_line(name: str, weight: Weight, tensors: Sequence[Facts]) -> str:
    """The line of a weight and the storage of its tensors, without its key: the values are in the file."""
    return _line("weight", name, {**encode(weight), "key": None}, *tensors)


def _line(kind: str, name: str, *data: Any) -> str:
    return _WRITER.encode([kind, name, *data])


def masks_of(node: Node) -> tuple[str, ...]:
    """The keys of the masks in a node's line."""
    return tuple(s.mask for s in node.sparsity.values() if s.mask is not None)


def labelled(lines: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """Lines with keys of masks replaced by numbers, so that the size of the file does not depend on their contents."""
    labels: dict[str, str] = {}
    for line, masks in lines:
        for key in masks:
            line = line.replace(f'"{key}"', f'"{labels.setdefault(key, f"m{len(labels)}")}"')
        yield line


def pieces(lines: Iterable[str]) -> Iterator[Lines]:
    """Chunks of lines that are compressed together."""
    left = iter(lines)
    while piece := tuple(itertools.islice(left, LINES)):
        yield piece


def compressed(piece: Lines) -> bytes:
    """A chunk as stored: a zlib stream."""
    return zlib.compress("".join(f"{line}\n" for line in piece).encode())


def graph_bytes(graph: Graph, tensors: Mapping[str, Sequence[Facts]]) -> bytes:
    """A graph as stored; `tensors`: the storage of each weight."""
    weights = (weight_line(n, w, tensors[n]) for n, w in graph.weights.items())
    nodes = labelled((node_line(n), masks_of(n)) for n in graph)
    return b"".join(map(compressed, pieces([first_line(graph), *nodes, *weights])))


def graph_of(data: bytes) -> tuple[Graph, dict[str, list[Any]]]:
    """The graph of `graph_bytes`, its weights without keys, and how each of these is stored; raises ProjectError or
    what foreign data makes Python raise."""
    parts: dict[str, dict[str, Any]] = {"graph": {}, "node": {}, "weight": {}}
    tensors: dict[str, list[Any]] = {}
    for line in _text(data).splitlines():
        kind, name, held, *facts = parse_json(line)
        parts[kind][name] = held
        if kind == "weight":
            tensors[name] = facts
    rest: Mapping[str, Any] = parts["graph"][""]
    return graph_from_json({**rest, "nodes": parts["node"], "weights": parts["weight"]}), tensors


def _text(data: bytes) -> str:
    found, size, most = list[bytes](), 0, min(MOST, max(RATIO_FROM, RATIO * len(data)))
    while data:
        stream = zlib.decompressobj()
        found.append(stream.decompress(data, max(most - size, 1)))
        size += len(found[-1])
        if not stream.eof:
            raise Damage("the graph is cut off or too long")
        data = stream.unused_data
    return b"".join(found).decode()
