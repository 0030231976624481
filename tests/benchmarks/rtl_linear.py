"""The folded 16 × 16 int8 linear layer, 4 × 4 at once, against its predecessor's published 7-series figures; and how
busy multipliers are, with the tables that each of them takes beside its DSP.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.linear import summed
from espalier.verilog.synthesis.synthesize import synthesize
from espalier.verilog.templates.linear import Linear
from espalier.verilog.timing.schedule import schedule
from tests.benchmarks.record import report
from tests.verilog.checks import alone

PREDECESSOR = {"lut": 2361, "ff": 2876, "dsp": 16, "first": 20}  # without weights, which it streams
TARGETS = {"lut": 0.2, "ff": 0.15, "first": 0.5}


def layer(size: int, par: int, rows: int = 1) -> Linear:
    """Random int8 weights and biases; int8 in and out."""
    rng, x, w = np.random.default_rng(0), Fixed(8, 4), Fixed(8, 6)
    weight = rng.integers(w.low, w.high + 1, (size, size))
    accumulator, biases = summed(weight, w, x, (rng.integers(-128, 128, size), Fixed(8, 6)))
    stream = Stream(rows, size, x, par)
    return Linear(name="fc", node="fc", inputs=(stream,), outputs=(stream,), weight=weight, weight_format=w,
                  bias=biases, accumulator=accumulator)  # fmt: skip


def figures(size: int, par: int) -> dict[str, Any]:
    """Synthesis, estimate and cycles."""
    made = layer(size, par)
    done, guess = synthesize(alone(made), "xilinx"), made.area()
    planned = schedule(alone(layer(size, par, rows=64)))
    first = schedule(alone(made)).first
    products = size * size * 64 / (par * par)
    total = done.total
    return {
        "lut": total.lut, "ff": total.ff, "dsp": total.dsp, "bram": total.bram, "first": first,
        "estimated": {"lut": guess.lut, "ff": guess.ff, "dsp": guess.dsp, "bram": guess.bram},
        "busy_share_of_product_cycles": round(products / planned.interval, 4),
        "lut_per_product": round(total.lut / (par * par), 1), "synthesis_s": round(done.seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    small = figures(16, 4)
    ratios = {n: {"ratio": round(small[n] / PREDECESSOR[n], 3), "target": t} for n, t in TARGETS.items()}
    report("rtl_linear", {"16×16, 4×4 at once": small, "against the predecessor": ratios,
                          "64×64, 8×8 at once": figures(64, 8)})  # fmt: skip


if __name__ == "__main__":
    main()
