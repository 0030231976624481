"""Convolutions on activations in blocks (MXINT): equal to the model, simulated bit for bit, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.formats.mxint import MXInt
from espalier.model.torch.build import build as build_module
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.simulate import build, run
from tests.verilog.checks import needs_icarus
from tests.verilog.test_format_ops import quantised

FIRST = "integer(width=8, frac_width=4)"
BETWEEN = {"data_in": FIRST, "weight": FIRST, "bias": FIRST, "data_out": "integer(width=10, frac_width=6)"}
NETS = {  # the layer whose activations are in blocks, its input, the op, the modules that come of it
    "signed": ("nn.Conv2d(4, 2, 3)", "2, 5, 6", "conv2d", "linear"),
    "2-D": ("nn.Conv2d(4, 6, 3, padding=1)", "2, 5, 6", "conv2d", "linear"),
    "groups": ("nn.Conv2d(4, 6, 3, groups=2)", "2, 5, 5", "conv2d", "linear"),
    "depthwise": ("nn.Conv2d(4, 4, 3, groups=4, stride=2, padding=1)", "2, 6, 7", "conv2d", "depthwise"),
    "1-D": ("nn.Conv1d(4, 3, 3, padding=2, dilation=2)", "2, 9", "conv1d", "linear"),
    "3-D": ("nn.Conv3d(4, 2, 2, padding=1)", "2, 3, 3, 4", "conv3d", "linear"),
}
BLOCKS = {"data_in": "mxint(width=5, block=4)", "bias": "integer(width=12, frac_width=10)"}


def networks(net: str, weight: str):
    """A layer in fixed point, and one whose operand is in blocks behind it."""
    layer, shape, op, _ = NETS[net]
    dims = len(shape.split(",")) - 1
    made = f"nn.Sequential(nn.Conv{dims}d(2, 4, 1), {'nn.Identity' if net == 'signed' else 'nn.ReLU'}(), {layer})"
    formats = {op: BETWEEN}
    found, graph = quantised((made, "return self.m(x)", shape), **formats)
    from espalier.passes.base import Context, run_step
    from espalier.passes.recipes.config import load_recipe

    rule = {"select": {"by": "name", "values": ["m.2"]}, "formats": {**BLOCKS, "weight": weight}}
    step = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": [rule]}}]}).steps[0]
    x = torch.randn(4, *map(int, shape.split(",")), generator=torch.Generator().manual_seed(1)) * 3
    return found, run_step(graph, step, Context(found.store)).graph, x


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("engine", ["folded", "unrolled"])
@pytest.mark.parametrize("weight", ["integer(width=6, frac_width=5)", "mxint(width=5, block=8)"])
@pytest.mark.parametrize("net", NETS)
def test_activations_in_blocks_convolve_exactly(net: str, weight: str, engine: str) -> None:
    found, graph, x = networks(net, weight)
    design = lower(graph, found.store, EmitOptions(engine=engine))  # type: ignore[arg-type]
    assert "block_mantissa" in {i.module for i in design.instances}
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("net", NETS)
def test_activations_in_blocks_simulate(tmp_path: Path, net: str) -> None:
    found, graph, x = networks(net, "integer(width=6, frac_width=5)")
    design = lower(graph, found.store, EmitOptions())
    assert {"block_exponent", "block_mantissa", NETS[net][3]} <= {i.module for i in design.instances}
    codes = Host(graph, found.store, design)(x=x)
    built = build(design, len(x), tmp_path / "builds", "icarus")
    for stall in (0, 3):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)


def test_wide_elements_hold_all_that_comes() -> None:
    found, graph, x = networks("2-D", "integer(width=6, frac_width=5)")
    node = next(n for n in graph if "mxint" in str(n.precision.get("data_in")).lower())
    from dataclasses import replace

    wide = replace(node.precision["data_in"], format=MXInt(13, 4))
    graph = graph.replace(replace(node, precision={**node.precision, "data_in": wide}))
    design = lower(graph, found.store, EmitOptions())
    assert "block_mantissa" not in {i.module for i in design.instances}
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_tiles_and_what_the_host_sends_are_refused() -> None:
    layer = {"weight": FIRST, "bias": FIRST}
    net = ("nn.Conv2d(2, 4, 1)", "return self.m(x)", "2, 5, 5")
    found, graph = quantised(net, conv2d={"data_in": "mxint(width=6)", **layer})
    with pytest.raises(EmitError, match="the host only sends"):
        lower(graph, found.store, EmitOptions())
    found, graph = quantised(net, conv2d={"data_in": "mxint(width=6, rows=2)", **layer})
    with pytest.raises(EmitError, match="several rows"):
        lower(graph, found.store, EmitOptions())
