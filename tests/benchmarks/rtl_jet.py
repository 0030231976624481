"""The published jet tagger, 16-64-32-32-5 at 6 bits, by the folded engine at several parallelisms: Yosys' resources
beside the estimates, interval and latency of the schedule, and rows from the literature.

Weights are random (the data is not here) and dense; `rtl_unrolled` has the engine of one sample a cycle.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.area.resources import Area
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.template import total
from espalier.verilog.lowering.lower import lower
from espalier.verilog.synthesis.synthesize import synthesize
from espalier.verilog.timing.schedule import schedule
from tests.benchmarks.record import report
from tests.benchmarks.rtl_networks import NETWORKS, balance

MULTIPLIERS = (4, 64, 256)
CLOCK = 200.0  # MHz, that of the published rows; a clock of ours is not known without Vivado
PUBLISHED = {  # VU9P at 200 MHz, one sample a cycle; from the table of arXiv 2405.00645
    "hls4ml Q6": {"lut": 39782, "dsp": 124, "latency_ns": 55},
    "AutoQ QE": {"lut": 9149, "dsp": 66, "latency_ns": 55},
    "HGQ": {"lut": 5236, "dsp": 34, "latency_ns": 30},
}


def told(area: Area) -> dict[str, int]:
    """Whole numbers."""
    return {"lut": round(area.lut), "ff": round(area.ff), "dsp": area.dsp, "bram": area.bram}


def figures(multipliers: int, folder: Path) -> dict[str, Any]:
    """Of one parallelism."""
    network = NETWORKS["jet tagger 16-64-32-32-5"]
    opened = open_any(network.source(folder), folder / str(multipliers), origin=Origin.TYPED)
    graph, context = opened.project.base, Context(opened.store)
    for step in load_recipe({"steps": [*network.steps[:-1], balance(multipliers)]}).steps:
        graph = run_step(graph, step, context).graph
    design = lower(graph, opened.store, EmitOptions())
    planned, made = schedule(design), synthesize(design, "xilinx")
    latency = round(1000 * planned.latency / CLOCK)
    return {
        "products_a_cycle": multipliers, "synthesised": told(made.total), "estimated": told(total(design.instances)),
        "interval_cycles": planned.interval, "latency_cycles": planned.latency, "latency_ns_at_200_MHz": latency,
        "synthesis_s": round(made.seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Print the figures as JSON."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for each in MULTIPLIERS:
            rows.append(figures(each, Path(folder)))
            print(json.dumps(rows[-1]), flush=True)
    report("rtl_jet", {"folded": rows, "published": PUBLISHED})


if __name__ == "__main__":
    main()
