"""Whole configurations, predicted and measured: sums of single divergences, signed sums, and these corrected.

Uniform widths of several families, mixtures, points of allocation fronts; weights alone, with what layers take, all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.solve import Competing, front
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.base import Context
from espalier.passes.sensitivity import measured_candidates
from espalier.passes.sensitivity.combined import part, together
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.full_table import configured, fast_rounded, fixed
from espalier.passes.sensitivity.gradient_statistics import GradientStatistics
from espalier.passes.sensitivity.measure import Baseline
from espalier.passes.sensitivity.port_predictor import port_predictor
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.table import Candidate, Sensitivity

Chosen = dict[FormatPort, Format]
PORTS = {"weight": ("weight",), "weight and data_in": ("weight", "data_in")}
FAMILIES = ("mxint", "scaled_integer")
COARSEST = 3  # bits that promises hold from


class Configurations:
    """All that is asked of: the reference and its evidence, corrections of cells and of configurations."""

    def __init__(
        self, run: Graph, places: Sequence[FormatPort], evidence: GradientStatistics, context: Context,
        baseline: Baseline, rows: Sequence[Sensitivity], cells: Correction, wholes: Correction,
    ) -> None:  # fmt: skip
        self.run, self.places, self.evidence, self.context, self.baseline = run, places, evidence, context, baseline
        self.rows, self.cells, self.wholes = rows, cells, wholes
        linear = {n.id for n in run if n.op == "linear"}
        self.held = {
            p: s for p in places if p.node in linear and (s := port_predictor(p, evidence, run, context.store))
        }

    def all(self) -> dict[str, Any]:
        """Each with its figures, and how many of those from 3 bits up are within a factor of 2."""
        lines = [self._judged(name, chosen) for name, chosen in self._wanted()]
        return {"configurations": lines, "within_2": within(lines)}

    def _wanted(self) -> Iterator[tuple[str, Chosen]]:
        for words, ports in PORTS.items():
            for width in (8, 6, 5, 4, 3, 2):
                yield f"{words}, {width} bits", self._each(ports, _integer(width))
            for family in FAMILIES:
                for width in (8, 6, 4, 3):
                    yield f"{words}, {family} {width} bits", self._each(ports, parse_format(f"{family}(width={width})"))
            for seed in range(4):
                luck = random.Random(seed)
                yield f"{words}, 3 to 8 bits, {seed}", self._each(ports, lambda r=luck: _integer(r.randint(3, 8)))
            usual = [f for f in usual_formats() if f.element_bits >= COARSEST]
            for seed in range(4):
                luck = random.Random(seed)
                yield f"{words}, any format, {seed}", self._each(ports, lambda r=luck, u=usual: r.choice(u))
            yield from self._front(words, ports)

    def _each(self, ports: Sequence[str], make: Format | Callable[[], Format]) -> Chosen:
        return {
            p: s.fitted(make if isinstance(make, Format) else make(), fast_rounded)
            for p, s in self.held.items() if p.port in ports
        }  # fmt: skip

    def _front(self, words: str, ports: tuple[str, ...]) -> Iterator[tuple[str, Chosen]]:
        """Six points along a cost, of formats from 3 bits up."""
        figure = "weight_bits" if len(ports) == 1 else "bitops"
        at = {(p.node, p.port): p for p in self.held}
        rows = [_above(r) for r in self.rows if (r.node, r.port) in at and r.port in ports]
        points = [p for p in front(self.run, rows, figure, 64, Competing(ports=ports)) if p.predicted > 1e-6]
        for place in np.unique(np.linspace(0, len(points) - 1, 6).round().astype(int)):
            chosen = {at[k]: c.format for k, c in points[place].chosen.items() if c.format is not None}
            yield f"{words}, front at {points[place].figure:.3g} {figure}", chosen

    def _judged(self, name: str, chosen: Mapping[FormatPort, Format]) -> dict[str, Any]:
        graph = self.run
        for place, fmt in chosen.items():
            graph = measured_candidates.with_candidate(graph, place, Candidate(fmt), self.context)
        told = configured(
            graph, self.places, self.run, self.evidence, self.context.store, None, 0, fast_rounded
        ).values()
        put_right = [fixed(t, self.cells) for t in told]
        guesses = {
            "summed": sum(t.kl for t in told), "signed": together(part(t.kl, t.along) for t in told),
            "corrected": together((part(t.kl, t.along) for t in put_right), self.wholes),
        }  # fmt: skip
        true = self.baseline.measure(graph)
        ratios = {f"{k}_ratio": round(v / true.kl, 3) for k, v in guesses.items()}
        figures = {k: float(f"{v:.3g}") for k, v in {**guesses, "measured": true.kl}.items()}
        return {"name": name, "bits": min(f.element_bits for f in chosen.values()), **figures, **ratios,
                "agreement": true.agreement}  # fmt: skip


def within(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many of those from 3 bits up are within a factor of 2, and the worst factor."""
    kept = [x for x in lines if x["bits"] >= COARSEST]
    found: dict[str, Any] = {"of": len(kept)}
    for kind in ("summed", "signed", "corrected"):
        off = np.abs(np.log2([x[f"{kind}_ratio"] for x in kept]))
        found[kind] = int((off <= 1).sum())
        found[f"{kind}_worst_factor"] = round(float(2 ** off.max()), 2)
    return found


def _integer(width: int) -> Format:
    return parse_format(f"integer(width={width})")


def _above(row: Sensitivity) -> Sensitivity:
    """A row without formats below 3 bits."""
    keep = [i for i, c in enumerate(row.candidates) if c.format is None or c.format.element_bits >= COARSEST]
    parts = {f: tuple(getattr(row, f)[i] for i in keep) for f in ("candidates", "predicted", "noise", "measured")}
    return Sensitivity(row.node, row.port, row.elements, along=tuple(row.along[i] for i in keep), **parts)
