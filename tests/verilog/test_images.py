"""Image networks, node by node: hardware's integers equal the fake-quantised model in double precision, and the RTL."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel, Precision
from espalier.model.graph.ops import quantisable
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.simulate import build as build_simulation
from espalier.verilog.proof.simulate import run
from espalier.verilog.rtl.write import texts
from espalier.verilog.timing.schedule import schedule
from tests.folders import kept_folder
from tests.verilog.checks import needs_icarus

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F

class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = {module}

    def forward(self, x):
{body}

def make():
    torch.manual_seed(0)
    return Made().eval(), {{"x": torch.randn(2, {shape})}}
"""
FORMATS = {"weight": Integer(6, 4), "bias": Integer(9, 6), "data_in": Integer(7, 4), "data_out": Integer(9, 4)}


@cache
def opened(module: str, body: str, shape: str) -> Opened:
    """A model made from source, traced once a process: tests change its graph only by copies."""
    folder = kept_folder()
    path = folder / "made.py"
    path.write_text(HEAD.format(module=module, body=indent(body, " " * 8), shape=shape))
    return open_any(f"{path}:make", folder, origin=Origin.TYPED)


def quantised(found: Opened) -> Graph:
    """All that can have formats has them."""
    graph = found.project.base
    chosen = (replace(n, precision={p: Precision(FORMATS[p]) for p in quantisable(n)}) for n in graph
              if n.call in ("call_module", "call_function"))  # fmt: skip
    return graph.replace(*chosen)


def equal(found: Opened, graph: Graph, frames: int = 8) -> Design:
    """The design, whose integers equal the model."""
    design = lower(graph, found.store, EmitOptions())
    sizes = graph.nodes["x"].ports["data_out"].sizes({**graph.symbols, "batch": frames})
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1)) * 2
    got, want = IntegerModel(graph, found.store, design)(x=x), build(graph, found.store).double()(x=x.double())
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    return design


LAST = "nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))"
CHAIN = "nn.Sequential(nn.Conv2d(2, 4, 1), nn.LeakyReLU(0.25), nn.Hardswish(), nn.ReLU6(), nn.Hardtanh(), nn.ELU())"
SELF = "return self.m(x)"
NETS = [
    ("nn.Conv2d(3, 4, 3, padding=1)", SELF, "3, 5, 6"),
    ("nn.Conv2d(2, 4, (3, 2), stride=(2, 1), dilation=(1, 2), padding=(0, 1), bias=False)", SELF, "2, 6, 5"),
    ("nn.Conv2d(4, 6, 3, padding='same', groups=2)", SELF, "4, 4, 5"),
    ("nn.Conv2d(4, 4, 3, padding=1, groups=4)", SELF, "4, 4, 5"),
    ("nn.Conv1d(3, 4, 3, stride=2, padding=1)", SELF, "3, 9"),
    ("nn.Conv3d(2, 3, (2, 3, 2), stride=(2, 1, 1), padding=(1, 1, 0), dilation=(1, 1, 2))", SELF, "2, 4, 3, 4"),
    ("nn.Conv3d(1, 2, 2)", "return torch.relu(self.m(x) + self.m(x).flip(2)).mean((2, 3, 4))", "1, 3, 3, 3"),
    ("nn.Conv2d(1, 3, 3)", "return self.m(torch.relu(x * 0.5 + 1.25))", "1, 5, 5"),
    ("nn.MaxPool2d(3, 2, 1)", SELF, "3, 6, 7"),
    ("nn.MaxPool2d(3, 2, ceil_mode=True)", SELF, "2, 6, 6"),
    ("nn.MaxPool1d(2)", SELF, "3, 8"),
    ("nn.AvgPool2d(2)", SELF, "3, 6, 4"),
    ("nn.AvgPool2d(4, 2, 1)", SELF, "3, 6, 4"),
    ("nn.AdaptiveAvgPool2d(1)", "return self.m(x).flatten(1)", "3, 4, 4"),
    ("nn.AdaptiveAvgPool2d(2)", SELF, "3, 4, 8"),
    ("nn.AdaptiveMaxPool2d(1)", SELF, "3, 4, 4"),
    ("nn.Conv2d(2, 4, 1)", "y = self.m(x)\nreturn y.mean((2, 3)), y.sum((2, 3), keepdim=True)", "2, 2, 4"),
    ("nn.Linear(3, 4)", "return self.m(x).mean(1)", "8, 3"),
    ("nn.Conv2d(2, 4, 3, padding=1)", "y = self.m(x)\nreturn y + torch.relu(y)", "2, 4, 4"),
    ("nn.Conv2d(2, 4, 3, padding=1)", "y = self.m(x)\nreturn 2 - y * F.gelu(y) - torch.tanh(y)", "2, 4, 4"),
    ("nn.Linear(6, 5)", "return torch.sigmoid(F.silu(self.m(x)) / 4)", "3, 6"),
    ("nn.Conv2d(2, 4, 3)", "y = self.m(x)\nreturn y * torch.sigmoid(F.adaptive_avg_pool2d(y, 1))", "2, 5, 5"),
    ("nn.Linear(6, 4)", "y = self.m(x)\nreturn torch.relu(y[:, :1]) - y", "3, 6"),
    ("nn.Conv2d(2, 4, 3)", "y = self.m(x)\nreturn torch.cat([y, torch.relu(y), y], 1)", "2, 4, 5"),
    ("nn.Linear(6, 4)", "y = self.m(x)\nreturn torch.cat([y, torch.relu(y)], -1), torch.cat([y, y], 1)", "3, 6"),
    ("nn.Conv2d(2, 4, 3)", "a, b = self.m(x).chunk(2, 1)\nreturn a * torch.sigmoid(b)", "2, 4, 5"),
    ("nn.Linear(6, 6)", "a, b, c = self.m(x).split([1, 2, 3], -1)\nreturn c, torch.tanh(b)", "3, 6"),
    ("nn.Conv2d(2, 3, 2)", "return self.m(F.pad(x, (1, 0, 2, 1), value=0.5))", "2, 4, 5"),
    (LAST, SELF, "1, 6, 6"),
    (CHAIN, SELF, "2, 3, 3"),
    ("nn.PReLU()", SELF, "2, 3, 3"),
]


