"""The digits' MLP in each family of formats: near the fake-quantised model, and simulated bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.data.digits import load_digits
from espalier.model.errors import EmitError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build as build_module
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.proof.tools import verilator
from espalier.verilog.rtl.write import texts
from tests.verilog.checks import needs_icarus

FIXED = "integer(width=8, frac_width=4)"
SCALED = "scaled_integer(width=8, granularity=tensor"
ROWS = "scaled_integer(width=8, granularity=channel)"
BIAS = {"bias": "integer(width=16, frac_width=10)"}
MX = "mxint(width=6, block=16)"
# formats of all layers; those of the first one besides; the modules that come of it
CASES: dict[str, tuple[dict[str, str], dict[str, str], set[str]]] = {
    "scales": ({"data_in": f"{SCALED})", "weight": ROWS}, {}, {"linear", "scale_shift"}),
    "zero points": ({"data_in": f"{SCALED}, symmetric=false)", "weight": ROWS}, {}, {"linear", "scale_shift"}),
    "fixed point by scales": ({"data_in": FIXED, "weight": ROWS, **BIAS}, {}, {"linear", "scale_shift"}),
    "scales with data_out": (
        {"data_in": f"{SCALED})", "weight": ROWS, "data_out": FIXED}, {}, {"linear", "scale_shift"}
    ),
    "ternary": ({"data_in": FIXED, "weight": "ternary()"}, {}, {"linear_signs", "scale_shift"}),
    "signs": (
        {"data_in": "binary(bipolar=false)", "weight": "binary_scaled()"}, {"data_in": FIXED},
        {"linear_signs", "scale_shift", "threshold"},
    ),
    "signs of both": ({"data_in": "binary()", "weight": "binary()", **BIAS}, {}, {"linear_signs", "threshold"}),
    "blocks of weights": ({"data_in": FIXED, "weight": MX, **BIAS}, {}, {"linear_block_weights"}),
    "blocks": (
        {"data_in": MX, "weight": MX, **BIAS}, {"data_in": FIXED},
        {"linear_blocks", "block_exponent", "block_mantissa"},
    ),
    "blocks by fixed point": (
        {"data_in": MX, "weight": FIXED, **BIAS}, {"data_in": FIXED},
        {"linear", "linear_blocks", "block_exponent", "block_mantissa"},
    ),
}  # fmt: skip

Emitted = Callable[[str], tuple[Graph, Design]]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("work"))


def stepped(opened: Opened, *steps: dict[str, Any]) -> Graph:
    """The demo after some steps."""
    graph = opened.project.base
    for step in load_recipe({"steps": list(steps)}).steps:
        graph = run_step(graph, step, Context(opened.store)).graph
    return graph


@pytest.fixture(scope="module")
def emitted(opened: Opened) -> Emitted:
    """The graph of a case and its design, made once."""

    @cache
    def made(name: str) -> tuple[Graph, Design]:
        graph = quantised(opened, name)
        return graph, lower(graph, opened.store, EmitOptions())

    return made


def quantised(opened: Opened, name: str) -> Graph:
    """In the formats of a case, calibrated, with some parallelism."""
    layers, first, _ = CASES[name]
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": layers}]
    if first:
        rules.append({"select": {"by": "name", "values": ["fc1"]}, "formats": first})
    return stepped(
        opened,
        {"pass": "quantize", "options": {"rules": rules}},
        {"pass": "calibrate", "options": {"data": "demo:digits", "limit": 200}},
        {"pass": "balance_parallelism", "options": {"multipliers": 48}},
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_integers_are_near_the_fake_quantised_model(opened: Opened, emitted: Emitted, name: str) -> None:
    graph, design = emitted(name)
    assert {i.module for i in design.instances} >= CASES[name][2]
    x = torch.from_numpy(load_digits()["test"].inputs["x"])
    got = IntegerModel(graph, opened.store, design)(x=x)
    with torch.no_grad():
        want = build_module(graph, opened.store).double()(x=x.double())
    exact = not {"scale_shift"} & {i.module for i in design.instances}
    torch.testing.assert_close(got, want, rtol=0, atol=0 if exact else 0.02 * float(want.abs().max()))
    assert float((got.argmax(-1) == want.argmax(-1)).double().mean()) > 0.98


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.skipif(verilator() is None, reason="verilator is not installed")
@pytest.mark.parametrize("name", ["scales", "zero points", "ternary", "signs"])
def test_scales_raise_no_warnings(opened: Opened, emitted: Emitted, name: str) -> None:
    graph, design = emitted(name)
    assert not lint(texts(design), "top").findings
    folded = graph.replace(*(replace(n, parallel=None) for n in graph))
    assert not lint(texts(lower(folded, opened.store, EmitOptions())), "top").findings


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_stream_equals_its_integers(opened: Opened, emitted: Emitted, tmp_path: Path, name: str) -> None:
    graph, design = emitted(name)
    codes = Host(graph, opened.store, design)(x=torch.from_numpy(load_digits()["test"].inputs["x"][:3]))
    built = build(design, 3, tmp_path / "builds", "icarus")
    for stall in range(4):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck
        assert not done.mismatches, (stall, done.mismatches)


@pytest.mark.parametrize(
    ("formats", "says"),
    [
        ({"data_in": f"{SCALED})", "weight": ROWS}, "dynamic scale"),
        ({"data_in": ROWS, "weight": ROWS}, "one scale"),
        ({"data_in": MX, "weight": MX}, "the host only sends"),
        ({"data_in": FIXED, "weight": "mxfp()"}, "weight of fc1 is in"),
        ({"data_in": "mxfp()", "weight": FIXED}, "data_in of fc1 is in"),
        ({"data_in": FIXED, "weight": "scaled_integer(granularity=group, group=16)"}, "weight of fc1 is in"),
        ({"data_in": FIXED, "weight": "binary(stochastic=true)"}, "weight of fc1 is in"),
        ({"data_in": f"{SCALED})", "weight": MX}, "dynamic scale"),
    ],
)  # fmt: skip
def test_what_has_no_hardware_names_the_node(opened: Opened, formats: dict[str, str], says: str) -> None:
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": formats}]
    graph = stepped(opened, {"pass": "quantize", "options": {"rules": rules}})
    with pytest.raises(EmitError, match=says) as caught:
        lower(graph, opened.store, EmitOptions())
    assert caught.value.node == "fc1"
    assert caught.value.hint


@pytest.mark.slow
def test_bits_between_layers_train(opened: Opened) -> None:
    bits, wide = {"data_in": "binary(bipolar=false)", "weight": "binary_scaled()"}, {"data_in": FIXED, "weight": ROWS}
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": bits}]
    rules += [{"select": {"by": "name", "values": ["fc1"]}, "formats": wide}]
    rules += [{"select": {"by": "name", "values": ["fc3"]}, "formats": {**wide, "data_in": bits["data_in"]}}]
    training = {"data": "demo:digits", "epochs": 6, "learning_rate": 1e-2, "validate": False}
    graph = stepped(
        opened, {"pass": "quantize", "options": {"rules": rules}}, {"pass": "finetune", "options": training}
    )
    design = lower(graph, opened.store, EmitOptions())
    assert {"linear_signs", "threshold"} <= {i.module for i in design.instances}
    tests = load_digits()["test"]
    got = IntegerModel(graph, opened.store, design)(x=torch.from_numpy(tests.inputs["x"])).argmax(-1).numpy()
    assert (got == tests.labels).mean() > 0.5, "chance where the gradient of bits is wrong"
