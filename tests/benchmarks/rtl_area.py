"""What templates take on a 7-series FPGA, by Yosys, over a grid of small configurations; and the estimate's fit to it.

`--synthesize` fills verilog/area/grid.json (`--only MODULE` a part, `--jobs N`); `--fit` finds verilog/area/model.json.
Without either: how far estimates are off, also with each configuration in turn left out of the fit.
"""

from __future__ import annotations

import argparse
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from model.errors import SimulateError
from tests.benchmarks.record import report
from tests.benchmarks.rtl_configurations import configurations
from tests.verilog.proof import alone
from verilog.area.model import GRID, MODEL, estimated, fitted, rows_of
from verilog.synthesize import synthesize
from verilog.templates.base import Template

_writing = threading.Lock()


def grid() -> list[dict[str, Any]]:
    """What is known."""
    return json.loads(GRID.read_text()) if GRID.exists() else []


def fill(only: str, jobs: int) -> None:
    """Synthesise what is not known yet; each figure is kept as soon as it is there."""
    known = [(r["module"], r["parameters"]) for r in grid()]
    wanted = [t for t in configurations() if only in ("", t.module) and (t.module, t.parameters()) not in known]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(_one, wanted))


def _one(template: Template) -> None:
    try:
        found = synthesize(alone(template), "xilinx").instances[template.name]
    except SimulateError as error:
        print(f"{template.module} {template.parameters()}: {error}", flush=True)
        return
    row = {"module": template.module, "parameters": template.parameters(), "lut": found.lut, "ff": found.ff,
           "dsp": found.dsp, "bram": found.bram}  # fmt: skip
    with _writing:
        rows = sorted([*grid(), row], key=lambda r: (r["module"], json.dumps(r["parameters"], sort_keys=True)))
        text = ",\n".join(json.dumps(r) for r in rows)
        GRID.write_text(f"[\n{text}\n]\n")
        print(json.dumps(row), flush=True)


def errors(rows: list[dict[str, Any]], held_out: bool) -> dict[str, Any]:
    """Relative errors of tables and registers, and how many counts of blocks are right."""
    found: dict[str, list[float]] = {"lut": [], "ff": []}
    exact = {"dsp": 0, "bram": 0}
    whole = fitted(rows)
    for k, row in enumerate(rows):
        model = fitted(rows[:k] + rows[k + 1 :], row["module"]) if held_out else whole
        guess = estimated(row["module"], row["parameters"], model)
        for name, off in found.items():
            off.append(abs(getattr(guess, name) - row[name]) / max(row[name], 20))
        for name in exact:
            exact[name] += getattr(guess, name) == row[name]
    told: dict[str, Any] = {"configurations": len(rows)}
    for name, off in found.items():
        told[name] = {"median": round(float(np.median(off)), 3), "p90": round(float(np.quantile(off, 0.9)), 3),
                      "worst": round(max(off), 3)}  # fmt: skip
    return told | {name: f"{right} of {len(rows)} exact" for name, right in exact.items()}


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--synthesize", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_known_args()[0]
    if given.synthesize:
        fill(given.only, given.jobs)
        return
    rows = grid()
    if given.fit:
        MODEL.write_text(json.dumps(fitted(rows), indent=1) + "\n")
    modules = sorted({r["module"] for r in rows})
    report("rtl_area", {
        "all": errors(rows, False), "each left out in turn": errors(rows, True),
        "modules": {m: errors(rows_of(rows, m), True) for m in modules},
    })  # fmt: skip


if __name__ == "__main__":
    main()
