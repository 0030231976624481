"""Checks a search before any trial runs, from the graph alone, so that forms and command lines report errors early."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.passes.costs.base import COSTS, figures, with_candidate
from espalier.passes.costs.hardware import AREAS, every_ours
from espalier.passes.costs.limits import Limit
from espalier.passes.costs.parallel import with_products
from espalier.passes.score import Scorer
from espalier.passes.search.format_lists import FLOAT, format_of
from espalier.passes.search.goals import KL, Wanted, is_measured
from espalier.passes.search.space import Choice, Space, values_of
from espalier.passes.search.spec import SearchSpec, trains
from espalier.passes.sensitivity.table import Candidate
from espalier.passes.tasks.base import all_metrics

SLACK = 0.02  # relative error of the lower bound where block or row scales depend on shapes
EXACT_SLACK = 1e-9  # the same of sums of floats
LOOSEN = "Loosen it, or let more layers, cheaper formats or more pruning compete."


def check_spec(spec: SearchSpec, want: Wanted, recipe: Recipe) -> None:
    """Raise OptionsError for a pruner, a sampler or data that do not match the goals."""
    train = trains(spec, recipe)
    if want.measured and not spec.score.data:
        names = ", ".join(n for n in want.figures if is_measured(n) or COSTS.get(n).measure)
        raise OptionsError(f"{names} cannot be measured: no data are named.", "Name some: demo:reviews, a file, hub:….")
    if list(spec.rungs) != sorted(set(spec.rungs)) or any(r < 1 for r in spec.rungs):
        raise OptionsError(f"rungs are {list(spec.rungs)}.", "List growing numbers of samples, such as 64, 256.")
    check_pruner(spec, want, train)
    if spec.begin_at == "best" and not train:
        raise OptionsError("Inheriting weights needs a trial that trains.",
                           'Let them train (train = "after"), or leave begin_at out.')  # fmt: skip
    if spec.sampler == "cmaes" and len(spec.goals) > 1 and not spec.summed:
        raise OptionsError("The sampler cmaes takes one goal.", "Sum the goals, or take nsga2.")
    if spec.terminator and len(spec.goals) > 1 and not spec.summed:
        raise OptionsError("The terminator supports a single objective.", "Sum the goals, or set patience.")


def check_pruner(spec: SearchSpec, want: Wanted, trains: bool = False) -> None:
    """Raise OptionsError if the pruner does not support these goals. `trains`: trials report figures while training."""
    if spec.pruner == "none":
        return
    if len(want.directions) > 1:
        raise OptionsError(f"The pruner {spec.pruner} compares one figure, and there are {len(want.goals)} goals.",
                           "Sum the goals, leave one, or take the pruner none.")  # fmt: skip
    if spec.pruner == "threshold":
        _check_threshold(spec)
    metrics = all_metrics()
    measured = [n for g in want.goals if (n := g.figure) == KL or (n in metrics and metrics[n].by_sample)]
    if not measured or (spec.pruner == "rungs" and len(want.goals) > 1):
        raise OptionsError(f"The pruner {spec.pruner} needs one goal that grows with the samples: accuracy, loss, kl.",
                           "Take the pruner none.")  # fmt: skip
    if spec.pruner == "rungs" and not spec.rungs:
        raise OptionsError("The pruner rungs has no rungs.", "List numbers of samples: rungs = [64, 256].")
    if not (spec.rungs or trains):
        raise OptionsError(f"The pruner {spec.pruner} gets no intermediate results: there are no rungs.",
                           "List numbers of samples, rungs = [64, 256], or take the pruner none.")  # fmt: skip


def _check_threshold(spec: SearchSpec) -> None:
    bounds = [b for b in (spec.lower, spec.upper) if b is not None]
    if not bounds:
        raise OptionsError("The pruner threshold has no bound.", "Give lower = 0.6 for accuracy, upper = 2 for a loss.")
    if not all(map(math.isfinite, bounds)) or (len(bounds) == 2 and bounds[0] >= bounds[1]):
        raise OptionsError(f"The pruner threshold ends what is below {spec.lower} or above {spec.upper}: all of it.",
                           "Let lower be less than upper.")  # fmt: skip


def check_grid(spec: SearchSpec, space: Space) -> None:
    """Raise OptionsError for a grid over a continuous choice."""
    for choice in space.choices if spec.sampler == "grid" else ():
        try:
            values_of(choice)
        except OptionsError as error:
            raise OptionsError(f"A grid needs listed values: {error.message}", error.hint) from error


# -- limits


def check_limits(space: Space, graph: Graph, want: Wanted) -> None:
    """Raise OptionsError for a limit that the cheapest configuration exceeds, naming the least possible value.

    The same for an area as goal or limit if a plug-in brings hardware: that figure would be undefined.
    """
    if AREAS.intersection(want.figures):
        every_ours(graph)
    limits = [x for x in want.limits if x.figure in COSTS and COSTS.get(x.figure).of and x.side == _good(x.figure)]
    if not limits or not all(c.kind in ("format", "sparsity", "parallel") for c in space.choices):
        return
    costs = _cheapest_costs(space, graph)
    slack = SLACK if _depends_on_shapes(space) else EXACT_SLACK
    for limit in (x for x in limits if all(x.figure in c for c in costs)):
        value = min((c[limit.figure] for c in costs), key=limit.violation)
        if limit.violation(value) > slack:
            raise OptionsError(_exceeded(limit, value, slack == SLACK), LOOSEN)


_last: list[tuple[Space, Graph, list[dict[str, float]]]] = []  # while a limit is typed, space and graph are the same


def _cheapest_costs(space: Space, graph: Graph) -> list[dict[str, float]]:
    """The costs of the cheapest graphs, cached for the last space."""
    if not _last or _last[0][1] is not graph or _last[0][0].choices != space.choices:
        _last[:] = [(space, graph, [figures(g, Scorer().score(g)) for g in _cheapest(space, graph)])]
    return _last[0][2]


def _good(figure: str) -> str:
    return "<=" if COSTS.get(figure).better == "low" else ">="


def _exceeded(limit: Limit, value: float, rough: bool) -> str:
    low = limit.side == "<="
    about = "about " if rough else ""
    digits = max(4, math.ceil(math.log10(abs(value) + 1)))
    return f"{limit.text} cannot be held: the {'least' if low else 'most'} possible is {about}{value:.{digits}g}."


def _depends_on_shapes(space: Space) -> bool:
    """Whether the bits of a format depend on its tensor's shape, so that the cheapest one is only approximate."""
    texts = {str(v) for c in space.choices if c.kind == "format" for v in c.values if v != FLOAT}
    formats = [f for t in texts if (f := format_of(t)) is not None]
    return any(isinstance(f, ScaledFormat) or "block" in {x.name for x in fields(f)} for f in formats)


