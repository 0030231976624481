"""What is wrong with a search before any trial runs, from the graph alone: forms and command lines tell it at once."""

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
from espalier.passes.search.goals import MEASURED, Wanted
from espalier.passes.search.space import Choice, Space, values_of
from espalier.passes.search.spec import SearchSpec, trains
from espalier.passes.sensitivity.table import Candidate

SLACK = 0.02  # what blocks and scales of rows may move the cheapest by
SUMS = 1e-9  # what sums of floats may
LOOSEN = "Loosen it, or let more layers, cheaper formats or more pruning compete."


def check_spec(spec: SearchSpec, want: Wanted, recipe: Recipe) -> None:
    """Raise OptionsError for a pruner, a sampler or data that do not go with the goals."""
    train = trains(spec, recipe)
    if want.measured and not spec.score.data:
        names = ", ".join(n for n in want.figures if n in MEASURED or COSTS.get(n).measure)
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
    """Raise OptionsError where the pruner cannot judge these goals. `trains`: trials show figures while they train."""
    if spec.pruner == "none":
        return
    if len(want.directions) > 1:
        raise OptionsError(f"The pruner {spec.pruner} compares one figure, and there are {len(want.goals)} goals.",
                           "Sum the goals, leave one, or take the pruner none.")  # fmt: skip
    if spec.pruner == "threshold":
        _check_threshold(spec)
    measured = [g.figure for g in want.goals if g.figure in MEASURED]
    if not measured or (spec.pruner == "rungs" and len(want.goals) > 1):
        raise OptionsError(f"The pruner {spec.pruner} needs one goal that grows with the samples: accuracy, loss, kl.",
                           "Take the pruner none.")  # fmt: skip
    if spec.pruner == "rungs" and not spec.rungs:
        raise OptionsError("The pruner rungs has no rungs.", "List numbers of samples: rungs = [64, 256].")
    if not (spec.rungs or trains):
        raise OptionsError(f"The pruner {spec.pruner} sees nothing of a trial before its end: there are no rungs.",
                           "List numbers of samples, rungs = [64, 256], or take the pruner none.")  # fmt: skip


def _check_threshold(spec: SearchSpec) -> None:
    bounds = [b for b in (spec.lower, spec.upper) if b is not None]
    if not bounds:
        raise OptionsError("The pruner threshold has no bound.", "Give lower = 0.6 for accuracy, upper = 2 for a loss.")
    if not all(map(math.isfinite, bounds)) or (len(bounds) == 2 and bounds[0] >= bounds[1]):
        raise OptionsError(f"The pruner threshold ends what is below {spec.lower} or above {spec.upper}: all of it.",
                           "Let lower be less than upper.")  # fmt: skip


def check_grid(spec: SearchSpec, space: Space) -> None:
    """Raise OptionsError where a grid has a number that may be any between two."""
    for choice in space.choices if spec.sampler == "grid" else ():
        try:
            values_of(choice)
        except OptionsError as error:
            raise OptionsError(f"A grid cannot be laid: {error.message}", error.hint) from error


# -- limits


def check_limits(space: Space, graph: Graph, want: Wanted) -> None:
    """Raise OptionsError for a limit that not even the cheapest of everything holds, with the least possible.

    So for an area as goal or limit, where a plug-in brings hardware: no trial would have that figure.
    """
    if AREAS.intersection(want.figures):
        every_ours(graph)
    limits = [x for x in want.limits if x.figure in COSTS and COSTS.get(x.figure).of and x.side == _good(x.figure)]
    if not limits or not all(c.kind in ("format", "sparsity", "parallel") for c in space.choices):
        return
    told = _told(space, graph)
    slack = SLACK if _rough(space) else SUMS
    for limit in (x for x in limits if all(x.figure in t for t in told)):
        value = min((t[limit.figure] for t in told), key=limit.violation)
        if limit.violation(value) > slack:
            raise OptionsError(_beyond(limit, value, slack == SLACK), LOOSEN)


_last: list[tuple[Space, Graph, list[dict[str, float]]]] = []  # while a limit is typed, all else is the same


