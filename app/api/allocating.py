"""An allocation for a program: the command's steps, with options as values."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from espalier.app.api.reports import Allocation, Steps
from espalier.app.commands.opening import Target
from espalier.app.features.allocate.commands.allocate import find_costs, sensitivities
from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe
from espalier.model.errors import DataError, OptionsError
from espalier.model.formats.base import Format
from espalier.passes.allocation.plan import steps
from espalier.passes.allocation.solve import Competing, allocate, settled
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.costs.limits import parse_budget
from espalier.passes.sensitivity.combined import Wholes, correction_of

FLOAT = "float"


def allocated(
    target: Target, budgets: Sequence[str], formats: Sequence[str | Format], ties: Sequence[tuple[str, ...]],
    wish: Mapping[str, Any],
) -> Allocation:  # fmt: skip
    """The allocation within `budgets`; `wish`: options of the sensitivities. Raises OptionsError, DataError."""
    if not budgets:
        raise OptionsError("There is no budget.", 'Write budget="weight_bits<=4.5".')
    if not wish["data"]:
        raise DataError("Sensitivities are found on data, and none is named.", "Name some, or give arrays.")
    start, limits = time.perf_counter(), [parse_budget(text) for text in budgets]
    listed = [f for f in formats if f != FLOAT]
    options: SensitivityOptions = decode(SensitivityOptions, {**wish, "formats": listed})
    rows, summary = sensitivities(options, target)
    table = Wholes(rows, correction_of(summary))
    graph, before, rest = settled(target.project.graph, limits)
    find_costs({limit.figure for limit in rest}, rows, options, target)
    whole = not formats or FLOAT in formats or not listed
    made = allocate(graph, rows, rest, Competing(None, whole, tuple(ties), options.ports), table.of)
    recipe = Recipe((*steps(graph, made.chosen, options.data), *before))
    known = {(r.node, r.port): dict(zip(map(id, r.candidates), r.known, strict=True)) for r in rows}
    told = tuple(
        {"node": node, "port": port, "format": str(c.format) if c.format else FLOAT, "sparsity": c.sparsity,
         "predicted": known[node, port].get(id(c), 0.0)}
        for (node, port), c in made.chosen.items()
    )  # fmt: skip
    figures = {"predicted": table.of(made.chosen), "gap": made.gap, "budgets": list(budgets), **made.figures}
    return Allocation("allocation", figures, told, time.perf_counter() - start, Steps(recipe))
