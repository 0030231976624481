"""The unrolled engine: adder bits beside da4ml's on equal weights, and the published jet tagger, 16-64-32-32-5.

`--da4ml PYTHON`: an interpreter that has da4ml (LGPL; for this comparison only). `--synthesize` runs Yosys on the
tagger, `--fit` fits the estimates to that; `--only taggers` or `matrices` leaves the kept figures of the other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.area.unrolled import MODEL, REGISTERS, TABLES
from espalier.verilog.constant.network import Adder, Form, Range
from espalier.verilog.constant.solve import solve
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.template import total
from espalier.verilog.emulation.integer_model import Host
from espalier.verilog.lowering.lower import lower
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.synthesis.synthesize import synthesize
from espalier.verilog.templates.unrolled import Unrolled
from espalier.verilog.timing.schedule import schedule
from tests.benchmarks.record import RESULTS, report

# name: outputs, inputs, bits of weights and of inputs
MATRICES = {
    "16x16, 8 bits": (16, 16, 8), "64x32, 8 bits": (32, 64, 8), "tagger 1, 6 bits": (64, 16, 6),
    "tagger 2, 6 bits": (32, 64, 6), "tagger 3, 6 bits": (32, 32, 6), "tagger 4, 6 bits": (5, 32, 6),
}  # fmt: skip
PUBLISHED = {
    "hls4ml Q6": {"lut": 39782, "dsp": 124, "ns at 200 MHz": 55}, "AutoQ QE": {"lut": 9149, "dsp": 66, "ns": 55},
    "HGQ": {"lut": 5236, "dsp": 34, "ns": 30},
}  # fmt: skip
FRAMES = 100
THEIRS = """
import json, sys
import numpy as np
from da4ml.cmvm import QInterval, solve
found = []
for case in json.load(sys.stdin):
    spans = [QInterval(float(a), float(b), 1.0) for a, b in case["spans"]]
    kernel = np.array(case["matrix"], np.float32).T.copy()
    made = solve(kernel, qintervals=spans, adder_size=1, carry_size=65535)
    found.append({"cost": made.cost, "stages": [
        {"ops": [[o.id0, o.id1, o.opcode, o.data] for o in s.ops], "shifts": list(map(int, s.inp_shifts)),
         "outs": [[int(i), int(p), bool(n)] for i, p, n in zip(s.out_idxs, s.out_shifts, s.out_negs)]}
        for s in made.solutions]})
json.dump(found, sys.stdout)
"""
SOURCE = """
import torch
from torch import nn

def make():
    sizes, layers = (16, 64, 32, 32, 5), []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    model.load_state_dict(torch.load("WEIGHTS", weights_only=True))
    return model.eval(), {"input": torch.randn(2, 16)}
"""


def matrices(theirs: str) -> dict[str, Any]:
    """Ours, and da4ml's own network counted by the same measure."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {}
    cases: list[tuple[str, Codes, list[Range]]] = []
    for name, (outputs, inputs, bits) in MATRICES.items():
        half = 1 << (bits - 1)
        matrix, spans = rng.integers(-half, half, (outputs, inputs)), [(-half, half - 1)] * inputs
        cases.append((name, matrix, spans))
        for title, slack in (("least depth", 0), ("default", 1), ("any depth", -1)):
            begin = time.process_time()
            made = solve(matrix, spans, slack=slack)
            x = rng.integers(-half, half, (100, inputs))
            row = {"adders": len(made.adders), "bits": made.bits, "depth": made.depth}
            row["exact"] = bool((made.run(x) == x @ matrix.T).all())
            row["cpu_s"] = round(time.process_time() - begin, 2)
            found.setdefault(name, {})[title] = row
    if theirs:
        given = json.dumps([{"matrix": m.tolist(), "spans": s} for _, m, s in cases])
        done = subprocess.run([theirs, "-c", THEIRS], input=given, capture_output=True, text=True, check=True)
        for (name, _, spans), other in zip(cases, json.loads(done.stdout), strict=True):
            adders, bits, depth = counted(other["stages"], spans)
            found[name]["da4ml"] = {"adders": adders, "bits": bits, "depth": depth, "its own cost": other["cost"]}
            found[name]["bits against da4ml"] = round(found[name]["default"]["bits"] / bits, 3)
    return found


def counted(stages: list[dict[str, Any]], spans: list[Range]) -> tuple[int, int, int]:
    """(adders, bits, depth) of a network of theirs by our measure."""
    values = [(low, high, 0, 0) for low, high in spans]  # least, most, place, depth
    adders = bits = 0
    for stage in stages:
        held: list[tuple[int, int, int, int]] = []
        for first, second, kind, data in stage["ops"]:
            if kind == -1:
                low, high, place, depth = values[first]
                held.append((low, high, place + stage["shifts"][first], depth))
                continue
            made, a, b, place = _adder(held[first], held[second], data, kind == 1)
            adders, bits = adders + 1, bits + made.bits(a, b)
            held.append((*made.range(a, b), place, max(held[first][3], held[second][3]) + 1))
        values = [_end(held, *out) for out in stage["outs"]]
    return adders, bits, max(v[3] for v in values)


def _adder(a: tuple[int, ...], b: tuple[int, ...], data: int, minus: bool) -> tuple[Adder, Range, Range, int]:
    low, high = a[2], b[2] + data
    form: Form = "a-b" if minus else "a+b"
    if low <= high:
        return Adder(0, 1, high - low, form), (a[0], a[1]), (b[0], b[1]), low
    return Adder(0, 1, low - high, "b-a" if minus else "a+b"), (b[0], b[1]), (a[0], a[1]), high


