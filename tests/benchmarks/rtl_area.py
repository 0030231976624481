"""What templates take on a 7-series FPGA, by Yosys, over a grid of small configurations; and the estimate's fit to it.

`--synthesize` fills verilog/area/held_out.json and grid.json (`--only MODULE` a part, `--again` what is known too,
`--jobs N`); `--fit` finds verilog/area/model.json from the grid. Without either: how far estimates are off.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.errors import SimulateError
from espalier.verilog.area.model import GRID, HELD_OUT, MODEL, Model, estimate_with, fit, row_key, rows_of, without
from espalier.verilog.design.template import Template
from espalier.verilog.synthesis.synthesize import synthesize
from tests.benchmarks.record import report
from tests.benchmarks.rtl_configurations import configurations, held_out
from tests.verilog.checks import alone

_writing = threading.Lock()


def known(path: Path = GRID) -> list[dict[str, Any]]:
    """What has been synthesised."""
    return json.loads(path.read_text()) if path.exists() else []


def fill(path: Path, wanted: Iterable[Template], only: str, again: bool, jobs: int) -> None:
    """Synthesise what is not known yet; each figure is kept as soon as it is there."""
    held = [row_key(r) for r in known(path)]
    left = [t for t in wanted if only in ("", t.module) and (again or identity(t) not in held)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(partial(_one, path), left))


def identity(template: Template) -> tuple[str, dict[str, int]]:
    """Module and parameters, and what else its area hangs on."""
    return template.module, {**template.parameters(), **template.content_counts()}


def _one(path: Path, template: Template) -> None:
    try:
        found = synthesize(alone(template), "xilinx").instances[template.name]
    except SimulateError as error:
        print(f"{template.module} {template.parameters()}: {error}", flush=True)
        return
    module, parameters = identity(template)
    row = {"module": module, "parameters": parameters, "lut": found.lut, "ff": found.ff,
           "dsp": found.dsp, "bram": found.bram}  # fmt: skip
    with _writing:
        others = [r for r in known(path) if row_key(r) != row_key(row)]
        rows = sorted([*others, row], key=lambda r: (r["module"], json.dumps(r["parameters"], sort_keys=True)))
        text = ",\n".join(json.dumps(r) for r in rows)
        path.write_text(f"[\n{text}\n]\n")
        print(json.dumps(row), flush=True)


def errors(rows: Sequence[Mapping[str, Any]], by: Model) -> dict[str, Any]:
    """Relative errors of tables and registers (fewer than 20 count as 20), and how many blocks are right."""
    found: dict[str, list[float]] = {"lut": [], "ff": []}
    exact = {"dsp": 0, "bram": 0}
    for row in rows:
        guess = estimate_with(row["module"], row["parameters"], by)
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
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_known_args()[0]
    if given.synthesize:
        fill(HELD_OUT, held_out(), given.only, given.again, given.jobs)
        fill(GRID, configurations(), given.only, given.again, given.jobs)
        return
    others = known(HELD_OUT)
    rows = without(known(), others)
    if given.fit:
        MODEL.write_text(json.dumps(fit(rows), indent=1) + "\n")
    by = fit(rows)
    report("rtl_area", {
        "fitted to": errors(rows, by), "held out": errors(others, by),
        "held out, by module": {m: errors(rows_of(others, m), by) for m in sorted({r["module"] for r in others})},
    })  # fmt: skip


if __name__ == "__main__":
    main()
