"""`Model.allocate`: the steps of the command `allocate` with options as values."""

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
from espalier.passes.sensitivity.combined import CombinedDivergences, correction_of

FLOAT = "float"


def allocated(
    target: Target, budgets: Sequence[str], formats: Sequence[str | Format], ties: Sequence[tuple[str, ...]],
    values: Mapping[str, Any],
) -> Allocation:  # fmt: skip
    """The allocation within `budgets`; `values`: options of the sensitivities. Raises OptionsError, DataError."""
    if not budgets:
        raise OptionsError("There is no budget.", 'Write budget="weight_bits<=4.5".')
    if not values["data"]:
        raise DataError("Sensitivities need data, and none is given.", "Give a data name or arrays.")
    start, limits = time.perf_counter(), [parse_budget(text) for text in budgets]
    listed = [f for f in formats if f != FLOAT]
    options: SensitivityOptions = decode(SensitivityOptions, {**values, "formats": listed})
    rows, summary = sensitivities(options, target)
    table = CombinedDivergences(rows, correction_of(summary))
    graph, before, rest = settled(target.project.graph, limits)
    find_costs({limit.figure for limit in rest}, rows, options, target)
    with_float = not formats or FLOAT in formats or not listed
    allocation = allocate(graph, rows, rest, Competing(None, with_float, tuple(ties), options.ports), table.of)
    recipe = Recipe((*steps(graph, allocation.chosen, options.data), *before))
    divergences = {(r.node, r.port): dict(zip(map(id, r.candidates), r.known, strict=True)) for r in rows}
    choices = tuple(
        {"node": node, "port": port, "format": str(c.format) if c.format else FLOAT, "sparsity": c.sparsity,
         "predicted": divergences[node, port].get(id(c), 0.0)}
        for (node, port), c in allocation.chosen.items()
    )  # fmt: skip
    figures = {
        "predicted": table.of(allocation.chosen),
        "gap": allocation.gap,
        "budgets": list(budgets),
        **allocation.figures,
    }
    return Allocation("allocation", figures, choices, time.perf_counter() - start, Steps(recipe))