def _end(held: list[tuple[int, int, int, int]], value: int, places: int, minus: bool) -> tuple[int, int, int, int]:
    if value < 0:
        return 0, 0, 0, 0
    low, high, place, depth = held[value]
    return (-high, -low, place + places, depth) if minus else (low, high, place + places, depth)


def trained(kept: float) -> nn.Sequential:
    """The tagger on made jets, five classes of features; the weights above a share of the smallest are kept."""
    torch.manual_seed(0)
    centres, mix = torch.randn(5, 16), torch.randn(5, 16, 16) * 0.5
    sizes, layers = (16, 64, 32, 32, 5), []
    for i, o in itertools.pairwise(sizes):
        layers += [nn.Linear(i, o), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    masks: dict[nn.Linear, torch.Tensor] = {}
    work = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(600):
        labels = torch.randint(0, 5, (256,))
        x = centres[labels] + torch.einsum("bi,bij->bj", torch.randn(256, 16), mix[labels])
        loss = functional.cross_entropy(model(x.clamp(-4, 4)), labels)
        work.zero_grad()
        loss.backward()
        work.step()
        if step == 300 and kept < 1:
            for m in model:
                if isinstance(m, nn.Linear):
                    masks[m] = m.weight.detach().abs() > m.weight.detach().abs().quantile(1 - kept)
        for layer, mask in masks.items():
            layer.weight.data *= mask
    return model


def tagger(kept: float, folder: Path, synthesise: bool, simulator: str) -> dict[str, Any]:
    """Trained on made data, 6 bits all over: emitted, simulated, counted."""
    torch.save(trained(kept).state_dict(), folder / "weights.pt")
    (folder / "tagger.py").write_text(SOURCE.replace("WEIGHTS", str(folder / "weights.pt")))
    opened = open_any(f"{folder / 'tagger.py'}:make", folder, origin=Origin.TYPED)
    graph, context = opened.project.base, Context(opened.store)
    formats = {"data_in": "integer(width=6, frac_width=3)", "weight": "integer(width=6, frac_width=5)",
               "bias": "integer(width=6, frac_width=4)"}  # fmt: skip
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": formats}]
    for step in load_recipe({"steps": [{"pass": "quantize", "options": {"rules": rules}}]}).steps:
        graph = run_step(graph, step, context).graph
    begin = time.process_time()
    design = lower(graph, opened.store, EmitOptions(engine="unrolled"))
    emitted = time.process_time() - begin
    x = torch.randn(FRAMES, 16, generator=torch.Generator().manual_seed(1))
    codes = Host(graph, opened.store, design, opened.callables)(input=x)
    planned, area = schedule(design), total(design.instances)
    found: dict[str, Any] = {
        "kept": kept, "cycles": planned.latency, "interval": planned.interval, "lower_cpu_s": round(emitted, 1),
        "mismatches": mismatches(design, codes, folder, simulator), "estimated": {"lut": area.lut, "ff": area.ff},
        "adder_bits": sum(i.network.bits for i in design.instances if isinstance(i, Unrolled)),
    }  # fmt: skip
    if synthesise:
        done = synthesize(design, "xilinx")
        found["synthesised"] = {"lut": done.total.lut, "ff": done.total.ff, "dsp": done.total.dsp,
                                "bram": done.total.bram, "seconds": round(done.seconds)}  # fmt: skip
        found["instances"] = {n: {"lut": a.lut, "ff": a.ff, **_figures(design, n)} for n, a in done.instances.items()}
    return found


def _figures(design: Design, name: str) -> dict[str, int]:
    made = design.instance(name)
    return made.content_counts() if isinstance(made, Unrolled) else {}


def mismatches(design: Design, codes: tuple[Codes, ...], folder: Path, simulator: str) -> int:
    """Beats that differ, over all patterns of pauses."""
    built = build(design, len(codes[0]), folder / "builds", simulator)
    found = [run(design, built, codes, stall, seed=stall + 1, limit=1_000_000) for stall in range(4)]
    assert not any(f.stuck for f in found)
    return sum(m.count for f in found for m in f.mismatches)


def fit(rows: list[dict[str, int]]) -> dict[str, float]:
    """Tables and registers of each figure, by the least squares of relative errors; written for the estimates."""
    from scipy.optimize import nnls

    found: dict[str, float] = {}
    for kind, names in (("lut", TABLES), ("ff", REGISTERS)):
        wanted = np.array([row[kind] for row in rows], float)
        terms = np.array([[row[name] for name in names] for row in rows]) / wanted[:, None]
        values, _ = nnls(
            np.vstack([terms, 0.05 * np.eye(len(names))]), np.append(np.ones(len(rows)), [0.05] * len(names))
        )
        found |= {name: round(float(v), 3) for name, v in zip(names, values, strict=True)}
    MODEL.write_text(json.dumps(found) + "\n")
    return found


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--da4ml", default="")
    parser.add_argument("--synthesize", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--simulator", default="icarus")
    parser.add_argument("--only", choices=("taggers", "matrices"))
    given = parser.parse_known_args()[0]
    path = RESULTS / "rtl_unrolled.json"
    found: dict[str, Any] = json.loads(path.read_text()) if given.only and path.exists() else {}
    if given.only != "taggers":
        found["matrices"] = matrices(given.da4ml)
    if given.only != "matrices":
        found["published"], found["taggers"] = PUBLISHED, []
        for kept in (0.25, 0.5, 1.0):
            with tempfile.TemporaryDirectory() as name:
                found["taggers"].append(tagger(kept, Path(name), given.synthesize, given.simulator))
                print(json.dumps(found["taggers"][-1]), file=sys.stderr, flush=True)
    if given.fit:
        found["fit"] = fit([row for one in found["taggers"] for row in one["instances"].values()])
    report("rtl_unrolled", found)


if __name__ == "__main__":
    main()
