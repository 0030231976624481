"""How long the way to hardware takes, by the demo's BERT-tiny: emit, lint, diagnostics, build, a sequence; and emit
where nothing is done in parallel. Processor seconds, of what is started too, since other work may share the machine.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emission.companion_files import companion_files
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.lint import lint, slang
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.rtl.write import texts, write
from espalier.verilog.timing.schedule import schedule
from tests.benchmarks.record import report
from tests.benchmarks.rtl_networks import CALIBRATE_REVIEWS, NETWORKS

TARGETS = {"emit": 2.0, "lint": 1.0, "build": 30.0, "sequence": 10.0, "diagnostics": 0.05}  # seconds, quiet
FRAMES = 1
CALIBRATE = {**CALIBRATE_REVIEWS, "options": {"data": "demo:reviews", "limit": 64}}  # fractions change no time


def spent() -> float:
    """Processor seconds of this process and of those that it started."""
    found = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        found += used.ru_utime + used.ru_stime
    return found


def timed(act: Callable[[], Any], times: int = 1) -> tuple[Any, dict[str, float]]:
    """What it gives, and the least processor and wall seconds of some calls."""
    found: list[tuple[float, float]] = []
    given: Any = None
    for _ in range(times):
        cpu, wall = spent(), time.perf_counter()
        given = act()
        found.append((spent() - cpu, time.perf_counter() - wall))
    return given, {"cpu_s": round(min(c for c, _ in found), 3), "wall_s": round(min(w for _, w in found), 3)}


def main() -> None:
    """Print the figures as JSON."""
    network = NETWORKS["BERT-tiny, reviews"]
    steps = [CALIBRATE if s is CALIBRATE_REVIEWS else s for s in network.steps]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opened = open_any(network.source(folder), folder, origin=Origin.TYPED)
        context, graph = Context(opened.store), opened.project.base
        *before, last = load_recipe({"steps": steps}).steps
        for step in before:
            graph = run_step(graph, step, context).graph
        graphs = {"folded": graph, "balanced": run_step(graph, last, context).graph}
        figures: dict[str, Any] = {"targets_s": TARGETS, "load": round(os.getloadavg()[0], 1)}

        def emit(which: str) -> Design:
            design = lower(graphs[which], opened.store, EmitOptions(sizes={"seq": 24}))
            planned = schedule(design)
            write(design, folder / which, companion_files(design, planned), planned)
            return replace(design)

        _, figures["emit, first"] = timed(lambda: emit("balanced"))  # with what it imports
        design, figures["emit"] = timed(lambda: emit("balanced"), 3)
        _, figures["emit, nothing in parallel"] = timed(lambda: emit("folded"))
        files = texts(design)
        _, figures["lint"] = timed(lambda: lint(files, design.name), 3)
        _, figures["diagnostics"] = timed(lambda: slang(files, design.name), 5)
        module = {f"{n}.sv": files[f"rtl/{n}.sv"] for n in ("linear", "requant", "row_operands", "row_walk")}
        _, figures["diagnostics of a module"] = timed(lambda: slang(module, "linear"), 5)
        built, figures["build"] = timed(lambda: build(design, FRAMES, folder / "builds", "verilator"))
        rng = np.random.default_rng(0)
        codes = tuple(rng.integers(s.fixed.low, s.fixed.high + 1, (FRAMES, s.rows, s.size))
                      for s in (b.stream for b in design.inputs))  # fmt: skip
        done, figures["sequence"] = timed(lambda: run(design, built, codes), 3)
        figures |= {"cycles": done.total, "mismatches": len(done.mismatches), "instances": len(design.instances)}
    report("rtl_speed", figures)


if __name__ == "__main__":
    main()
