"""The demos' whole networks: every beat of every stream equals its integers, and moves when the schedule says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from espalier.model.data.digits import load_digits
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import needs_icarus

FORMATS = {"data_in": "integer(width=8, frac_width=4)", "weight": "integer(width=8, frac_width=6)",
           "bias": "integer(width=12, frac_width=8)"}  # fmt: skip
LAYERS = {"by": "type", "values": ["linear", "conv2d"]}


def emitted(source: str, folder: Path, multipliers: int, *before: str) -> tuple[Design, Host]:
    """The design of a demo with formats and parallelism, and what feeds it."""
    opened = open_any(source, folder, origin=Origin.TYPED)
    steps: list[dict[str, object]] = [{"pass": name} for name in before]
    steps.append({"pass": "quantize", "options": {"rules": [{"select": LAYERS, "formats": FORMATS}]}})
    steps.append({"pass": "balance_parallelism", "options": {"multipliers": multipliers}})
    graph = opened.project.base
    for step in load_recipe({"steps": steps}).steps:
        graph = run_step(graph, step, Context(opened.store)).graph
    design = lower(graph, opened.store, EmitOptions())
    return design, Host(graph, opened.store, design)


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "multipliers", "before"),
    [("demo:digits-mlp", 32, ()), ("demo:digits", 512, ("fold_batch_norm",)), ("demo:digits", 512, ())],
)
def test_demos_run_whole(tmp_path: Path, source: str, multipliers: int, before: tuple[str, ...]) -> None:
    design, host = emitted(source, tmp_path, multipliers, *before)
    codes = host(x=torch.from_numpy(load_digits()["test"].inputs["x"][:3]))
    built = build(design, 3, tmp_path / "builds", "icarus")
    for stall in range(4):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck
        assert not done.mismatches, (stall, done.mismatches)
        if stall == 0:
            planned = schedule(design, 3)
            for wire in design.ends:
                np.testing.assert_array_equal(np.diff(done.cycles[wire]), np.diff(planned.stamps[wire]))
