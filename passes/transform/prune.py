"""Pruning of weights by score and pattern, with exact counts. Only the mask is set; weights keep their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import view_at
from espalier.model.store.weights import Tensor
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.prune import PruneOptions, prunable
from espalier.passes.choices.pruning import WITH_DATA, Choice
from espalier.passes.pruning.live_masks import pruned
from espalier.passes.pruning.mask_changes import change
from espalier.passes.pruning.module_calls import all_calls
from espalier.passes.pruning.patterns import WHOLE, Found, Scored, mask, masks
from espalier.passes.pruning.scores import Scores
from espalier.passes.pruning.structured_masks import Dropped, joined, last, named, structurally_dropped
from espalier.passes.running.splits import calibration_split, data_of
from espalier.passes.select import chosen, matches

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@transform("prune", "Prune", PruneOptions)
def prune(graph: Graph, options: PruneOptions, context: Context) -> tuple[Graph, Report]:
    """Mask the lowest-scoring weights of Linear and convolution nodes; ties by index. Sparsity 0 removes the mask.

    Exactly round(sparsity·elements) are masked. Pruning a node again replaces its mask, except for masked structures. x
    is a layer's input, g the gradient of the loss without masks:
    l1 |w| (Han et al. 2015, https://arxiv.org/abs/1506.02626); l2 w², which differs from l1 only in blocks;
    wanda |w|·‖x‖ (https://arxiv.org/abs/2306.11695; its paper compares within rows); snip |w·g|
    (https://arxiv.org/abs/1810.02340); movement −w·g (https://arxiv.org/abs/2005.07683);
    hessian w²·h/2 (LeCun et al. 1990, Optimal Brain Damage), h the empirical Fisher, Σg² of single samples
    (https://arxiv.org/abs/1801.05787): with the layer's own 2XXᵀ for h, it would be Wanda squared.
    """
    nodes = all_calls(chosen(graph, options.select, lambda n: prunable(n, graph), "pruned"), graph)
    layers = _layers(nodes, graph)
    shares = _shares(layers, options)
    dropped = {k: structurally_dropped(ns[0], graph.weights[k].shape, context.store) for k, ns in layers.items()}
    masks_ = _masks(graph, layers, shares, options, context, dropped)
    masks_ = {k: joined(m, dropped[k]) for k, m in masks_.items()}
    stored = {k: (context.store.hold(Tensor(m.bits, "uint8")) if m.zeros else None, m.zeros) for k, m in masks_.items()}
    names = {n.id: name for name, nodes_ in layers.items() for n in nodes_}
    choices = {name: _choice(name, shares, options) for name in layers}
    after = graph.replace(*(named(pruned(n, choices[names[n.id]], *stored[names[n.id]]), n) for n in nodes))
    rows = tuple(_row(n, after.nodes[n.id], graph, context) for n in nodes)
    distinct = {names[str(r["node"])]: r for r in rows}.values()  # a shared weight counts once
    zeros, total = sum(r["zeros"] for r in distinct), sum(r["elements"] for r in distinct)
    changed = {k: sum(r[k] for r in distinct) for k in ("dropped", "restored")}
    summary = {"zeros": zeros, "elements": total, "sparsity": zeros / max(total, 1), **changed}
    return after, Report("prune", rows, summary)


def _row(before: Node, node: Node, graph: Graph, context: Context) -> Row:
    """A row with the zeros, and the changes from the previous mask."""
    sparsity = node.sparsity.get("weight")
    elements, zeros = graph.weights[_weight(node, graph)].elements, sparsity.zeros if sparsity else 0
    changed = change(before.sparsity.get("weight"), sparsity, context.store)
    return {"node": node.id, "elements": elements, "zeros": zeros, "sparsity": zeros / max(elements, 1),
            **changed._asdict()}  # fmt: skip


def _weight(node: Node, graph: Graph) -> str:
    return weight_at(node, "weight", graph) or ""


def _layers(nodes: list[Node], graph: Graph) -> dict[str, list[Node]]:
    """Weight name → its nodes, which share one mask."""
    layers: dict[str, list[Node]] = {}
    for node in nodes:
        layers.setdefault(_weight(node, graph), []).append(node)
    return layers


def _shares(layers: dict[str, list[Node]], options: PruneOptions) -> dict[str, float]:
    """Weight name → sparsity of its budget; raises PassError for a budget without weights."""
    shares: dict[str, float] = {}
    for budget in options.budgets:
        names = [k for k, nodes in layers.items() if any(matches(n, budget.select) for n in nodes)]
        if not names:
            text = f"The budget of {budget.select.describe()} matches none of the nodes that are pruned."
            raise PassError(text, "Change its selection.")
        shares |= dict.fromkeys(names, budget.sparsity)
    return shares


def _choice(name: str, shares: dict[str, float], options: PruneOptions) -> Choice:
    return options.choice(shares.get(name))


# -- masks


def _masks(
    graph: Graph, layers: dict[str, list[Node]], shares: dict[str, float], options: PruneOptions, context: Context,
    dropped: dict[str, Dropped | None],
) -> dict[str, Found]:  # fmt: skip
    """The mask of each weight; weights of sparsity 0 are not scored."""
    targets = {k: nodes for k, nodes in layers.items() if shares.get(k, options.sparsity) and graph.weights[k].elements}
    result = dict.fromkeys(layers, WHOLE)
    if not targets:
        return result
    scores = Scores(graph, targets, options.method, _split(options, context), options.batch_size, context)
    is_global = options.scope == "global" and options.pattern != "n:m"
    ranked = [k for k in targets if k not in shares] if is_global else []
    local = [k for k in targets if k not in ranked]
    for i, name in enumerate(local):
        context.progress(i, len(local), f"pruning {name}")
        choice = _choice(name, shares, options)
        result[name] = mask(last(_scored(name, layers, graph, scores), dropped[name], choice.signed), choice)
    if ranked:
        context.progress(0, 1, "ranking all weights")
        signed = options.choice().signed
        parts = [last(_scored(k, layers, graph, scores), dropped[k], signed) for k in ranked]
        result |= dict(zip(ranked, masks(parts, options.choice()), strict=True))
    return result


def _scored(name: str, layers: dict[str, list[Node]], graph: Graph, scores: Scores) -> Scored:
    return Scored(scores.of(name), graph.weights[name].shape, view_at(layers[name][0], "weight"))


def _split(options: PruneOptions, context: Context) -> Split | None:
    if options.method not in WITH_DATA:
        return None
    options.ready()
    return calibration_split(data_of(options), context)
