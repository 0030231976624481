"""Graph ↔ plain JSON, for project files and fingerprints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

from espalier.model.document.codec import decode, decode_arg, encode, encode_arg
from espalier.model.errors import FormatError, ProjectError, damage
from espalier.model.graph.annotation import MUTED, PLAIN, Annotation
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Adapter, Parallel, Precision, Sharding, Sparsity, TensorMeta, Weight
from espalier.model.graph.operands import refreshed
from espalier.model.graph.ops import CELLS, GROUPED
from espalier.model.graph.size_limit import SizeLimit
from espalier.model.symbols import holds

_TYPED: dict[str, Any] = {"ports": dict[str, TensorMeta], "precision": dict[str, Precision],
                          "sparsity": dict[str, Sparsity], "weights": dict[str, str],
                          "adapters": dict[str, Adapter]}  # fmt: skip
_DEFAULTS = {"parallel": None, "sharding": None, "packed": False, "arithmetic": "float", "annotation": PLAIN}
_TEXT = ("op", "call", "target", "module_path", "source")


def node_to_json(node: Node) -> dict[str, Any]:
    """Plain JSON of one node."""
    data: dict[str, Any] = {k: getattr(node, k) for k in _TEXT if getattr(node, k)}
    data["args"] = [encode_arg(a) for a in node.args]
    for name in ("kwargs", "attrs"):
        if getattr(node, name):
            data[name] = {k: encode_arg(v) for k, v in getattr(node, name).items()}
    for name in _TYPED:
        if getattr(node, name):
            data[name] = encode(getattr(node, name)) if name != "ports" else _ports(node.ports)
    if node.outputs is not None:
        data["outputs"] = node.outputs
    for name, default in _DEFAULTS.items():
        if getattr(node, name) != default:
            data[name] = encode(getattr(node, name))
    return data


def without_annotation(data: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a node without what a person wrote on it."""
    return {k: v for k, v in data.items() if k != "annotation"}


def _ports(ports: Mapping[str, TensorMeta]) -> dict[str, Any]:
    return {name: dict(_meta(meta)) for name, meta in ports.items()}


@lru_cache(4096)
def _meta(meta: TensorMeta) -> dict[str, Any]:
    """JSON of a tensor's shape and dtype, cached because most tensors of a model are alike."""
    return encode(meta)


def node_from_json(name: str, data: dict[str, Any]) -> Node:
    """One node; raises OptionsError, ValueError, LookupError or TypeError on foreign data."""
    values: dict[str, Any] = {k: decode(str, data[k], k) for k in _TEXT if k in data}
    values["args"] = tuple(decode_arg(a) for a in data.get("args", ()))
    for part in ("kwargs", "attrs"):
        values[part] = {str(k): decode_arg(v) for k, v in data.get(part, {}).items()}
    for part, kind in _TYPED.items():
        values[part] = decode(kind, data.get(part, {}), f"{name}.{part}")
    values["packed"] = decode(bool, data.get("packed", False), f"{name}.packed")
    values["arithmetic"] = decode(Literal["float", "hardware"], data.get("arithmetic", "float"), f"{name}.arithmetic")
    values["annotation"] = decode(Annotation, data.get("annotation", {}), f"{name}.annotation")
    values["parallel"] = decode(Parallel | None, data.get("parallel"), f"{name}.parallel")
    values["sharding"] = decode(Sharding | None, data.get("sharding"), f"{name}.sharding")
    if values["annotation"].muted and values.get("op") != MUTED:  # no identity stands for it: it computes
        values["annotation"] = replace(values["annotation"], muted=False)
    return Node(id=name, outputs=decode(int | None, data.get("outputs"), f"{name}.outputs"), **values)


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Plain JSON of a graph."""
    return {
        "nodes": {n.id: node_to_json(n) for n in graph},
        "weights": encode(graph.weights),
        "output_names": list(graph.output_names),
        "structure": graph.structure,
        "symbols": graph.symbols,
        "runs": graph.runs,
        **limits_to_json(graph),
    }


def limits_to_json(graph: Graph) -> dict[str, Any]:
    """The entry of limits of sizes, absent without any: so do older files and their fingerprints."""
    return {"limits": encode(graph.limits)} if graph.limits else {}


def _limits(data: Mapping[str, Any], symbols: Mapping[str, int]) -> tuple[SizeLimit, ...]:
    limits = tuple(decode(tuple[SizeLimit, ...], data.get("limits", []), "limits"))
    for limit in limits:
        holds(limit.condition, symbols)  # raises for what is no condition on these sizes
    return limits


def graph_from_json(data: dict[str, Any]) -> Graph:
    """A checked graph; raises ProjectError for an invalid one."""
    try:
        graph = Graph(
            nodes={str(k): node_from_json(str(k), v) for k, v in data["nodes"].items()},
            weights=cast("dict[str, Weight]", decode(dict[str, Weight], data["weights"], "weights")),
            output_names=tuple(decode(tuple[str, ...], data["output_names"], "output_names")),
            structure=decode(Literal["tensor", "tuple", "dict"], data["structure"], "structure"),
            symbols=decode(dict[str, int], data["symbols"], "symbols"),
            runs=decode(Literal["graph", "module"], data.get("runs", "graph"), "runs"),
            limits=_limits(data, decode(dict[str, int], data["symbols"], "symbols")),
        )
        graph = replace(graph, nodes={k: _with_named_ports(n, graph) for k, n in graph.nodes.items()})
        faults = [p for p in check(graph) if p.severity == "error"]
    except Exception as error:
        message, hint = f"The graph in the file is damaged: {damage(error)}.", "Open an older copy of it."
        if isinstance(error, FormatError) and "There is no format" in error.message:
            message = f"The graph in the file needs a number format that is not here: {damage(error)}."
            hint = "Load the plug-in that the format comes from."
        raise ProjectError(message, hint) from error
    if faults:
        raise ProjectError(f"The graph in the file is not legal: {faults[0].message}", "Open an older copy of it.")
    return graph


# Functions whose operands had numbers in graphs of before; a weight among them then had the format of data_in.
_NAMED_LATER = frozenset({*CELLS, *GROUPED, "bilinear", "addmv", "addbmm", "addr"})


def _with_named_ports(node: Node, graph: Graph) -> Node:
    """The node with the present names of its ports."""
    if (
        node.op not in _NAMED_LATER
        or node.call != "call_function"
        or any(r.node not in graph.nodes for r in node.inputs)
    ):
        return node
    named = refreshed(node, graph.nodes)
    chosen = node.precision.get("data_in")
    if chosen is None or "weight" in node.ports or "weight" not in named.ports:
        return named
    return replace(named, precision={**named.precision, "weight": replace(chosen, scale=None)})


def fingerprint(graph: Graph) -> str:
    """Content hash of a graph: equal for graphs that compute the same, whatever is written on them, in any process."""
    data = graph_to_json(graph)
    data["nodes"] = {name: without_annotation(node) for name, node in data["nodes"].items()}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
