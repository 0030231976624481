"""Ops one by one, as models write them: hardware's integers equal the fake-quantised model, and the RTL them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import lower
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.templates.divide import Divide
from espalier.verilog.templates.gather import Gather
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes
from tests.verilog.test_images import SELF, equal, opened, quantised

ROWS = "nn.Linear(6, 6)"
NETS = [
    ("nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)", SELF, "3, 3, 4"),
    ("nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)", SELF, "4, 3, 2"),
    ("nn.ConvTranspose2d(3, 2, 3, dilation=2)", SELF, "3, 3, 3"),
    ("nn.ConvTranspose1d(3, 4, 4, stride=2, padding=1)", SELF, "3, 5"),
    ("nn.Upsample(scale_factor=2)", SELF, "3, 4, 5"),
    ("nn.Identity()", "return F.interpolate(x, size=(7, 9))", "3, 4, 5"),
    ("nn.ReflectionPad2d(1)", SELF, "3, 4, 5"),
    (ROWS, "return F.pad(self.m(x), (0, 0, 1, 0))", "4, 6"),
    (ROWS, "return self.m(x).repeat(1, 2, 1), torch.relu(self.m(x)).repeat_interleave(2, 1)", "3, 6"),
    (ROWS, "return torch.index_select(self.m(x), 2, torch.tensor([5, 0, 1]))", "3, 6"),
    (ROWS, "return torch.stack([x, self.m(x)], 1).unfold(2, 2, 1)", "3, 6"),
    ("nn.PixelUnshuffle(2)", SELF, "2, 4, 6"),
    (ROWS, "y = self.m(x)\nreturn y @ y.mT", "3, 6"),
    (ROWS, "return self.m(x) / (x.abs() + 1), x / x.abs().sum(-1, keepdim=True)", "3, 6"),
    (ROWS, "return torch.maximum(x, self.m(x)) - torch.minimum(x, torch.relu(x))", "3, 6"),
    (ROWS, "return torch.add(x, self.m(x), alpha=2)", "3, 6"),
    (ROWS, "return self.m(x).amax(-1), x.sum(-1), x.sum((1, 2))", "3, 6"),
    ("nn.Conv2d(3, 4, 3, padding=1)", "return x.mean(1, keepdim=True) * self.m(x)", "3, 3, 3"),
    ("nn.AdaptiveMaxPool2d(2)", SELF, "3, 4, 6"),
]


@pytest.mark.parametrize(("module", "body", "shape"), NETS)
def test_integers_equal_the_fake_quantised_model(module: str, body: str, shape: str) -> None:
    found = opened(module, body, shape)
    equal(found, quantised(found))


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(("module", "body", "shape"), [*NETS, ("nn.Softmax(1)", SELF, "3, 4")])
def test_every_stream_equals_its_integers(tmp_path: Path, module: str, body: str, shape: str) -> None:
    found = opened(module, body, shape)
    design = lower(quantised(found), found.store, EmitOptions())
    rng = np.random.default_rng(0)
    inputs = tuple(random_codes(rng, b.stream, 3) for b in design.inputs)
    built = build(design, 3, tmp_path / "builds", "icarus")
    for stall in range(4):
        done = run(design, built, inputs, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)


RESIDUAL = """y = self.m[1](self.m[0](x))
y = self.m[3](self.m[2](torch.relu(y)))
return torch.relu(y + self.m[5](self.m[4](x)))"""
LAYERS = ("nn.ModuleList([nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1), "
          "nn.BatchNorm2d(4), nn.Conv2d(3, 4, 1, stride=2), nn.BatchNorm2d(4)])")  # fmt: skip


@pytest.mark.parametrize("folds", [True, False])
def test_a_residual_block_with_batch_norms(folds: bool) -> None:
    """Folded into the convolutions it equals the model; its two branches meet again."""
    from espalier.passes.base import Context, run_step
    from espalier.passes.recipes.config import load_recipe

    found = opened(LAYERS, RESIDUAL, "3, 6, 6")
    if folds:
        step = load_recipe({"steps": [{"pass": "fold_batch_norm"}]}).steps[0]
        graph = run_step(found.project.base, step, Context(found.store)).graph
        found = replace(found, project=replace(found.project, base=graph))
    graph = quantised(found)
    design = equal(found, graph) if folds else lower(graph, found.store, EmitOptions())
    rng = np.random.default_rng(0)
    codes = tuple(random_codes(rng, b.stream, 2) for b in design.inputs)
    assert all(np.isfinite(v).all() for v in design.run(*codes).values())


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(st.data())
def test_divide(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    def form() -> Fixed:
        return Fixed(data.draw(st.integers(1, 9)), data.draw(st.integers(-2, 6)), data.draw(st.booleans()))

    x, divisor, y = form(), form(), form()
    par, rounding = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(["nearest_even", "floor"]))
    streams = [Stream(2, 2 * par, f, par) for f in (x, divisor, y)]
    made = Divide(name="d", node="d", inputs=tuple(streams[:2]), outputs=(streams[2],), rounding=rounding)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = tuple(random_codes(rng, s, 3) for s in streams[:2])
    some = codes[1] != 0
    wanted = y.encode(x.values(codes[0]) / np.where(some, divisor.values(codes[1]), 1.0), rounding)
    np.testing.assert_array_equal(made.reference(*codes)[0][some], wanted[some])
    cache = tmp_path_factory.mktemp("builds")
    proven(made, codes, cache)
    on_time(made, codes, cache)


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(st.integers(1, 6), st.lists(st.integers(-1, 5), min_size=1, max_size=9), st.integers(1, 3))
def test_gather(tmp_path_factory: pytest.TempPathFactory, came: int, picked: list[int], par: int) -> None:
    beats, fixed = np.array(picked) % (came + 1) - 1, Fixed(5, 2)
    x, y = Stream(1, came * par, fixed, par), Stream(1, len(beats) * par, fixed, par)
    made = Gather(name="g", node="g", inputs=(x,), outputs=(y,), beats=beats, pad=-3)
    codes, cache = (random_codes(np.random.default_rng(0), x, 3),), tmp_path_factory.mktemp("builds")
    proven(made, codes, cache)
    on_time(made, codes, cache)
