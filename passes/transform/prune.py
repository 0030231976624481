"""Unstructured magnitude and random pruning of weights, with exact counts. The mask is kept, the weight too."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from model.errors import OptionsError, PassError
from model.graph import Graph, Node
from model.meta import Sparsity
from model.ops import category
from passes.base import Context, Report, Row, transform
from passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor

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


def prunable(node: Node) -> bool:
    """Linear and convolution modules have a weight that can be pruned."""
    return category(node) == "linear" and "weight" in node.weights


@transform("prune", "Prune", PruneOptions)
def prune(graph: Graph, options: PruneOptions, context: Context) -> tuple[Graph, Report]:
    """Mask the smallest (l1) or random weights of Linear and convolution nodes.

    l1: Han et al. 2015, https://arxiv.org/abs/1506.02626. Exactly round(sparsity·elements) elements go;
    ties go by index. A second pruning of a node replaces its mask. 0 removes the mask.
    """
    nodes = chosen(graph, options.select, prunable, "pruned")
    masks = (_local if options.scope == "local" else _global)(graph, nodes, options, context)
    after = graph.replace(*(_with(n, masks[n.weights["weight"]], options) for n in nodes))
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
    elements, zeros = graph.weights[node.weights["weight"]].elements, held.zeros if held else 0
    return {"node": node.id, "elements": elements, "zeros": zeros, "sparsity": zeros / max(elements, 1)}


def _names(nodes: list[Node]) -> list[str]:
    """Weight names once each: tied weights get one mask."""
    return list(dict.fromkeys(n.weights["weight"] for n in nodes))


def _score(graph: Graph, name: str, options: PruneOptions, context: Context) -> Tensor:
    """Importance of each element, flat float32 on the CPU; the smallest go first."""
    import torch

    from model.trace.tensors import to_torch

    key = graph.weights[name].key
    if key is None:
        raise PassError("The model was opened without weights, so there is nothing to prune.", "Open it with weights.")
    if options.method == "random":
        seed = context.seed * 0x9E3779B1 + zlib.crc32(name.encode())
        return torch.rand(graph.weights[name].elements, generator=torch.Generator().manual_seed(seed % 2**63))
    score = to_torch(context.store.get(key)).reshape(-1).float().abs()
    if score.numel() and not bool(torch.isfinite(score.max())):
        raise PassError(f"The weight {name} holds values that are not finite.", "Load a sound checkpoint.")
    return score


def _keep(score: Tensor, count: int) -> Tensor:
    """Bool mask that drops exactly the `count` smallest scores, ties by index."""
    import torch

    if count <= 0:
        return torch.ones_like(score, dtype=torch.bool)
    if count >= score.numel():
        return torch.zeros_like(score, dtype=torch.bool)
    limit = torch.kthvalue(score, count).values
    keep = score > limit
    spare = score.numel() - count - int(keep.sum())
    if spare:
        ties = (score == limit).nonzero().squeeze(1)
        keep[ties[len(ties) - spare :]] = True
    return keep


def _store(keep: Tensor, context: Context) -> Mask:
    from model.layers import pack_mask
    from model.trace.tensors import to_numpy

    zeros = keep.numel() - int(keep.sum())
    return (context.store.hold(to_numpy(pack_mask(keep))), zeros) if zeros else (None, 0)


def _local(graph: Graph, nodes: list[Node], options: PruneOptions, context: Context) -> dict[str, Mask]:
    masks: dict[str, Mask] = {}
    names = _names(nodes)
    for i, name in enumerate(names):
        context.progress(i, len(names), f"pruning {name}")
        count = round(options.sparsity * graph.weights[name].elements)
        masks[name] = _store(_keep(_score(graph, name, options, context), count), context) if count else (None, 0)
    return masks


def _global(graph: Graph, nodes: list[Node], options: PruneOptions, context: Context) -> dict[str, Mask]:
    import torch

    names = _names(nodes)
    sizes = [graph.weights[n].elements for n in names]
    count = round(options.sparsity * sum(sizes))
    if not count:
        return dict.fromkeys(names, (None, 0))
    context.progress(0, 1, "ranking all weights")
    keep = _keep(torch.cat([_score(graph, n, options, context) for n in names]), count)
    return {n: _store(part, context) for n, part in zip(names, keep.split(sizes), strict=True)}
