"""SQNR of every format on normal weights, N(0, 0.02) and N(0, 1), beside what was known of some beforehand.

By the plain definitions: what is measured are formats, not kernels. No model, a few seconds.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from espalier.model.formats.base import Format, make_format, parse_format
from espalier.model.registry import FORMATS
from espalier.passes.analysis.format_sqnr import usual_formats
from tests.benchmarks.record import report

SHAPE = (768, 768)
DEVIATIONS = (0.02, 1.0)
# Decibels on N(0, 0.02).
REFERENCES = {
    "integer(width=8, frac_width=7)": 19.0,
    "integer(width=8, frac_width=4)": 1.7,
    "scaled_integer(width=8)": 42.3,
    "mxint(width=8, block=32)": 42.4,
    "mxfp(element=e4m3, block=32)": 30.7,
}


def normal(deviation: float) -> Tensor:
    """The weights that are rounded."""
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)) * deviation


def measured(fmt: Format, x: Tensor) -> tuple[float | None, float]:
    """SQNR in dB (None where nothing is lost), and the share of values that are not 0."""
    torch.manual_seed(0)
    y = fmt.define(x).double()
    noise, signal = float((y - x).square().sum()), float(x.double().square().sum())
    return (10 * math.log10(signal / noise) if noise else None), float((y != 0).float().mean())


def row(fmt: Format) -> dict[str, Any]:
    """What there is to tell of a format."""
    found: dict[str, Any] = {"bits": round(fmt.stored_bits(SHAPE) / math.prod(SHAPE), 3)}
    for deviation in DEVIATIONS:
        decibels, kept = measured(fmt, normal(deviation))
        found |= {f"db, {deviation}": None if decibels is None else round(decibels, 1),
                  f"not 0, {deviation}": round(kept, 3)}  # fmt: skip
    known = {parse_format(t): v for t, v in REFERENCES.items()}
    return found | ({"reference": known[fmt]} if fmt in known else {})


def main() -> None:
    """Print the table as JSON."""
    defaults = (make_format(name, {}) for name in FORMATS)
    formats = dict.fromkeys([*map(parse_format, REFERENCES), *usual_formats(), *defaults])
    report("normal_sqnr", {"shape": SHAPE, "formats": {str(f): row(f) for f in formats}})


if __name__ == "__main__":
    main()
