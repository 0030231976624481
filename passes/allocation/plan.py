"""An allocation as steps of a recipe, and as a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from espalier.model.document.recipe import Step
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.store.weights import WeightStore
from espalier.passes.allocation.decisions import PortRef
from espalier.passes.base import Context
from espalier.passes.choices.prune import Budget, PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.choices.quantize import PORTS, QuantizeOptions, Rule
from espalier.passes.costs.base import with_candidate
from espalier.passes.pruning.module_calls import all_calls
from espalier.passes.select import Select
from espalier.passes.sensitivity.table import Candidate
from espalier.passes.transform.quantize import quantize

Chosen = Mapping[PortRef, Candidate]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One candidate per port. `predicted`: sum of their divergences, in nats a sample; `figures`: all static costs of
    the resulting graph; `gap`: maximum relative distance from the optimum."""

    chosen: dict[PortRef, Candidate]
    predicted: float
    figures: dict[str, float]
    gap: float = 0.0


def steps(graph: Graph, chosen: Chosen, data: str = "") -> tuple[Step, ...]:
    """The steps of the choices: prunings first, then one quantisation with rules by name.

    `data`: for prunings whose scores need data.
    """
    return (*_prunings(graph, chosen, data), *_activations(graph, chosen), *_quantisation(graph, chosen))


def _prunings(graph: Graph, chosen: Chosen, data: str) -> list[Step]:
    """A step for each method, with budgets for nodes whose sparsity is not the most frequent."""
    methods: dict[str, dict[str, float]] = {}
    for (node, port), c in chosen.items():
        if c.sparsity and port == "weight" and category(graph[node]) == "linear":
            methods.setdefault(c.method, {})[node] = c.sparsity
    result: list[Step] = []
    for method, sparsities in methods.items():
        usual = Counter(sparsities.values()).most_common(1)[0][0]
        shares: dict[float, list[str]] = {}
        for node, share in sparsities.items():
            shares.setdefault(share, []).append(node)
        budgets = tuple(Budget(Select("name", tuple(n)), s) for s, n in sorted(shares.items()) if s != usual)
        options = PruneOptions(usual, select=Select("name", tuple(sparsities)), budgets=budgets, data=data)
        result.append(Step("prune", replace(options, method=method)))  # type: ignore[arg-type]
    return result


def _activations(graph: Graph, chosen: Chosen) -> list[Step]:
    shares: dict[tuple[str, float, str], list[str]] = {}
    for (node, port), c in chosen.items():
        if c.sparsity and not (port == "weight" and category(graph[node]) == "linear"):
            shares.setdefault((port, c.sparsity, c.method), []).append(node)
    result: list[Step] = []
    for (port, share, method), nodes in shares.items():
        options = PruneActivationsOptions(share, ports=(port,), select=Select("name", tuple(nodes)))
        result.append(Step("prune_activations", replace(options, method=method)))  # type: ignore[arg-type]
    return result


def _quantisation(graph: Graph, chosen: Chosen) -> list[Step]:
    rules = _rules(graph, chosen)
    return [Step("quantize", QuantizeOptions(rules))] if rules else []


def _rules(graph: Graph, chosen: Chosen) -> tuple[Rule, ...]:
    """Nodes with equal formats share a rule; float is a rule only for ports that have a format."""
    nodes: dict[str, dict[str, Format | None]] = {}
    for (node, port), c in chosen.items():
        if c.format is not None or port in graph[node].precision:
            nodes.setdefault(node, {})[port] = c.format
    groups: dict[tuple[tuple[str, Format | None], ...], list[str]] = {}
    for node, formats in nodes.items():
        key = tuple((p, formats[p]) for p in PORTS if p in formats)
        groups.setdefault(key, []).append(node)
    return tuple(Rule(Select("name", tuple(names)), dict(key)) for key, names in groups.items())


def configured(graph: Graph, chosen: Chosen) -> Graph:
    """The graph with the choices, without computing masks, for its static costs."""
    pruned: dict[str, Node] = {}
    for (node, port), c in chosen.items():
        if c.sparsity:
            for each in all_calls([graph[node]], graph):
                node_ = with_candidate(pruned.get(each.id, each), port, replace(c, format=None))
                pruned[each.id] = replace(node_, precision=each.precision)
    graph = graph.replace(*pruned.values())
    rules = _rules(graph, chosen)
    return quantize(graph, QuantizeOptions(rules), Context(WeightStore(Path())))[0] if rules else graph