def _cheapest(space: Space, graph: Graph) -> Iterator[Graph]:
    """The cheapest graphs: with the most pruned, and with the least, as masks take bits. Conditions are ignored."""
    best = {p: min(options, key=lambda c: c.format.bits if c.format else math.inf)
            for p, options in _offered(space, graph).items()}  # fmt: skip
    shares = _shares(space)
    for pick in (max, min) if shares else (max,):
        nodes: dict[str, Node] = {}
        for (name, port), candidate in best.items():
            nodes[name] = with_candidate(nodes.get(name, graph.nodes[name]), port, candidate)
        for name, (method, values) in shares.items():
            node = nodes.get(name, graph.nodes[name])
            precision = node.precision.get("weight")
            pruned = Candidate(precision.format if precision else None, pick(values), method)
            nodes[name] = replace(with_candidate(node, "weight", pruned), precision=node.precision)
        yield from _at_ends(space, graph.replace(*nodes.values()))


def _at_ends(space: Space, graph: Graph) -> Iterator[Graph]:
    """The graph with the least parallelism (the smallest) and with the most (the fastest)."""
    products = {n: _products(c) for c in space.choices if c.kind == "parallel" for n in c.nodes if n in graph.nodes}
    for pick in (min, max) if products else (min,):
        yield graph.replace(*(with_products(graph.nodes[n], graph, pick(v)) for n, v in products.items()))


def _products(choice: Choice) -> list[int]:
    default = [1] if choice.when else []
    return default + [int(v) for v in (choice.values or (choice.low, choice.high)) if v is not None]


def _offered(space: Space, graph: Graph) -> dict[tuple[str, str], list[Candidate]]:
    """(node, port) → candidate formats; if all are conditional, the present format too."""
    options: dict[tuple[str, str], list[Candidate]] = {}
    always: set[tuple[str, str]] = set()
    for choice in space.choices:
        for ref in _ports(choice, graph) if choice.kind == "format" else ():
            options.setdefault(ref, []).extend(_candidates(choice))
            always |= set() if choice.when else {ref}
    for node, port in set(options) - always:
        precision = graph.nodes[node].precision.get(port)
        options[node, port].append(Candidate(precision.format if precision else None))
    return options


def _ports(choice: Choice, graph: Graph) -> Iterator[tuple[str, str]]:
    for name in choice.nodes:
        yield from ((name, p) for p in choice.ports if name in graph.nodes and p in graph.nodes[name].ports)


def _candidates(choice: Choice) -> list[Candidate]:
    return [Candidate(format_of(str(v))) if v != FLOAT else Candidate() for v in choice.values]


def _shares(space: Space) -> dict[str, tuple[str, list[float]]]:
    """Node → (method, possible sparsities of its weight)."""
    shares: dict[str, tuple[str, list[float]]] = {}
    for choice in space.choices if space.choices else ():
        if choice.kind != "sparsity":
            continue
        values = [float(v) for v in (choice.values or (choice.low, choice.high)) if v is not None]
        for name in choice.nodes:
            shares.setdefault(name, (choice.method, [0.0] if choice.when else []))[1].extend(values)
    return shares
