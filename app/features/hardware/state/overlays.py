"""Figures of the last hardware run as colours of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.app.canvas.colouring import MEASURED, Overlay
from espalier.app.translation import tr

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.hardware import Hardware

# Columns for colouring the graph: maximum over a node's instances, or sum for SUMMED.
MODULES = {name: MEASURED[name] for name in ("cycles", "busy", "lut", "dsp", "bram")}
SUMMED = ("lut", "dsp", "bram")


def overlay(hardware: Hardware, column: str) -> Overlay:
    """Node values for colouring the graph: maximum or sum over a node's instances."""
    title, unit = MODULES[column]
    values: dict[str, float] = {}
    unknown: set[str] = set()
    for row in hardware.result.rows if hardware.result else ():
        value = row.get(column)
        if value is None and column in SUMMED:
            unknown.add(row["node"])
        if isinstance(value, int | float) and (value or column in SUMMED):
            before = values.get(row["node"], 0.0)
            values[row["node"]] = before + value if column in SUMMED else max(before, float(value))
    if not values:
        note = tr("check the hardware first")
    else:
        note = tr("of an earlier state") if hardware.stale else ""
    return Overlay(title, {n: v for n, v in values.items() if n not in unknown}, unit, note)