def _told(space: Space, graph: Graph) -> list[dict[str, float]]:
    """The costs of the cheapest graphs; those of the last space are kept."""
    if not _last or _last[0][1] is not graph or _last[0][0].choices != space.choices:
        _last[:] = [(space, graph, [figures(g, Scorer().score(g)) for g in _cheapest(space, graph)])]
    return _last[0][2]


def _good(figure: str) -> str:
    return "<=" if COSTS.get(figure).better == "low" else ">="


def _beyond(limit: Limit, value: float, rough: bool) -> str:
    low = limit.side == "<="
    about = "about " if rough else ""
    digits = max(4, math.ceil(math.log10(abs(value) + 1)))
    return f"{limit.text} cannot be held: the {'least' if low else 'most'} possible is {about}{value:.{digits}g}."


def _rough(space: Space) -> bool:
    """Whether what a format takes hangs on the shape of its tensor, so that the cheapest is not known for sure."""
    texts = {str(v) for c in space.choices if c.kind == "format" for v in c.values if v != FLOAT}
    found = [f for t in texts if (f := format_of(t)) is not None]
    return any(isinstance(f, ScaledFormat) or "block" in {x.name for x in fields(f)} for f in found)


def _cheapest(space: Space, graph: Graph) -> Iterator[Graph]:
    """The graphs that no configuration is cheaper than: with the most pruned, and with the least, as masks take bits.

    Conditions are passed over: what may be chosen at a place counts, whatever it hangs on.
    """
    best = {p: min(held, key=lambda c: c.format.bits if c.format else math.inf)
            for p, held in _offered(space, graph).items()}  # fmt: skip
    shares = _shares(space)
    for pick in (max, min) if shares else (max,):
        nodes: dict[str, Node] = {}
        for (name, port), candidate in best.items():
            nodes[name] = with_candidate(nodes.get(name, graph.nodes[name]), port, candidate)
        for name, (method, values) in shares.items():
            node = nodes.get(name, graph.nodes[name])
            held = node.precision.get("weight")
            pruned = Candidate(held.format if held else None, pick(values), method)
            nodes[name] = replace(with_candidate(node, "weight", pruned), precision=node.precision)
        yield from _at_ends(space, graph.replace(*nodes.values()))


def _at_ends(space: Space, graph: Graph) -> Iterator[Graph]:
    """With the least and with the most computed at once: one is the smallest, the other the fastest."""
    free = {n: _whole_values(c) for c in space.choices if c.kind == "parallel" for n in c.nodes if n in graph.nodes}
    for pick in (min, max) if free else (min,):
        yield graph.replace(*(with_products(graph.nodes[n], graph, pick(held)) for n, held in free.items()))


def _whole_values(choice: Choice) -> list[int]:
    there = [1] if choice.when else []
    return there + [int(v) for v in (choice.values or (choice.low, choice.high)) if v is not None]


def _offered(space: Space, graph: Graph) -> dict[tuple[str, str], list[Candidate]]:
    """(node, port) → what formats may stand there; where all hang on conditions, what is there now too."""
    found: dict[tuple[str, str], list[Candidate]] = {}
    always: set[tuple[str, str]] = set()
    for choice in space.choices:
        for place in _places(choice, graph) if choice.kind == "format" else ():
            found.setdefault(place, []).extend(_candidates(choice))
            always |= set() if choice.when else {place}
    for place in set(found) - always:
        held = graph.nodes[place[0]].precision.get(place[1])
        found[place].append(Candidate(held.format if held else None))
    return found


def _places(choice: Choice, graph: Graph) -> Iterator[tuple[str, str]]:
    for name in choice.nodes:
        yield from ((name, p) for p in choice.ports if name in graph.nodes and p in graph.nodes[name].ports)


def _candidates(choice: Choice) -> list[Candidate]:
    return [Candidate(format_of(str(v))) if v != FLOAT else Candidate() for v in choice.values]


def _shares(space: Space) -> dict[str, tuple[str, list[float]]]:
    """Node → (method, the shares that may be pruned of its weight)."""
    found: dict[str, tuple[str, list[float]]] = {}
    for choice in space.choices if space.choices else ():
        if choice.kind != "sparsity":
            continue
        values = [float(v) for v in (choice.values or (choice.low, choice.high)) if v is not None]
        for name in choice.nodes:
            found.setdefault(name, (choice.method, [0.0] if choice.when else []))[1].extend(values)
    return found
