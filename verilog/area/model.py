"""Area model: resources from a module's parameters, by coefficients for its parts that are fitted to syntheses.

DSP and BRAM blocks follow Yosys' mapping rules; look-up tables and registers are weighted sums over the parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from espalier.verilog.area import parts_formats as parts_formats  # adds its modules to PARTS
from espalier.verilog.area.parts import PARTS, Parts
from espalier.verilog.area.resources import Area

FOLDER = Path(__file__).parent
GRID, HELD_OUT, MODEL = (FOLDER / f"{name}.json" for name in ("grid", "held_out", "model"))
SMALL = 10.0  # floor of the denominator of relative errors, in tables or registers
RIDGE = 0.2  # regularisation towards coefficients of 1, the analytic counts
Model = Mapping[str, Mapping[str, Mapping[str, float]]]  # module → lut, ff → part → coefficient


def parts_of(module: str, parameters: Mapping[str, int]) -> Parts | None:
    """The parts of a module; None for an unknown one."""
    count_parts = PARTS.get(module)
    return count_parts(parameters) if count_parts else None


def estimate(module: str, parameters: Mapping[str, int]) -> Area:
    """Estimate an instance's resources on a 7-series FPGA; `unknown` names a module without an estimate."""
    return estimate_with(module, parameters, model())


def estimate_with(module: str, parameters: Mapping[str, int], coefficients: Model) -> Area:
    """`estimate` with given coefficients."""
    parts = parts_of(module, parameters)
    if parts is None:
        return Area(unknown=(module,))
    sums = {
        kind: sum(count * coefficients.get(module, {}).get(kind, {}).get(name, 1.0) for name, count in counts.items())
        for kind, counts in (("lut", parts.lut), ("ff", parts.ff))
    }
    return Area(round(max(sums["lut"], 0.0)), round(max(sums["ff"], 0.0)), parts.dsp, parts.bram)


@cache
def model() -> Model:
    """The fitted coefficients."""
    coefficients: Model = json.loads(MODEL.read_text())
    return coefficients


def rows_of(rows: Sequence[Mapping[str, Any]], module: str) -> list[Mapping[str, Any]]:
    """The rows of one module."""
    return [r for r in rows if r["module"] == module]


def without(rows: Sequence[Mapping[str, Any]], excluded: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows that are not in `excluded`: training rows without those that are also held out."""
    keys = [row_key(x) for x in excluded]
    return [r for r in rows if row_key(r) not in keys]


def row_key(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int]]:
    """Module and parameters, which identify a row."""
    return row["module"], row["parameters"]


def fit(rows: Sequence[Mapping[str, Any]], only: str = "") -> dict[str, dict[str, dict[str, float]]]:
    """Fit non-negative coefficients by least squares of the relative errors; `only`: a single module."""
    modules = sorted({r["module"] for r in rows} & set(PARTS))
    return {m: _fit_module(rows_of(rows, m)) for m in modules if only in ("", m)}


def _fit_module(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    from scipy.optimize import nnls

    parts = [parts_of(r["module"], r["parameters"]) for r in rows]
    coefficients: dict[str, dict[str, float]] = {}
    for kind in ("lut", "ff"):
        counts: list[Mapping[str, float]] = [getattr(p, kind) for p in parts]
        names = sorted({n for c in counts for n in c})
        weights = np.array([1 / max(r[kind], SMALL) for r in rows])
        terms = np.array([[c.get(n, 0.0) for n in names] for c in counts]) * weights[:, None]
        targets = np.array([r[kind] for r in rows]) * weights
        ridge = np.diag(np.full(len(names), RIDGE) * np.sqrt((terms**2).sum(axis=0) + 1e-9))
        values, _ = nnls(np.vstack([terms, ridge]), np.concatenate([targets, ridge.sum(axis=1)]))
        coefficients[kind] = {n: round(float(v), 3) for n, v in zip(names, values, strict=True)}
    return coefficients
