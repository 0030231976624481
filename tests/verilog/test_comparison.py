"""Comparisons, selections, constant streams and log-softmax: integer model against the model, RTL against both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.errors import EmitError
from espalier.model.torch.build import build as build_module
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.stream import Stream
from espalier.verilog.emulation.integer_model import IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.numbers.fixed import Fixed, covering
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.templates.choose import Choose
from espalier.verilog.templates.threshold import Threshold
from tests.verilog.checks import needs_icarus, proven, random_codes
from tests.verilog.test_fold import FORMATS, ROUNDINGS
from tests.verilog.test_images import SELF, opened, quantised

LAYER, WIDE = "nn.Linear(6, 4)", "3, 6"
CASES = {
    "a leaky line": (LAYER, "y = self.m(x)\nreturn torch.where(y > 0, y, y * 0.25)", WIDE),
    "the larger of two": (LAYER, "y = self.m(x)\nz = torch.tanh(y)\nreturn torch.where(y >= z, y, z)", WIDE),
    "below a number": (LAYER, "y = self.m(x)\nreturn torch.where(y < 0.3, 1.5, y), torch.where(0.3 < y, y, -1.0)",
                       WIDE),
    "a gate of bits": (LAYER, "y = self.m(x)\nreturn y * (y <= 0.5), (y > 0.25).float()", WIDE),
    "equal": (LAYER, "y = self.m(x)\nz = F.relu(y)\nreturn torch.where(y == z, y, 0.5), (y != 0.25).float()", WIDE),
    "never equal": (LAYER, "y = self.m(x)\nreturn (y == 0.001).float(), (y != 1e9).float()", WIDE),
    "bits of bits": (LAYER, "y = self.m(x)\nreturn torch.where((y > -1) & ~(y > 0.5) | (y > 1.5), y, 0.0)", WIDE),
    "filled": (LAYER, "y = self.m(x)\nreturn y.masked_fill(y > 0.5, 0.5)", WIDE),
    "broadcast": (LAYER, "y = self.m(x)\nreturn torch.where(y[:, :1] > 0, y, 0.0)", WIDE),
    "constants": (LAYER, "y = self.m(x)\nt = torch.tensor([0.5, -0.25, 0.0, 1.0])\nreturn torch.where(y > t, y, t)",
                  WIDE),
    "an image": ("nn.Conv2d(2, 3, 2)", "y = self.m(x)\nreturn torch.where(y > y.mean((2, 3), keepdim=True), y, 0.0)",
                 "2, 4, 3"),
    "a token in front": (
        "nn.Linear(6, 6)",
        "y = self.m(x)\nt = torch.linspace(-1, 1, 6).expand(x.shape[0], 1, -1)\nreturn self.m(torch.cat([t, y], 1))",
        WIDE,
    ),
    "a constant matrix": (
        "nn.Linear(6, 6)", "return torch.matmul(self.m(x), torch.linspace(-1, 1, 18).reshape(1, 6, 3))", WIDE,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_integers_equal_the_fake_quantised_model(name: str) -> None:
    found = opened(*CASES[name])
    graph = quantised(found)
    design = lower(graph, found.store, EmitOptions())
    sizes = graph.nodes["x"].ports["data_out"].sizes({**graph.symbols, "batch": 16})
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1)) * 2
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store)(x=x)  # sums of few bits
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0, atol=0)
    assert len(design.inputs) == 1, "what is constant does not come from the host"


def _streams(design: Design, folder: Path, frames: int = 3) -> None:
    rng = np.random.default_rng(0)
    inputs = tuple(random_codes(rng, b.stream, frames) for b in design.inputs)
    simulation = build(design, frames, folder / "builds", "icarus")
    for stall in range(4):
        done = run(design, simulation, inputs, stall, limit=1_000_000)
        assert not done.stuck
        assert not done.mismatches, (stall, done.mismatches)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("name", CASES)
def test_every_stream_equals_its_integers(tmp_path: Path, name: str) -> None:
    found = opened(*CASES[name])
    _streams(lower(quantised(found), found.store, EmitOptions()), tmp_path)


@st.composite
def choices(draw: st.DrawFn) -> Choose:
    """Two streams of any formats."""
    par, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    a, b, y = (draw(FORMATS) for _ in range(3))
    frac = max(a.frac, b.frac)
    ends = [v << (frac - f.frac) for f in (a, b) for v in (f.low, f.high)]
    streams = [Stream(2 * tokens, 2 * par, f, par, tokens) for f in (Fixed(1, 0, False), a, b, y)]
    return Choose(name="choose", node="where", inputs=tuple(streams[:3]), outputs=(streams[3],),
                  rounding=draw(ROUNDINGS), total=covering(min(-1, *ends), max(ends), frac))  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(choices(), st.integers(0, 2**32 - 1))
def test_choices_equal_their_integer_model(tmp_path_factory: pytest.TempPathFactory, made: Choose, seed: int) -> None:
    rng = np.random.default_rng(seed)
    proven(made, tuple(random_codes(rng, s, 4) for s in made.inputs), tmp_path_factory.mktemp("builds"))


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(FORMATS, st.data(), st.booleans())
def test_thresholds_equal_their_integer_model(
    tmp_path_factory: pytest.TempPathFactory, form: Fixed, data: st.DataObject, below: bool
) -> None:
    x = Stream(2, 6, form, 3)
    least = data.draw(st.sampled_from((form.low, 0, form.high, form.high + 1)))
    made = Threshold(name="t", node="gt", inputs=(x,), outputs=(Stream(2, 6, Fixed(1, 0, False), 3),), least=least,
                     below=below)  # fmt: skip
    proven(made, (random_codes(np.random.default_rng(0), x, 4),), tmp_path_factory.mktemp("builds"))


@pytest.mark.parametrize(("size", "dim"), [(4, -1), (10, -1), (50, -1), (5, 1)])
def test_log_softmax_is_within_a_step_of_torch(size: int, dim: int) -> None:
    found = opened(f"nn.Linear(6, {size})", f"return F.log_softmax(self.m(x), {dim})", WIDE)
    graph = quantised(found)
    design = lower(graph, found.store, EmitOptions())
    x = torch.randn(40, 3, 6, generator=torch.Generator().manual_seed(1)) * 4
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    assert (got - want).abs().max() <= design.outputs[0].stream.fixed.values(np.ones(1, np.int64))[0]
    assert (got != want).double().mean() < 0.1


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
def test_log_softmax_equals_its_integers(tmp_path: Path) -> None:
    found = opened("nn.Linear(6, 10)", "return F.log_softmax(self.m(x), -1)", WIDE)
    _streams(lower(quantised(found), found.store, EmitOptions()), tmp_path)


def test_what_the_host_holds_is_not_compared() -> None:
    found = opened("nn.Linear(6, 6)", "return torch.where(self.m(x) > x, 1.0, 0.0) * 2", WIDE)
    with pytest.raises(EmitError, match="compares x, which the host computes"):
        lower(quantised(found), found.store, EmitOptions())


def test_a_choice_by_numbers_is_refused() -> None:
    found = opened("nn.Linear(6, 6)", SELF.replace("self.m(x)", "torch.logical_not(self.m(x))"), WIDE)
    with pytest.raises(EmitError, match="as booleans"):
        lower(quantised(found), found.store, EmitOptions())
