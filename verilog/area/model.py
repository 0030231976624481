"""Resources from a module's parameters: a few coefficients for the parts that it consists of, fitted to syntheses.

Blocks (DSP, BRAM) follow Yosys' own rules for what becomes one; tables and registers are sums over the parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from espalier.verilog.area import parts_formats as parts_formats  # whose modules are counted too
from espalier.verilog.area.parts import PARTS, Parts
from espalier.verilog.area.resources import Area

FOLDER = Path(__file__).parent
GRID, HELD_OUT, MODEL = (FOLDER / f"{name}.json" for name in ("grid", "held_out", "model"))
SMALL = 10.0  # tables or registers below which errors count as if there were so many
RIDGE = 0.2  # how strongly coefficients are held to 1, which is what the parts are counted for
Model = Mapping[str, Mapping[str, Mapping[str, float]]]  # module → lut, ff → part → coefficient


def parts_of(module: str, parameters: Mapping[str, int]) -> Parts | None:
    """What a module consists of; None for one that is not known."""
    found = PARTS.get(module)
    return found(parameters) if found else None


def estimate(module: str, parameters: Mapping[str, int]) -> Area:
    """What an instance takes on a 7-series FPGA; `unknown` names a module without an estimate."""
    return estimated(module, parameters, model())


def estimated(module: str, parameters: Mapping[str, int], by: Model) -> Area:
    """The same by a given model."""
    parts = parts_of(module, parameters)
    if parts is None:
        return Area(unknown=(module,))
    sums = {
        kind: sum(count * by.get(module, {}).get(kind, {}).get(name, 1.0) for name, count in held.items())
        for kind, held in (("lut", parts.lut), ("ff", parts.ff))
    }
    return Area(round(max(sums["lut"], 0.0)), round(max(sums["ff"], 0.0)), parts.dsp, parts.bram)


@cache
def model() -> Model:
    """The fitted coefficients."""
    found: Model = json.loads(MODEL.read_text())
    return found


def rows_of(rows: Sequence[Mapping[str, Any]], module: str) -> list[Mapping[str, Any]]:
    """Those of a module."""
    return [r for r in rows if r["module"] == module]


def apart(rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that are none of the others: what is fitted to, without what is held out and happens to come again."""
    held = [which(x) for x in others]
    return [r for r in rows if which(r) not in held]


def which(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int]]:
    """What tells rows apart."""
    return row["module"], row["parameters"]


def fitted(rows: Sequence[Mapping[str, Any]], only: str = "") -> dict[str, dict[str, dict[str, float]]]:
    """Coefficients that leave the least squares of relative errors; none is negative."""
    modules = sorted({r["module"] for r in rows} & set(PARTS))
    return {m: _module(rows_of(rows, m)) for m in modules if only in ("", m)}


def _module(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    from scipy.optimize import nnls

    every = [parts_of(r["module"], r["parameters"]) for r in rows]
    found: dict[str, dict[str, float]] = {}
    for kind in ("lut", "ff"):
        counts: list[Mapping[str, float]] = [getattr(p, kind) for p in every]
        names = sorted({n for c in counts for n in c})
        weights = np.array([1 / max(r[kind], SMALL) for r in rows])
        terms = np.array([[c.get(n, 0.0) for n in names] for c in counts]) * weights[:, None]
        wanted = np.array([r[kind] for r in rows]) * weights
        near = np.diag(np.full(len(names), RIDGE) * np.sqrt((terms**2).sum(axis=0) + 1e-9))
        values, _ = nnls(np.vstack([terms, near]), np.concatenate([wanted, near.sum(axis=1)]))
        found[kind] = {n: round(float(v), 3) for n, v in zip(names, values, strict=True)}
    return found
