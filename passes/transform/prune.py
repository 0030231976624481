"""Pruning of weights, with exact counts: what goes is scored, in a pattern. The mask is kept, the weight too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from espalier.model.errors import PassError
from espalier.model.graph import Graph, Node
from espalier.model.ops import category
from espalier.model.ports import weight_at
from espalier.model.views import view_at
from espalier.model.weights import Tensor
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.pruning.calls import all_calls
from espalier.passes.pruning.changes import change
from espalier.passes.pruning.choice import METHODS, MOST, WITH_DATA, Choice, Method, Pattern, Scope
from espalier.passes.pruning.live import pruned
from espalier.passes.pruning.patterns import WHOLE, Found, Scored, mask, masks
from espalier.passes.pruning.sample import sample
from espalier.passes.pruning.scores import Scores
from espalier.passes.pruning.standing import Dropped, joined, last, named, standing
from espalier.passes.select import Select, chosen, matches

if TYPE_CHECKING:
    from espalier.model.data.base import Split

# Beside which value (or which of several) of which other field a field applies: forms hide it else.
DATA = {"when": ("method", frozenset(WITH_DATA))}
NM, BLOCK, GLOBAL = {"when": ("pattern", "n:m")}, {"when": ("pattern", "block")}, {"when": ("scope", "global")}

__all__ = ["METHODS", "Budget", "PruneOptions", "prunable", "prune"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A share of their own for some nodes."""

    select: Select = field(default=Select("name"), metadata={"help": "which nodes"})
    sparsity: float = field(default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "their share; 0 leaves them whole"})


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """`sparsity` is the fraction of elements to zero: of each weight, of all together, or of each row."""

    sparsity: float = field(default=0.5, metadata={"min": 0.0, "max": 1.0, "help": "fraction of elements to zero"})
    method: Method = field(
        default="l1",
        metadata={"help": "which go first; wanda, snip, hessian and movement need data. movement after a few batches "
                          "is weak: its real form is the gradual pruning of a fine-tuning"},
    )  # fmt: skip
    scope: Scope = field(
        default="local", metadata={"help": "count per weight, over all, or per output row (as Wanda does)"}
    )
    select: Select = field(default=Select("all"), metadata={"help": "which nodes"})
    pattern: Pattern = field(
        default="element", metadata={"help": "single elements; n of every m kept, whatever the sparsity; whole blocks"}
    )
    n: int = field(default=2, metadata={"min": 1, "max": MOST, "help": "of n:m: so many are kept …", **NM})
    m: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "… of so many in a row", **NM})
    rows: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "of a block: outputs", **BLOCK})
    columns: int = field(default=4, metadata={"min": 1, "max": MOST, "help": "of a block: inputs", **BLOCK})
    least: float = field(
        default=0.0, metadata={"min": 0.0, "max": 1.0, "help": "global: at least this of each weight", **GLOBAL}
    )
    most: float = field(
        default=1.0, metadata={"min": 0.0, "max": 1.0, "help": "global: at most this of each weight", **GLOBAL}
    )
    budgets: tuple[Budget, ...] = field(
        default=(), metadata={"help": "other shares for some nodes; the last one holds"}
    )
    data: str = field(default="", metadata={"help": "for methods that need it: demo:NAME, hub:NAME, a file or a folder",
                                            "edit": "data", **DATA})  # fmt: skip
    split: str = field(default="train", metadata={"help": "never the one that is scored on", "edit": "split", **DATA})
    limit: int = field(default=128, metadata={"min": 0, "help": "at most so many samples; 0 = all", **DATA})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "samples that run at once", **DATA})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text", **DATA})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label", **DATA})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's", **DATA})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "longest text in tokens; 0 = what model and tokenizer take", **DATA}
    )

    def __post_init__(self) -> None:
        self.choice()

    def ready(self) -> None:
        """Raise PassError where data is needed and none is named; a form may hold it so, a run may not."""
        if self.method in WITH_DATA and not self.data and (self.sparsity or any(b.sparsity for b in self.budgets)):
            raise PassError(f"{self.method} scores weights on data, and none is named.",
                            "Name some, such as demo:reviews, or choose l1.")  # fmt: skip

    def choice(self, ratio: float | None = None) -> Choice:
        """What is asked of a weight, at its own `ratio` where it has one; raises OptionsError."""
        size = {"n:m": (self.n, self.m), "block": (self.rows, self.columns)}.get(self.pattern, (1, 1))
        return Choice(self.sparsity if ratio is None else ratio, self.method,
                      "local" if ratio is not None and self.scope == "global" else self.scope,
                      self.pattern, size, self.least, self.most)  # fmt: skip


def prunable(node: Node, graph: Graph) -> bool:
    """Linear and convolution layers have a weight that can be pruned, and so have their functions over a stored one."""
    return category(node) == "linear" and node.call != "opaque" and weight_at(node, "weight", graph) is not None


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
    stays = {k: standing(held[0], graph.weights[k].shape, context.store) for k, held in layers.items()}
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
    return sample(options, context)
