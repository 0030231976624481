"""The unrolled engine: a row or a pixel a cycle, bit for bit, alone and in whole networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.model.data.digits import load_digits
from espalier.model.document.recipe import Step
from espalier.model.errors import EmitError, OptionsError
from espalier.model.opening import open_any
from espalier.model.torch.build import build as build_module
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.design.stream import Stream
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering import unrolling
from espalier.verilog.lowering.lower import lower
from espalier.verilog.lowering.sums import summed
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.rtl.write import texts
from espalier.verilog.templates.lines import Lines, completes_in_order
from espalier.verilog.templates.unrolled import Unrolled
from espalier.verilog.templates.window import Walk
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import alone, needs_icarus, on_time, proven, random_codes
from tests.verilog.test_images import opened, quantised

UNROLLED = EmitOptions(engine="unrolled")
SELF = "return self.m(x)"


@st.composite
def layers(draw: st.DrawFn) -> tuple[Unrolled, np.random.Generator]:
    """A small layer of any formats."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size_in, size_out, rows = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.integers(1, 2))
    x = Fixed(draw(st.integers(1, 9)), draw(st.integers(-2, 8)), draw(st.booleans()))
    form, bias = Fixed(draw(st.integers(2, 9)), draw(st.integers(-2, 9))), Fixed(8, draw(st.integers(-2, 12)))
    weight = rng.integers(form.low, form.high + 1, (size_out, size_in))
    weight *= rng.random(weight.shape) < draw(st.sampled_from((0.3, 1.0)))
    given_bias = (rng.integers(bias.low, bias.high + 1, size_out), bias) if draw(st.booleans()) else None
    accumulator, biases = summed(weight, form, x, given_bias)
    y = Fixed(draw(st.integers(1, 12)), draw(st.integers(-4, 12)), draw(st.booleans()))
    made = Unrolled(
        name="fc", node="fc", inputs=(Stream(rows, size_in, x, size_in),),
        outputs=(Stream(rows, size_out, y, size_out),), weight=weight, weight_format=form, bias=biases,
        accumulator=accumulator, span=(x.low, x.high), every=draw(st.integers(1, 5)),
        rounding=draw(st.sampled_from(("nearest_even", "floor"))), relu=draw(st.booleans()),
    )  # fmt: skip
    return made, rng


def halfway(places: int) -> tuple[Unrolled, np.random.Generator]:
    """Sums that are all odd multiples of half a step: their adders carry none of the `places` that are dropped."""
    x, form, bias = Fixed(1, 6 - places, False), Fixed(2, 1), (np.array([0, 27, 120, 58]), Fixed(8, 7))
    weight = np.array([[1], [0], [0], [-1]])
    accumulator, biases = summed(weight, form, x, bias)
    made = Unrolled(
        name="fc", node="fc", inputs=(Stream(1, 1, x, 1),), outputs=(Stream(1, 4, Fixed(4, 5, False), 4),),
        weight=weight, weight_format=form, bias=biases, accumulator=accumulator, span=(x.low, x.high), every=1,
    )  # fmt: skip
    return made, np.random.default_rng(0)


def shifted(frac: int, weight_frac: int, accumulator: int) -> tuple[Unrolled, np.random.Generator]:
    """A sum of the least range, whose operand is shifted by as many places as it has bits."""
    x, form = Fixed(1, frac, False), Fixed(4, weight_frac)
    made = Unrolled(
        name="fc", node="fc", inputs=(Stream(1, 1, x, 1),), outputs=(Stream(1, 5, Fixed(1, 0, False), 5),),
        weight=np.array([[0], [7], [-8], [0], [-5]]), weight_format=form, bias=np.zeros(5, np.int64),
        accumulator=Fixed(4, accumulator), span=(x.low, x.high), every=1,
    )  # fmt: skip
    return made, np.random.default_rng(0)


