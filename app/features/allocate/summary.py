"""One-line summary of an allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from espalier.app.features.allocate.state.allocation import Allocations, title_of
from espalier.app.features.allocate.state.measured import Measurement
from espalier.app.figures.curves import figure_text, figure_title
from espalier.app.number_text import figure, percent
from espalier.app.translation import tr
from espalier.model.document.recipe import Recipe
from espalier.passes.allocation.decisions import PortRef
from espalier.passes.sensitivity.table import Candidate

MAX_KINDS = 6  # kinds of choices in the counts
FIRST = tr("First predictions, not yet corrected by measurements")
GAP = 5e-4  # optimality gap from which it is shown


def summary(allocations: Allocations, measurement: Measurement) -> str:
    """Cost, divergence, measurements and optimality gap of the current solution."""
    if (
        allocations.current is None
        or allocations.solution is None
        or allocations.reached is None
        or allocations.kl is None
    ):
        return _present(allocations, measurement)
    parts = [
        _cost_text(allocations.figure, allocations.reached),
        tr("KL {} from {}, estimated", figure(allocations.kl), tr(allocations.baseline)),
    ]
    parts += [FIRST[:1].lower() + FIRST[1:]] if allocations.sensitivities.uncorrected else []
    parts += _measured(measurement, allocations.allocated_recipe())
    if allocations.solution.gap > GAP:
        parts.append(tr("sum of layers ≤ {} above the least", percent(allocations.solution.gap)))
    return " · ".join(parts)


def _cost_text(name: str, value: float) -> str:
    """A cost with its unit: `2.81 weight bits`, `125.8 kBitOPs`."""
    title = figure_title(name)
    text = figure_text(name, value)
    if text[-1].isalpha() and name == "bitops":
        return f"{text}{title}"
    return f"{text} {title}"


def _present(allocations: Allocations, measurement: Measurement) -> str:
    """Summary of the present configuration, while no budget is set."""
    present = allocations.present()
    if present is None:
        return tr("Drag the budget.") if allocations.current else ""
    parts = [_cost_text(allocations.figure, present[0])]
    how, name = allocations.estimate.how, tr(allocations.estimate.baseline)
    parts.append(tr("KL unknown") if present[1] is None else tr("KL {} from {}, {}", figure(present[1]), name, how))
    measured = _measured(measurement, allocations.recipe)
    parts += measured[1:] if how == "measured" else measured  # the divergence is in the text already
    return tr("Now {}. Drag the budget.", " · ".join(parts))


def _measured(measurement: Measurement, recipe: Recipe | None) -> list[str]:
    """Measured divergence and accuracy of a recipe."""
    point = measurement.last(recipe) if measurement.points and recipe is not None else None
    if point is None:
        return []
    accuracy = [] if point.accuracy is None else [tr("accuracy {}", percent(point.accuracy))]
    return [tr("measured {}", figure(point.kl)), *accuracy]


def counts(chosen: Mapping[PortRef, Candidate]) -> str:
    """Counts of the choices, the most frequent first: `12 × int 4 · 3 × float`."""
    counter = Counter(map(short, chosen.values()))
    return " · ".join(f"{n} × {name}" for name, n in counter.most_common(MAX_KINDS))


@lru_cache(maxsize=4096)
def short(candidate: Candidate) -> str:
    """A candidate without its fitted parameters: `int 4, 50 %`."""
    pruned = tr("{} pruned", percent(candidate.sparsity, 0)) if candidate.sparsity else ""
    name = title_of(candidate) if candidate.format or not pruned else ""
    return ", ".join(filter(None, (name, pruned)))