@pytest.mark.parametrize(("module", "body", "shape"), NETS)
def test_integers_equal_the_fake_quantised_model(module: str, body: str, shape: str) -> None:
    found = opened(module, body, shape)
    equal(found, quantised(found))


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(("module", "body", "shape"), NETS)
def test_every_stream_equals_its_integers(tmp_path: Path, module: str, body: str, shape: str) -> None:
    found = opened(module, body, shape)
    design = lower(quantised(found), found.store, EmitOptions())
    rng = np.random.default_rng(0)
    inputs = tuple(
        rng.integers(b.stream.fixed.low, b.stream.fixed.high + 1, (3, b.stream.rows, b.stream.size))
        for b in design.inputs
    )
    simulation = build_simulation(design, 3, tmp_path / "builds", "icarus")
    for stall in range(4):
        done = run(design, simulation, inputs, stall, limit=1_000_000)
        assert not done.stuck
        assert not done.mismatches, (stall, done.mismatches)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(
    ("module", "shape", "parallel"),
    [
        ("nn.Conv2d(4, 6, 3, padding=1)", "4, 4, 5", Parallel(12, 3)),
        ("nn.Conv2d(1, 4, 3, padding=1)", "1, 4, 5", Parallel(9, 4)),
        ("nn.Conv2d(4, 6, 3, groups=2)", "4, 4, 5", Parallel(6, 3)),
        ("nn.Conv2d(4, 4, 3, padding=1, groups=4)", "4, 4, 5", Parallel(2, 1)),
    ],
)
def test_parallel_convolutions_equal_their_integers_to_the_cycle(
    tmp_path: Path, module: str, shape: str, parallel: Parallel
) -> None:
    found = opened(module, SELF, shape)
    graph = quantised(found)
    node = next(n for n in graph if n.op == "conv2d")
    design = equal(found, graph.replace(replace(node, parallel=parallel)))
    stream = design.inputs[0].stream
    inputs = (np.random.default_rng(0).integers(stream.fixed.low, stream.fixed.high, (4, stream.rows, stream.size)),)
    done = run(design, build_simulation(design, 4, tmp_path / "builds", "icarus"), inputs)
    assert not done.mismatches
    planned = schedule(design, 4)
    for wire in design.ends:
        assert_array_equal(np.diff(done.cycles[wire]), np.diff(planned.stamps[wire]))


def test_a_batch_norm_is_near_its_model() -> None:
    body = "return self.m(x)"
    found = opened("nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))", body, "2, 5, 5")
    graph = quantised(found)
    design = lower(graph, found.store, EmitOptions())
    x = torch.randn(8, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    got, want = IntegerModel(graph, found.store, design)(x=x), build(graph, found.store).double()(x=x.double())
    assert (got - want).abs().max() <= 2.0**-4  # a step of its result: 16 bits of scale
    assert_array_equal((got != want).float().mean() < 0.02, True)


@pytest.mark.parametrize(
    ("module", "body", "shape", "words"),
    [
        ("nn.Conv2d(2, 2, 3, padding=1, padding_mode='reflect')", SELF, "2, 5, 5", "padding other than zeros"),
        ("nn.Upsample(scale_factor=2, mode='bilinear')", SELF, "2, 5, 5", "another mode than nearest"),
    ],
)
def test_what_has_no_hardware_names_its_node(module: str, body: str, shape: str, words: str) -> None:
    found = opened(module, body, shape)
    with pytest.raises(EmitError, match=words) as caught:
        lower(quantised(found), found.store, EmitOptions())
    assert caught.value.node in found.project.base.nodes
    assert caught.value.hint


def test_a_table_without_a_format_says_so() -> None:
    found = opened("nn.Identity()", "return torch.tanh(x)", "3, 4")
    graph = found.project.base
    node = graph.nodes["tanh"]
    with pytest.raises(EmitError, match="data_out of tanh has no format"):
        lower(graph.replace(replace(node, precision={"data_in": Precision(Integer(6, 4))})), found.store, EmitOptions())


def test_names_that_verilog_does_not_take_are_changed(tmp_path: Path) -> None:
    found = opened("nn.Linear(3, 2)", SELF, "3")
    graph = quantised(found)
    node = next(n for n in graph if n.op == "linear")
    assert lower(graph, found.store, EmitOptions()).instances[-1].name == node.id
    path = tmp_path / "bare.py"
    path.write_text(
        HEAD.split("class")[0] + "def make():\n    return nn.Sequential(nn.Linear(3, 2)), torch.randn(2, 3)\n"
    )
    bare = open_any(f"{path}:make", tmp_path, origin=Origin.TYPED)
    design = lower(quantised(bare), bare.store, EmitOptions())
    assert [i.name for i in design.instances if i.module == "linear"] == ["n0"]
    assert design.instances[-1].node == "0"


def test_lines_say_how_far_off_they_are() -> None:
    found = opened("nn.Identity()", "return torch.tanh(x)", "3, 4")
    chosen = {"data_in": Precision(Integer(14, 10)), "data_out": Precision(Integer(8, 6))}
    graph = found.project.base
    design = lower(graph.replace(replace(graph.nodes["tanh"], precision=chosen)), found.store, EmitOptions())
    assert "line segments, error at most" in texts(design)["top.sv"]