def repeated(weight: list[int], frac: int) -> tuple[Unrolled, np.random.Generator]:
    """A row that repeats another one, where half a step is added to each sum."""
    x, y, form = Fixed(1, 0, False), Fixed(1, 0, False), Fixed(4, frac)
    made = Unrolled(
        name="fc", node="fc", inputs=(Stream(1, 1, x, 1),), outputs=(Stream(1, len(weight), y, len(weight)),),
        weight=np.array(weight)[:, None], weight_format=form, bias=np.zeros(len(weight), np.int64),
        accumulator=form, span=(x.low, x.high), every=1,
    )  # fmt: skip
    return made, np.random.default_rng(0)


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(layers())
@example(shifted(1, 0, 1))
@example(shifted(0, 2, 2))
@example(halfway(2))
@example(halfway(3))
@example(repeated([-1, 0, 4, 7, -8, -6, 5, 7], 6))
@example(repeated([0, -8, 1, -5, -2, -4, 6, 6], 5))
def test_a_layer_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Unrolled, np.random.Generator]
) -> None:
    made, rng = case
    codes = (random_codes(rng, made.inputs[0], 4),)
    proven(made, codes, tmp_path_factory.mktemp("builds"))
    on_time(made, codes, tmp_path_factory.mktemp("builds"))
    assert not lint(texts(alone(made)), "top").findings


