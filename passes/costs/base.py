"""What a cost is: a figure of a whole configuration and, where it is a sum, what each node and each weight adds.

One file adds one: `COSTS.add(NAME, Cost(…))`, in this package or in a plug-in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, Sparsity, Weight
from espalier.model.graph.ops import category
from espalier.model.packed.layout import Use
from espalier.model.registry import Registry
from espalier.passes.score import Score
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.passes.base import Context

Better = Literal["low", "high"]
Floats = NDArray[np.float64]
PLANNED = "planned"  # the key of a mask that is not made yet
OTHERS = "other_programs"  # beside a measured time: the share of the processors that they took
FROM = ("espalier.passes.costs", "espalier.passes.sharding.communication")
COSTS: Registry[str, Cost] = Registry("cost", OptionsError, FROM)


@dataclass(frozen=True, slots=True)
class Shares:
    """A cost as a sum, so that a knapsack can weigh its parts.

    `node`: what a node adds, given the choices that it carries, of which only those at `ports` count. `weight`: what a
    stored weight adds, given how it is used. `figure` and `amount`: from the sum to the cost, and back; `falls`: the
    cost falls as the sum grows. `grid`: many choices at once (`table` below), where that is quicker than one by one.
    """

    node: Callable[[Node, Graph], float] | None = None
    ports: tuple[str, ...] = ()
    weight: Callable[[str, Weight, Sequence[Use]], float] | None = None
    figure: Callable[[float, Graph], float] = lambda total, graph: total
    amount: Callable[[float, Graph], float] = lambda figure, graph: figure
    falls: bool = False
    grid: Callable[[Node, Graph, Sequence[str], Sequence[Sequence[Candidate]]], Floats] | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost by name. `of`: its figure, from the graph and its static score.

    Where `of` is None it has to be measured: `measure` runs the graph on the data that `options` (an EvaluateOptions)
    name. `shares`: how it is a sum of parts; None where only a whole configuration has it.
    `finder`: the analysis that finds what the shares are made of, given `formats` and data; empty: nothing is needed.
    `settle`: of a cost that is no sum but the worst of its parts: the graph in which each part holds a limit, whatever
    its formats, and the step that leads there.
    """

    name: str
    title: str
    unit: str
    better: Better
    about: str
    of: Callable[[Graph, Score], float] | None
    shares: Shares | None = None
    measure: Callable[[Graph, Any, Context], float] | None = None
    finder: str = ""
    settle: Callable[[Graph, float], tuple[Graph, Step]] | None = None

    def __post_init__(self) -> None:
        if self.better not in get_args(Better):
            raise OptionsError(f"The cost {self.name} has better={self.better!r}.", "Give it 'low' or 'high'.")

    @property
    def sign(self) -> int:
        """+1 where a low sum of the shares is good, −1 where a high one is."""
        return 1 if (self.better == "low") != bool(self.shares and self.shares.falls) else -1


def cost(name: str) -> Cost:
    """The cost called `name`; raises OptionsError with the nearest."""
    return COSTS.get(name)


def measured(name: str, graph: Graph, options: Any, context: Context) -> dict[str, float]:
    """A cost that has to be run; beside a time also what other programs took meanwhile, since times are longer then."""
    from espalier.kernels.bench.other_load import OtherLoad

    held, watch = COSTS.get(name), OtherLoad()
    if held.measure is None:
        return {}
    found = {name: float(held.measure(graph, options, context))}
    share = watch.share() if held.unit == "s" else None
    return found if share is None else {**found, OTHERS: share}


def timed_beside(known: Mapping[str, float]) -> str:
    """That what was measured with these figures is the time of a busy machine; empty where it is not."""
    from espalier.kernels.bench.other_load import TELLING

    share = known.get(OTHERS, 0.0)
    return f"timed while other programs took {100 * share:.0f}\u2009% of the processors" if share >= TELLING else ""


def separable() -> tuple[Cost, ...]:
    """The costs that can be budgets of an allocation."""
    return tuple(c for _, c in COSTS.items() if c.shares is not None)


def figures(graph: Graph, score: Score) -> dict[str, float]:
    """All costs that need no run; one that is not known of this graph is left out."""
    found = {name: c.of(graph, score) for name, c in COSTS.items() if c.of is not None}
    return {name: value for name, value in found.items() if value == value}


def with_candidate(node: Node, port: str, candidate: Candidate) -> Node:
    """A node with a candidate at a port: the format is set, or taken away; a pruning is set, one of before stays.

    The mask of a pruning is only planned; its number of zeros is what a pruning of single elements gives.
    """
    precision = {p: c for p, c in node.precision.items() if p != port}
    if candidate.format is not None:
        precision[port] = Precision(candidate.format)
    sparsity = node.sparsity
    if candidate.sparsity:
        sparsity = {**sparsity, port: _planned(node, port, candidate)}
    return replace(node, precision=precision, sparsity=sparsity)


def _planned(node: Node, port: str, candidate: Candidate) -> Sparsity:
    ratio = candidate.sparsity
    if port != "weight" or category(node) != "linear":
        return Sparsity(candidate.method, ratio, "local", None, 0, "top_k")
    return Sparsity(candidate.method, ratio, "local", PLANNED, round(ratio * node.ports[port].elements({})))


def with_candidates(node: Node, choices: Mapping[str, Candidate]) -> Node:
    """A node with a candidate at each port."""
    for port, candidate in choices.items():
        node = with_candidate(node, port, candidate)
    return node


def table(
    shares: Shares, node: Node, graph: Graph, ports: Sequence[str], candidates: Sequence[Sequence[Candidate]]
) -> Floats:
    """What a node adds under every combination of candidates at some of its ports; an axis a port."""
    if shares.node is None:
        return np.zeros([len(c) for c in candidates])
    if shares.grid is not None:
        return shares.grid(node, graph, ports, candidates)
    found = [
        shares.node(with_candidates(node, dict(zip(ports, combination, strict=True))), graph)
        for combination in itertools.product(*candidates)
    ]
    return np.array(found, np.float64).reshape([len(c) for c in candidates])
