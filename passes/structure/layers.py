"""Pruning of whole layers: scores, and masks of the residual branches of pre-norm layers."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import GraphError, PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sparsity
from espalier.passes.base import Context, Report, Row
from espalier.passes.select import Select, chosen, matches
from espalier.passes.structure.blocks import Block, Chain, chains
from espalier.passes.structure.masks import wholly_masked, with_mask
from espalier.passes.structure.scores import Amount, gradient_products
from espalier.passes.structure.sets import PORTS, stored

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

Values = NDArray[np.float64]


def selected_chains(graph: Graph, select: Select) -> list[Chain]:
    """The chains and blocks with a selected node; raises GraphError if there are none."""
    every = chains(graph)
    if not every:
        raise GraphError("This model has no repeated residual layers.", "Remove heads, neurons or channels instead.")
    inside = {i for c in every for b in c.blocks for i in b.nodes}
    chosen(graph, select, lambda n: n.id in inside, "removed as layers")

    def is_selected(block: Block) -> bool:
        return any(matches(graph.nodes[i], select) for i in block.nodes)

    selected = [replace(c, blocks=tuple(b for b in c.blocks if is_selected(b))) for c in every]
    return [c for c in selected if c.blocks]


def mask_layers(
    graph: Graph,
    select: Select,
    amount: Amount,
    like: Sparsity,
    split: Split | None,
    batch_size: int,
    context: Context,
) -> tuple[Graph, Report]:
    """Mask the last layers of the branches of the blocks with the lowest scores, so that they add 0."""  # fmt: skip
    selected = selected_chains(graph, select)
    total = {c.path: len(c.blocks) for c in chains(graph)}
    maskable = [(c, b) for c in selected for b in c.blocks if b.branches]
    if not maskable:
        raise GraphError(f"No layer of {selected[0].path} is a pure residual branch, so none can be masked.",
                         "Use Remove layers, which bypasses them.", selected[0].blocks[0].nodes[0])  # fmt: skip
    worth = block_worth(graph, [b for _, b in maskable], like.method, split, batch_size, context)
    rows, nodes = list[Row](), dict[str, Node]()
    for chain in selected:
        own = [(b, w) for (c, b), w in zip(maskable, worth, strict=True) if c is chain]
        ranked = sorted(own, key=lambda e: (not all(wholly_masked(graph.nodes[i], graph) for i in e[0].branches), e[1]))
        wanted = amount.count or round(amount.ratio * len(chain.blocks))
        gone = {b.number for b, _ in ranked[: min(wanted, total[chain.path] - 1)]}
        for block in chain.blocks:
            if block.number in gone:
                nodes |= {i: _fully_masked(graph.nodes[i], graph, like, context) for i in block.branches}
            rows.append(_row(chain, block, block.number in gone))
    summary = {"layers": len(rows), "gone": sum(bool(r["gone"]) for r in rows),
               "blocked": sum(not b.branches for c in selected for b in c.blocks)}  # fmt: skip
    return graph.replace(*nodes.values()), Report("prune_structured", tuple(rows), summary)


def _row(chain: Chain, block: Block, gone: bool) -> Row:
    note = "" if block.branches else block.why or "it is not a pure residual branch"
    return {"node": block.nodes[0], "kind": "layers", "units": f"{chain.path}.{block.number}", "gone": int(gone),
            "left": int(not gone), "nodes": len(block.branches), "note": note}  # fmt: skip


def _fully_masked(node: Node, graph: Graph, like: Sparsity, context: Context) -> Node:
    """A layer with its weight and bias fully masked."""
    for port, name in stored(node, graph).items():
        if port in PORTS:
            node = with_mask(node, port, np.zeros(graph.weights[name].shape, np.bool_), like, context.store)
    return node


# -- scores


def block_worth(
    graph: Graph, blocks: list[Block], how: str, split: Split | None, batch_size: int, context: Context
) -> list[float]:
    """A score for each block; the smallest are removed first."""
    if how == "random":
        seeds = [[context.seed % 2**63, zlib.crc32(b.nodes[0].encode())] for b in blocks]
        return [float(np.random.default_rng(s).random()) for s in seeds]
    if how == "activation":
        assert split is not None
        return influence(graph, blocks, split, batch_size, context)
    names = [[stored(graph.nodes[i], graph)["weight"] for i in b.branches] for b in blocks]
    if any(graph.weights[n].key is None for own in names for n in own):
        raise PassError("The model was opened without weights, so no layer can be chosen.", "Open it with weights.")
    if how == "taylor":
        assert split is not None
        return _taylor(graph, names, split, batch_size, context)
    return [sum(_magnitude(context.store.get(graph.weights[n].key or "").float32(), how) for n in own)
            for own in names]  # fmt: skip


def _magnitude(values: NDArray[np.float32], how: str) -> float:
    return float(np.abs(values).sum(dtype=np.float64)) if how == "l1" else float(np.linalg.norm(values))


def _taylor(graph: Graph, names: list[list[str]], split: Split, batch_size: int, context: Context) -> list[float]:
    """Mean over batches of |Σ g·w| over the last layers of a block's branches."""
    totals = np.zeros(len(names))
    every = list({n for own in names for n in own})
    for products, count in gradient_products(graph, every, split, batch_size, context):
        totals += count * np.abs([sum(float(products[n].sum()) for n in own) for own in names])
    return list(totals / max(len(split), 1))


def influence(graph: Graph, blocks: list[Block], split: Split, batch_size: int, context: Context) -> list[float]:
    """1 − mean cosine similarity of a block's input and result (ShortGPT, Men et al. 2024, arXiv:2403.03853)."""
    import torch

    from espalier.passes.running.observing import observe

    refs = {r.node for b in blocks for r in (b.source, b.result) if r is not None}
    ends = {b.result.node: (i, b.source.node) for i, b in enumerate(blocks) if b.source and b.result}
    seen: dict[str, Tensor] = {}
    total, count = np.zeros(len(blocks)), np.zeros(len(blocks))

    def sink(node: str, port: str, x: Tensor) -> None:
        if node in ends:
            number, source = ends[node]
            cosine = torch.cosine_similarity(seen[source].float().flatten(1), x.float().flatten(1), dim=-1)
            total[number] += float(cosine.double().sum())
            count[number] += len(cosine)
        seen[node] = x

    observe(graph, split, batch_size, {n: ("data_out",) for n in refs}, sink, context)
    return list(1 - total / np.maximum(count, 1))