@st.composite
def walks(draw: st.DrawFn) -> Lines:
    """An image and a kernel, mostly such that each window has a step of its own."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    image, kernel, step, gap = pair(3, 7), pair(1, 3), pair(1, 3), pair(1, 2)
    if draw(st.booleans()):  # a sequence
        image, kernel, step, gap = ((p[0], 1) for p in (image, kernel, step, gap))
    reach = [(k - 1) * g for k, g in zip(kernel, gap, strict=True)]
    before = tuple(draw(st.integers(0, r)) for r in reach)
    out = tuple((i + b - r - 1) // s + 1 for i, b, r, s in zip(image, before, reach, step, strict=True))
    walk = Walk(image, (max(out[0], 1), max(out[1], 1)), kernel, step, gap, (before[0], before[1]))
    channels, x = draw(st.integers(1, 3)), Fixed(draw(st.integers(1, 5)), 0, draw(st.booleans()))
    size = walk.taps * channels
    return Lines(
        name="l", node="l", inputs=(Stream(walk.pixels, channels, x, channels),), walk=walk,
        outputs=(Stream(walk.places, size, x, size),), pad=draw(st.integers(x.low, x.high)),
    )  # fmt: skip


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(walks().filter(lambda made: completes_in_order(made.walk)))
def test_windows_come_whole(tmp_path_factory: pytest.TempPathFactory, made: Lines) -> None:
    codes = (random_codes(np.random.default_rng(0), made.inputs[0], 4),)
    proven(made, codes, tmp_path_factory.mktemp("builds"))
    on_time(made, codes, tmp_path_factory.mktemp("builds"))
    assert not lint(texts(alone(made)), "top").findings


def simulated(design: Design, codes: tuple[np.ndarray, ...], folder: Path) -> None:
    """Equal under every pattern of pauses, in the cycles of the schedule where nobody pauses."""
    built = build(design, len(codes[0]), folder / "builds", "icarus")
    for stall in range(4):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck
        assert not done.mismatches, (stall, done.mismatches)
        if stall == 0:
            planned = schedule(design, len(codes[0]))
            for wire in design.ends:
                np.testing.assert_array_equal(np.diff(done.cycles[wire]), np.diff(planned.stamps[wire]))


@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
def test_the_digits_run_a_picture_a_cycle(tmp_path: Path) -> None:
    found = open_any("demo:digits-mlp", tmp_path)
    formats = {"data_in": "integer(width=6, frac_width=4)", "weight": "integer(width=4, frac_width=3)",
               "bias": "integer(width=8, frac_width=6)"}  # fmt: skip
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": formats}]
    step = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": rules}}]}).steps[0]
    graph = run_step(found.project.base, step, Context(found.store)).graph
    design = lower(graph, found.store, UNROLLED)
    assert [i.module for i in design.instances] == ["unrolled_fc1", "unrolled_fc2", "unrolled_fc3"]
    planned = schedule(design)
    assert planned.interval == 1
    assert planned.latency <= 11
    assert all(i.area().dsp == 0 for i in design.instances)
    codes = Host(graph, found.store, design)(x=torch.from_numpy(load_digits()["test"].inputs["x"][:6]))
    simulated(design, codes, tmp_path)


NETS = [
    ("nn.Linear(6, 5)", "return torch.relu(self.m(x))", "3, 6", {"linear", "relu"}),
    ("nn.Conv2d(2, 4, 3, stride=2, padding=1)", SELF, "2, 5, 6", {"conv2d"}),
    ("nn.Conv2d(4, 6, 3, padding='same', groups=2)", SELF, "4, 4, 5", {"conv2d"}),
    ("nn.Conv2d(4, 4, 3, padding=1, groups=4)", SELF, "4, 4, 5", {"conv2d"}),
    ("nn.Conv1d(3, 4, 3, stride=2, padding=1)", SELF, "3, 9", {"conv1d"}),
    ("nn.Conv2d(2, 4, 3, padding=1)", "y = self.m(x)\nreturn y + torch.relu(y)", "2, 4, 4", {"conv2d"}),
    ("nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.ReLU(), "
     "nn.Flatten(), nn.Linear(16, 3))", SELF, "1, 6, 6", {"conv2d", "linear"}),
]  # fmt: skip


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("module", "body", "shape", "ops"), NETS)
def test_networks_equal_the_model(tmp_path: Path, module: str, body: str, shape: str, ops: set[str]) -> None:
    found = opened(module, body, shape)
    graph = quantised(found)
    graph = graph.replace(*(replace(n, precision={}) for n in graph if n.op in ("relu", "max_pool2d", "flatten")))
    design = lower(graph, found.store, UNROLLED)
    assert {graph.nodes[i.node].op for i in design.instances if isinstance(i, Unrolled)} == ops - {"relu"}
    assert not any(i.area().dsp for i in design.instances)
    assert ("relu" in ops) <= all(i.module != "relu" for i in design.instances)
    x = torch.randn((5, *graph.nodes["x"].ports["data_out"].sizes({**graph.symbols, "batch": 1})[1:])) * 2
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    simulated(design, Host(graph, found.store, design)(x=x), tmp_path)
    assert not lint(texts(design), "top").findings


@pytest.mark.slow
def test_a_picture_takes_a_cycle_a_pixel() -> None:
    found = opened("nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3))", SELF, "1, 8, 8")
    design = lower(quantised(found), found.store, UNROLLED)
    assert schedule(design).interval <= 64 + 9  # and the row and pixel below the last one's kernel


def test_what_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unrolling, "MOST", 100)
    found = opened("nn.Linear(12, 9)", SELF, "12")
    with pytest.raises(EmitError, match="is too large to unroll") as caught:
        lower(quantised(found), found.store, UNROLLED)
    assert found.project.base.nodes[caught.value.node or ""].op == "linear"
    assert "folded" in caught.value.hint
    assert lower(quantised(found), found.store, EmitOptions()).instances


def test_settings_are_looked_at() -> None:
    with pytest.raises(OptionsError, match="adders is 0"):
        EmitOptions(engine="unrolled", adders=0)


def test_a_top_cannot_be_called_like_a_layer() -> None:
    found = opened("nn.Linear(3, 2)", SELF, "3")
    name = next(n.id for n in found.project.base if n.op == "linear")
    with pytest.raises(EmitError, match="name"):
        lower(quantised(found), found.store, EmitOptions(f"unrolled_{name}", engine="unrolled"))


def test_a_layer_that_stays_folded_says_why() -> None:
    net = "nn.Sequential(nn.Conv2d(1, 2, 3, padding=2), nn.ReLU(), nn.Conv2d(2, 2, 3))"
    found = opened(net, SELF, "1, 5, 5")
    graph = quantised(found)
    design = lower(graph, found.store, UNROLLED)
    folded = {i.node for i in design.instances if i.module == "linear"}
    assert len(folded) == 1 and design.remarks.keys() == folded and "padding" in design.remarks[next(iter(folded))]
    assert not lower(graph, found.store, EmitOptions()).remarks
    context = Context(found.store)
    told = run_step(graph, Step("hardware", HardwareOptions(engine="unrolled"), 0), context).report
    assert told.summary["remarks"] == design.remarks
    assert [r["remark"] for r in told.rows if r["instance"] in folded] == list(design.remarks.values())
