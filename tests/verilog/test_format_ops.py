"""Formats beyond fixed point at other operations than Linear: computed and simulated, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened
from espalier.model.torch.build import build as build_module
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.simulate import build, run
from tests.verilog.checks import needs_icarus
from tests.verilog.test_images import SELF
from tests.verilog.test_images import opened as made

FIXED = "integer(width=8, frac_width=4)"
MX, ROWS, ONE = "mxint(width=8)", "scaled_integer(width=8)", "scaled_integer(width=8, granularity=tensor)"
DEPTHWISE = ("nn.Conv2d(4, 4, 3, groups=4, padding=1)", SELF, "4, 5, 5")
PRODUCT = ("nn.Linear(8, 8)", "y = self.m(x)\nreturn y @ y.mT", "4, 8")
LINEAR = {"data_in": FIXED, "weight": FIXED, "bias": FIXED}


def quantised(net: tuple[str, str, str], **formats: dict[str, str]) -> tuple[Opened, Graph]:
    """A network whose ops of some types have formats."""
    found = made(*net)
    rules = [{"select": {"by": "type", "values": [op]}, "formats": held} for op, held in formats.items()]
    step = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": rules}}]}).steps[0]
    return found, run_step(found.project.base, step, Context(found.store)).graph


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("weight", [ROWS, "ternary()", "binary_scaled()", ONE])
@pytest.mark.parametrize("net", [DEPTHWISE, ("nn.Conv2d(4, 6, 3, groups=2)", SELF, "4, 5, 5")])
def test_scaled_convolutions_in_groups(tmp_path: Path, net: tuple[str, str, str], weight: str) -> None:
    found, graph = quantised(net, conv2d={"data_in": FIXED, "weight": weight})
    design = lower(graph, found.store, EmitOptions())
    assert "scale_shift" in {i.module for i in design.instances}
    x = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(1))
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4)
    codes = Host(graph, found.store, design)(x=x)
    done = run(design, build(design, 3, tmp_path / "builds", "icarus"), codes, 3, limit=1_000_000)
    assert not done.stuck and not done.mismatches


VOLUME = ("nn.Conv3d(2, 3, 2, padding=1)", SELF, "2, 3, 3, 3")


@pytest.mark.parametrize("engine", ["folded", "unrolled"])
@pytest.mark.parametrize(
    ("net", "op"), [(DEPTHWISE, "conv2d"), (("nn.Conv2d(4, 6, 3, groups=2)", SELF, "4, 5, 5"), "conv2d"),
                    (VOLUME, "conv3d")]
)  # fmt: skip
def test_weights_in_blocks_convolve_exactly(net: tuple[str, str, str], op: str, engine: str) -> None:
    formats = {"data_in": FIXED, "weight": "mxint(width=6, block=16)", "bias": "integer(width=12, frac_width=10)"}
    found, graph = quantised(net, **{op: formats})
    design = lower(graph, found.store, EmitOptions(engine=engine))  # type: ignore[arg-type]
    x = torch.randn(5, *map(int, net[2].split(",")), generator=torch.Generator().manual_seed(1)) * 3
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("weight", [ROWS, "ternary()", "binary()"])
def test_scaled_volumes(weight: str) -> None:
    bias = {"bias": FIXED} if weight == "binary()" else {}
    found, graph = quantised(VOLUME, conv3d={"data_in": FIXED, "weight": weight, **bias})
    design = lower(graph, found.store, EmitOptions())
    x = torch.randn(5, 2, 3, 3, 3, generator=torch.Generator().manual_seed(1))
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4)


WIDE = {"data_in": FIXED, "weight": "mxint(width=28)"}


@pytest.mark.parametrize(
    ("net", "formats", "says", "hint"),
    [
        (DEPTHWISE, {"conv2d": WIDE}, "range of exponents", "fewer bits"),
        (("nn.Conv3d(2, 2, 2, groups=2)", *VOLUME[1:]), {"conv3d": LINEAR}, "has groups", "groups=1"),
        (DEPTHWISE, {"conv2d": {"data_in": MX, "weight": FIXED}}, "the host only sends", "first layer"),
        (PRODUCT, {"linear": LINEAR, "matmul": {"data_in": MX, "weight": MX}}, "data_in of matmul is in", "Only la"),
        (PRODUCT, {"linear": LINEAR, "matmul": {"data_in": ROWS, "weight": FIXED}}, "one scale", "granularity=tensor"),
        (PRODUCT, {"linear": LINEAR, "matmul": {"data_in": ONE, "weight": FIXED}}, "from each sample", "calibrate"),
        (("nn.ConvTranspose2d(3, 4, 3, stride=2)", SELF, "3, 4, 4"),
         {"conv_transpose2d": {"data_in": FIXED, "weight": ROWS}}, "not `integer`", "integer"),
    ],
)  # fmt: skip
def test_what_has_no_hardware_names_its_node(
    net: tuple[str, str, str], formats: dict[str, dict[str, str]], says: str, hint: str
) -> None:
    found, graph = quantised(net, **formats)
    with pytest.raises(EmitError, match=says) as caught:
        lower(graph, found.store, EmitOptions())
    assert hint in caught.value.hint and caught.value.node in graph.nodes
