"""What the host does: constants that are known when a design is made, and the part of the graph before its inputs."""

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

    from espalier.model.torch.build import Callables

HOST = "values_for_hardware"
ENOUGH = -1e4  # what is added or filled in below this is a mask
LOOKS = ("sym_size", "new_ones", "new_zeros", "new_full", "new_empty", "ones_like", "zeros_like", "full_like")
CHANCE = ("rand", "dropout", "bernoulli", "multinomial")  # begin the names of ops that give other values each time


@dataclass(frozen=True, slots=True)
class Hosted:
    """A node that the host computes, and why. `able`: with formats it could be hardware."""

    node: str
    op: str
    why: str
    able: bool


def hosted(node: Node, known: Iterable[str]) -> Hosted:
    """Why a node stays on the host; `known`: the ops that have a template."""
    if node.op == "embedding":
        return Hosted(node.id, node.op, "looks up rows of a table; the design takes vectors", False)
    able = node.op in known and not spec(node.op).moves
    heavy = category(node) in ("linear", "matmul", "norm")
    hint = "; quantise it to have it in the design" if able and heavy else ""
    return Hosted(node.id, node.op, f"has no format, and only the host feeds it{hint}", able and heavy)


def constants(graph: Graph) -> frozenset[str]:
    """The nodes whose values hang on no input: stored tensors, positions, and what is computed of them alone."""
    found: set[str] = set()
    for node in graph:
        if node.call in ("placeholder", "output") or node.op.startswith(CHANCE):
            continue
        if node.call == "get_attr" or node.op in LOOKS or all(r.node in found for r in node.inputs):
            found.add(node.id)
    return frozenset(found)


def feeding(graph: Graph, wanted: Iterable[Ref]) -> Graph:
    """The graph of the nodes on which `wanted` hang, with those as its results.

    A tensor of which only the shape is asked is not computed: it is an input of its own, of any values.
    """
    refs = tuple(wanted)
    needed, todo, looked = set[str](), [r.node for r in refs], dict[str, TensorMeta]()
    while todo:
        node = graph.nodes[todo.pop()]
        if node.id in needed:
            continue
        needed.add(node.id)
        for k, ref in enumerate(node.inputs):
            meta = graph.nodes[ref.node].ports.get(out_port(ref.output))
            if node.op in LOOKS and not k and meta is not None and not ref.output:
                looked[ref.node] = meta
            else:
                todo.append(ref.node)
    shapes = {
        k: Node(k, "placeholder", "placeholder", k, ports={"data_out": m})
        for k, m in looked.items()
        if k not in needed and graph.nodes[k].call != "placeholder"
    }
    kept = {n.id: n for n in graph if n.call == "placeholder" or n.id in needed}
    out = Node(HOST, "output", "output", "output", refs)
    return replace(graph, nodes={**shapes, **kept, HOST: out}, structure="tuple", output_names=())


def blank(graph: Graph, names: Iterable[str], symbols: Mapping[str, int]) -> dict[str, Tensor]:
    """Zeros for inputs of a graph by their names."""
    import torch

    metas = {n.target: n.ports["data_out"] for n in graph.placeholders}
    return {k: torch.zeros(metas[k].sizes(dict(symbols)), dtype=getattr(torch, metas[k].dtype)) for k in names}


def value_of(graph: Graph, store: WeightStore, ref: Ref, symbols: Mapping[str, int],
             callables: Callables | None = None) -> np.ndarray:  # fmt: skip
    """The value of a constant, for one sample."""
    import torch

    from espalier.model.torch.build import build

    part = feeding(graph, (ref,))
    given = blank(part, (n.target for n in part.placeholders if "data_out" in n.ports), symbols)
    with torch.no_grad():
        found: Any = build(part, store, callables)(**given)
    value = found[0] if isinstance(found, tuple | list) else found
    return torch.as_tensor(value).detach().double().numpy()


def masks(graph: Graph, store: WeightStore, ref: Ref, symbols: Mapping[str, int]) -> bool:
    """Whether a tensor that the host computes is 0 or so low that nothing is left, as far as two samples tell."""
    import torch

    from espalier.model.errors import EspalierError
    from espalier.model.torch.build import build

    part, rng = feeding(graph, (ref,)), torch.Generator().manual_seed(0)
    for _ in range(2):
        given = blank(part, (n.target for n in part.placeholders if "data_out" in n.ports), symbols)
        for name, held in given.items():
            drawn = torch.rand(held.shape, generator=rng)
            given[name] = drawn if held.is_floating_point() else (drawn < 0.7).to(held.dtype)
        try:
            with torch.no_grad():
                found: Any = build(part, store)(**given)
        except (RuntimeError, EspalierError):
            return False
        value = torch.as_tensor(found[0] if isinstance(found, tuple | list) else found).double()
        if not bool(((value == 0) | (value <= ENOUGH)).all()):
            return False
    return True
