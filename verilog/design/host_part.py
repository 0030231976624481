"""The part of a graph that the host computes: constants folded at emission, and the nodes before the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import category, spec
from espalier.model.store.weights import WeightStore

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.torch.leaf_builder import Callables

HOST = "values_for_hardware"
MASKED = -1e4  # scores at or below this count as masked
SHAPE_ONLY = ("sym_size", "new_ones", "new_zeros", "new_full", "new_empty", "ones_like", "zeros_like", "full_like")
RANDOM = ("rand", "dropout", "bernoulli", "multinomial")  # prefixes of the names of random ops


@dataclass(frozen=True, slots=True)
class HostNode:
    """A node that the host computes, and the reason. `able`: with formats it could be hardware."""

    node: str
    op: str
    reason: str
    able: bool


def host_node(node: Node, supported: Iterable[str]) -> HostNode:
    """Explain why a node stays on the host; `supported`: the ops with a template."""
    if node.op == "embedding":
        return HostNode(node.id, node.op, "is a table lookup; the design takes its output vectors", False)
    able = node.op in supported and not spec(node.op).moves
    heavy = category(node) in ("linear", "matmul", "norm")
    hint = "; quantise it to include it in the design" if able and heavy else ""
    return HostNode(node.id, node.op, f"has no format, and all its inputs come from the host{hint}", able and heavy)


def constants(graph: Graph) -> frozenset[str]:
    """The nodes that depend on no input: stored tensors, positions, and everything computed from these alone."""
    names: set[str] = set()
    for node in graph:
        if node.call in ("placeholder", "output") or node.op.startswith(RANDOM):
            continue
        if node.call == "get_attr" or node.op in SHAPE_ONLY or all(r.node in names for r in node.inputs):
            names.add(node.id)
    return frozenset(names)


def ancestor_graph(graph: Graph, outputs: Iterable[Ref]) -> Graph:
    """The subgraph that computes `outputs`.

    A tensor of which only the shape is read is not computed: it becomes an input with arbitrary values.
    """
    refs = tuple(outputs)
    needed, todo, looked = set[str](), [r.node for r in refs], dict[str, TensorMeta]()
    while todo:
        node = graph.nodes[todo.pop()]
        if node.id in needed:
            continue
        needed.add(node.id)
        for k, ref in enumerate(node.inputs):
            meta = graph.nodes[ref.node].ports.get(out_port(ref.output))
            if node.op in SHAPE_ONLY and not k and meta is not None and not ref.output:
                looked[ref.node] = meta
            else:
                todo.append(ref.node)
    shapes = {
        k: Node(k, "placeholder", "placeholder", k, ports={"data_out": m})
        for k, m in looked.items()
        if k not in needed and graph.nodes[k].call != "placeholder"
    }
    ancestors = {n.id: n for n in graph if n.call == "placeholder" or n.id in needed}
    out = Node(HOST, "output", "output", "output", refs)
    return replace(graph, nodes={**shapes, **ancestors, HOST: out}, structure="tuple", output_names=())


def zero_inputs(graph: Graph, names: Iterable[str], symbols: Mapping[str, int]) -> dict[str, Tensor]:
    """Zero tensors for the named inputs of a graph."""
    import torch

    metas = {n.target: n.ports["data_out"] for n in graph.placeholders}
    return {k: torch.zeros(metas[k].sizes(dict(symbols)), dtype=getattr(torch, metas[k].dtype)) for k in names}


def constant_value(graph: Graph, store: WeightStore, ref: Ref, symbols: Mapping[str, int],
                   callables: Callables | None = None) -> np.ndarray:  # fmt: skip
    """The value of a constant, for one sample."""
    import torch

    from espalier.model.torch.build import build

    part = ancestor_graph(graph, (ref,))
    inputs = zero_inputs(part, (n.target for n in part.placeholders if "data_out" in n.ports), symbols)
    with torch.no_grad():
        result: Any = build(part, store, callables)(**inputs)
    value = result[0] if isinstance(result, tuple | list) else result
    return torch.as_tensor(value).detach().double().numpy()


def is_additive_mask(graph: Graph, store: WeightStore, ref: Ref, symbols: Mapping[str, int]) -> bool:
    """Whether a host tensor holds only 0 and values of at most MASKED, tested on two random samples."""
    import torch

    from espalier.model.errors import EspalierError
    from espalier.model.torch.build import build

    part, rng = ancestor_graph(graph, (ref,)), torch.Generator().manual_seed(0)
    for _ in range(2):
        inputs = zero_inputs(part, (n.target for n in part.placeholders if "data_out" in n.ports), symbols)
        for name, zeros in inputs.items():
            noise = torch.rand(zeros.shape, generator=rng)
            inputs[name] = noise if zeros.is_floating_point() else (noise < 0.7).to(zeros.dtype)
        try:
            with torch.no_grad():
                result: Any = build(part, store)(**inputs)
        except (RuntimeError, EspalierError):
            return False
        value = torch.as_tensor(result[0] if isinstance(result, tuple | list) else result).double()
        if not bool(((value == 0) | (value <= MASKED)).all()):
            return False
    return True
