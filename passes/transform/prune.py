"""Unstructured magnitude and random pruning of weights, with exact counts. The mask is kept, the weight too."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Literal

from model.errors import OptionsError, PassError
from model.graph import Graph, Node
from model.meta import Sparsity
from model.ops import category
from model.ports import weight_at
from model.weights import Tensor
from passes.base import Context, Report, Row, transform
from passes.ranking import Bits, Values, is_finite, keep_largest
from passes.select import Select, chosen

METHODS = ("l1", "random")


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """`sparsity` is the fraction of elements to zero: of each weight (local) or of all together (global)."""

    sparsity: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of elements to zero"})
    method: Literal["l1", "random"] = field(default="l1", metadata={"help": "which elements go first"})
    scope: Literal["local", "global"] = field(default="local", metadata={"help": "count per weight, or over all"})
    select: Select = field(default=Select("all"), metadata={"help": "which nodes"})

    def __post_init__(self) -> None:
        if not 0 <= self.sparsity <= 1:
            raise OptionsError(f"sparsity is {self.sparsity}.", "sparsity must be a number from 0 to 1.")


def prunable(node: Node, graph: Graph) -> bool:
    """Linear and convolution layers have a weight that can be pruned, and so have their functions over a stored one."""
    return category(node) == "linear" and node.call != "opaque" and weight_at(node, "weight", graph) is not None


@transform("prune", "Prune", PruneOptions)
def prune(graph: Graph, options: PruneOptions, context: Context) -> tuple[Graph, Report]:
    """Mask the smallest (l1) or random weights of Linear and convolution nodes.

    l1: Han et al. 2015, https://arxiv.org/abs/1506.02626. Exactly round(sparsity·elements) elements go;
    ties go by index. A second pruning of a node replaces its mask. 0 removes the mask.
    """
    nodes = chosen(graph, options.select, lambda n: prunable(n, graph), "pruned")
    masks = (_local if options.scope == "local" else _global)(graph, nodes, options, context)
    after = graph.replace(*(_with(n, masks[_weight(n, graph)], options) for n in nodes))
    rows = tuple(_row(after.nodes[n.id], graph) for n in nodes)
    zeros, total = sum(r["zeros"] for r in rows), sum(r["elements"] for r in rows)
    return after, Report("prune", rows, {"zeros": zeros, "elements": total, "sparsity": zeros / max(total, 1)})


Mask = tuple[str | None, int]


def _with(node: Node, mask: Mask, options: PruneOptions) -> Node:
    key, zeros = mask
    held = {k: v for k, v in node.sparsity.items() if k != "weight"}
    if key is not None:
        held["weight"] = Sparsity(options.method, options.sparsity, options.scope, key, zeros)
    return replace(node, sparsity=held)


def _row(node: Node, graph: Graph) -> Row:
    held = node.sparsity.get("weight")
    elements, zeros = graph.weights[_weight(node, graph)].elements, held.zeros if held else 0
    return {"node": node.id, "elements": elements, "zeros": zeros, "sparsity": zeros / max(elements, 1)}


def _weight(node: Node, graph: Graph) -> str:
    return weight_at(node, "weight", graph) or ""


def _names(nodes: list[Node], graph: Graph) -> list[str]:
    """Weight names once each: tied weights get one mask."""
    return list(dict.fromkeys(_weight(n, graph) for n in nodes))


def _values(graph: Graph, name: str, options: PruneOptions, context: Context) -> Values:
    """What the elements of a weight are ranked by, flat; the smallest magnitudes go first."""
    key = graph.weights[name].key
    if key is None:
        raise PassError("The model was opened without weights, so there is nothing to prune.", "Open it with weights.")
    if options.method == "random":
        import torch

        seed = context.seed * 0x9E3779B1 + zlib.crc32(name.encode())
        generator = torch.Generator().manual_seed(seed % 2**63)
        return torch.rand(graph.weights[name].elements, generator=generator).numpy()
    values = context.store.get(key).float32().reshape(-1)
    if not is_finite(values):
        raise PassError(f"The weight {name} holds values that are not finite.", "Load a sound checkpoint.")
    return values


def _store(found: tuple[Bits, int], context: Context) -> Mask:
    bits, zeros = found
    return (context.store.hold(Tensor(bits, "uint8")), zeros) if zeros else (None, 0)


def _local(graph: Graph, nodes: list[Node], options: PruneOptions, context: Context) -> dict[str, Mask]:
    masks: dict[str, Mask] = {}
    names = _names(nodes, graph)
    for i, name in enumerate(names):
        context.progress(i, len(names), f"pruning {name}")
        count = round(options.sparsity * graph.weights[name].elements)
        found = keep_largest([_values(graph, name, options, context)], count) if count else []
        masks[name] = _store(found[0], context) if found else (None, 0)
    return masks


def _global(graph: Graph, nodes: list[Node], options: PruneOptions, context: Context) -> dict[str, Mask]:
    names = _names(nodes, graph)
    count = round(options.sparsity * sum(graph.weights[n].elements for n in names))
    if not count:
        return dict.fromkeys(names, (None, 0))
    context.progress(0, 1, "ranking all weights")
    found = keep_largest([_values(graph, n, options, context) for n in names], count)
    return {n: _store(f, context) for n, f in zip(names, found, strict=True)}
