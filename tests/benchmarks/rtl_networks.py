"""Whole networks in hardware, simulated by Verilator under three patterns of pauses, every beat of every stream
compared; cycles against the schedule; accuracy from the RTL's own outputs beside the float model's.

`--only NAME` runs one network, `--vectors N` fewer vectors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.build import build as build_module
from model.opening import Opened, open_any
from passes.base import Context, run_step
from passes.config import load_recipe
from tests.benchmarks.record import report
from verilog.exact import Exact, Host, structured, tensors
from verilog.lower import lower
from verilog.options import EmitOptions
from verilog.schedule import schedule
from verilog.simulate import build, run

STALLS = (0, 1, 3)  # nobody pauses, inputs pause, both sides pause
Inputs = tuple[dict[str, Tensor], Tensor | None]  # by name; and the labels of the first of them


@dataclass(frozen=True, slots=True)
class Network:
    """What is emitted: a source, the steps before, the inputs, and how many outputs are a test of accuracy."""

    source: Callable[[Path], str]
    steps: tuple[dict[str, Any], ...]
    inputs: Callable[[int], Inputs]
    vectors: int
    sizes: str = ""


def fixed(width: int, select: list[str], **formats: str) -> dict[str, Any]:
    """The step that gives ops of some types fixed-point formats."""
    chosen = {"data_in": f"integer(width={width}, frac_width=4)", "weight": f"integer(width={width}, frac_width=6)",
              "bias": f"integer(width={width + 4}, frac_width=8)", **formats}  # fmt: skip
    return {"pass": "quantize", "options": {"rules": [{"select": {"by": "type", "values": select}, "formats": chosen}]}}


def balance(multipliers: int) -> dict[str, Any]:
    """The step that spends products a cycle where the time goes."""
    return {"pass": "balance_parallelism", "options": {"multipliers": multipliers}}


def digits(vectors: int) -> Inputs:
    """The test images first, then those of training."""
    from model.data.digits import load_digits

    splits = load_digits()
    x = np.concatenate([splits[name].inputs["x"] for name in ("test", "validation", "train")])
    return {"x": torch.from_numpy(x[:vectors])}, torch.from_numpy(splits["test"].labels)


TAGGER = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    sizes, layers = (16, 64, 32, 32, 5), []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval(), {"input": torch.randn(2, 16)}
"""


def tagger(folder: Path) -> str:
    """The layers of the published jet tagger, 16-64-32-32-5, with random weights: its data is not here."""
    path = folder / "tagger.py"
    path.write_text(TAGGER)
    return f"{path}:make"


CALIBRATE = {"pass": "calibrate", "options": {"data": "demo:digits"}}
NETWORKS: dict[str, Network] = {
    "digits MLP": Network(
        lambda _: "demo:digits-mlp", (fixed(8, ["linear"]), CALIBRATE, balance(64)), digits, 1000
    ),
    "digits CNN": Network(
        lambda _: "demo:digits",
        ({"pass": "fold_batch_norm"}, fixed(8, ["linear", "conv2d"]), CALIBRATE, balance(512)),
        digits, 1000,
    ),
    "digits CNN, batch norms in hardware": Network(
        lambda _: "demo:digits", (fixed(8, ["linear", "conv2d"]), CALIBRATE, balance(512)), digits, 1000
    ),
    "jet tagger 16-64-32-32-5": Network(
        tagger, (fixed(6, ["linear"]), balance(256)),
        lambda n: ({"input": torch.randn(n, 16, generator=torch.Generator().manual_seed(1))}, None), 1000,
    ),
}  # fmt: skip


def figures(network: Network, vectors: int, folder: Path) -> dict[str, Any]:
    """Emit, simulate, compare."""
    opened = open_any(network.source(folder), folder)
    graph = opened.project.base
    context = Context(opened.store)
    for step in load_recipe({"steps": list(network.steps)}).steps:
        graph = run_step(graph, step, context).graph
    begin = time.perf_counter()
    design = lower(graph, opened.store, EmitOptions(sizes=sized(network.sizes)))
    emitted = time.perf_counter() - begin
    inputs, labels = network.inputs(vectors)
    codes = Host(graph, opened.store, design, opened.callables)(**inputs)
    begin = time.perf_counter()
    built = build(design, vectors, folder / "builds", "verilator")
    seconds = time.perf_counter() - begin
    runs = [run(design, built, codes, stall) for stall in STALLS]
    planned = schedule(design)
    ends = [runs[0].cycles[w].reshape(vectors, -1)[:, -1] for w in design.ends]
    paced = min(4, vectors - 1)
    found: dict[str, Any] = {
        "vectors": vectors, "streams": len(list(design.all_wires())), "instances": len(design.instances),
        "mismatches": sum(m.count for r in runs for m in r.mismatches), "stuck": any(r.stuck for r in runs),
        "interval_cycles": float(np.mean([(e[-1] - e[paced - 1]) / (vectors - paced) for e in ends])),
        "interval_predicted": planned.interval, "latency_predicted": planned.latency,
        "bottleneck": planned.bottleneck, "emit_s": round(emitted, 2), "build_s": round(seconds, 1),
        "run_s": [round(r.seconds, 1) for r in runs],
    }  # fmt: skip
    outputs = structured(graph, tensors(design, runs[0].outputs))
    return {**found, **_agreement(opened, graph, design, inputs, labels, outputs)}


def sized(text: str) -> dict[str, int]:
    """Sizes of symbols from their text."""
    from verilog.options import sizes_in

    return sizes_in(text)


def _agreement(opened: Opened, graph: Any, design: Any, inputs: dict[str, Tensor], labels: Tensor | None,
               outputs: Any) -> dict[str, Any]:  # fmt: skip
    """RTL's outputs against the exact mode (equal), the fake-quantised and the float model."""
    got = _first(outputs)
    exact = _first(Exact(graph, opened.store, design, opened.callables)(**inputs))
    models: dict[str, nn.Module] = {
        "float": build_module(opened.project.base, opened.store, opened.callables),
        "fake_quantised": build_module(graph, opened.store, opened.callables),
    }
    with torch.no_grad():
        others = {name: _first(m(**inputs)) for name, m in models.items()}
    found: dict[str, Any] = {"rtl_equals_exact_mode": bool(torch.equal(got, exact))}
    for name, values in others.items():
        found[f"same_class_as_{name}"] = round(float((values.argmax(-1) == got.argmax(-1)).double().mean()), 4)
    if labels is not None:
        count = min(len(labels), len(got))
        for name, values in {"rtl": got, **others}.items():
            right = (values[:count].argmax(-1) == labels[:count]).double().mean()
            found[f"test_accuracy_{name}"] = round(float(right), 4)
    return found


def _first(outputs: Any) -> Tensor:
    if isinstance(outputs, dict):
        return next(iter(outputs.values()))
    return outputs[0] if isinstance(outputs, tuple | list) else outputs


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only")
    parser.add_argument("--vectors", type=int)
    given = parser.parse_known_args()[0]
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, network in NETWORKS.items():
            if given.only in (None, name):
                rows[name] = figures(network, given.vectors or network.vectors, Path(folder))
    report("rtl_networks", {"stalls": list(STALLS), "networks": rows})


if __name__ == "__main__":
    main()
