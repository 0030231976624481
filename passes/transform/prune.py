"""Pruning of weights, with exact counts: what goes is scored, in a pattern. The mask is kept, the weight too."""

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
from espalier.passes.running.splits import data_of, load_split
from espalier.passes.select import chosen, matches

if TYPE_CHECKING:
    from espalier.model.data.base import Split


@transform("prune", "Prune", PruneOptions)
def prune(graph: Graph, options: PruneOptions, context: Context) -> tuple[Graph, Report]:
    """Mask the weights of Linear and convolution nodes that score least; ties go by place. 0 removes the mask.

    Exactly round(sparsity·elements) go. A second pruning of a node replaces its mask, but for whole structures. x is
    what flows into a layer, g the gradient of the loss with all weights in place:
    l1 |w| (Han et al. 2015, https://arxiv.org/abs/1506.02626); l2 w², another order in blocks alone;
    wanda |w|·‖x‖ (https://arxiv.org/abs/2306.11695; its paper compares within rows); snip |w·g|
    (https://arxiv.org/abs/1810.02340); movement −w·g (https://arxiv.org/abs/2005.07683);
    hessian w²·h/2 (LeCun et al. 1990, Optimal Brain Damage), h the empirical Fisher, Σg² of single samples
    (https://arxiv.org/abs/1801.05787): with the layer's own 2XXᵀ for h, it would be Wanda squared.
    """
    nodes = all_calls(chosen(graph, options.select, lambda n: prunable(n, graph), "pruned"), graph)
    layers = _layers(nodes, graph)
    shares = _shares(layers, options)
    stays = {k: structurally_dropped(held[0], graph.weights[k].shape, context.store) for k, held in layers.items()}
    found = _found(graph, layers, shares, options, context, stays)
    found = {k: joined(f, stays[k]) for k, f in found.items()}
    kept = {k: (context.store.hold(Tensor(f.bits, "uint8")) if f.zeros else None, f.zeros) for k, f in found.items()}
    names = {n.id: name for name, held in layers.items() for n in held}
    choices = {name: _choice(name, shares, options) for name in layers}
    after = graph.replace(*(named(pruned(n, choices[names[n.id]], *kept[names[n.id]]), n) for n in nodes))
    rows = tuple(_row(n, after.nodes[n.id], graph, context) for n in nodes)
    own = {names[str(r["node"])]: r for r in rows}.values()  # a weight that several nodes share counts once
    zeros, total = sum(r["zeros"] for r in own), sum(r["elements"] for r in own)
    changed = {k: sum(r[k] for r in own) for k in ("dropped", "restored")}
    summary = {"zeros": zeros, "elements": total, "sparsity": zeros / max(total, 1), **changed}
    return after, Report("prune", rows, summary)


def _row(before: Node, node: Node, graph: Graph, context: Context) -> Row:
    """Zeros now, and what the mask before this step kept and dropped otherwise."""
    held = node.sparsity.get("weight")
    elements, zeros = graph.weights[_weight(node, graph)].elements, held.zeros if held else 0
    changed = change(before.sparsity.get("weight"), held, context.store)
    return {"node": node.id, "elements": elements, "zeros": zeros, "sparsity": zeros / max(elements, 1),
            **changed._asdict()}  # fmt: skip


def _weight(node: Node, graph: Graph) -> str:
    return weight_at(node, "weight", graph) or ""


def _layers(nodes: list[Node], graph: Graph) -> dict[str, list[Node]]:
    """Weight name → its nodes: tied weights get one mask."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(_weight(node, graph), []).append(node)
    return found


def _shares(layers: dict[str, list[Node]], options: PruneOptions) -> dict[str, float]:
    """The shares of the weights that a budget holds for; raises PassError for one that holds for none."""
    found: dict[str, float] = {}
    for budget in options.budgets:
        names = [k for k, nodes in layers.items() if any(matches(n, budget.select) for n in nodes)]
        if not names:
            text = f"The budget of {budget.select.describe()} matches none of the nodes that are pruned."
            raise PassError(text, "Change its selection.")
        found |= dict.fromkeys(names, budget.sparsity)
    return found


def _choice(name: str, shares: dict[str, float], options: PruneOptions) -> Choice:
    return options.choice(shares.get(name))


# -- masks


def _found(
    graph: Graph, layers: dict[str, list[Node]], shares: dict[str, float], options: PruneOptions, context: Context,
    stays: dict[str, Dropped | None],
) -> dict[str, Found]:  # fmt: skip
    """The mask of each weight; a weight that nothing is taken from is not looked at."""
    wanted = {k: nodes for k, nodes in layers.items() if shares.get(k, options.sparsity) and graph.weights[k].elements}
    found = dict.fromkeys(layers, WHOLE)
    if not wanted:
        return found
    scores = Scores(graph, wanted, options.method, _split(options, context), options.batch_size, context)
    together = [k for k in wanted if k not in shares] if options.scope == "global" and options.pattern != "n:m" else []
    alone = [k for k in wanted if k not in together]
    for i, name in enumerate(alone):
        context.progress(i, len(alone), f"pruning {name}")
        choice = _choice(name, shares, options)
        found[name] = mask(last(_scored(name, layers, graph, scores), stays[name], choice.signed), choice)
    if together:
        context.progress(0, 1, "ranking all weights")
        signed = options.choice().signed
        parts = [last(_scored(k, layers, graph, scores), stays[k], signed) for k in together]
        found |= dict(zip(together, masks(parts, options.choice()), strict=True))
    return found


def _scored(name: str, layers: dict[str, list[Node]], graph: Graph, scores: Scores) -> Scored:
    return Scored(scores.of(name), graph.weights[name].shape, view_at(layers[name][0], "weight"))


def _split(options: PruneOptions, context: Context) -> Split | None:
    if options.method not in WITH_DATA:
        return None
    options.ready()
    return load_split(data_of(options), context)
