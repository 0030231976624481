"""Pools whose windows have several sizes, norms of groups, gates: within a step of the model, and every beat right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from espalier.model.errors import EmitError
from espalier.model.torch.build import build as build_module
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.rules.uneven_pool import parts, sizes_of
from espalier.verilog.templates.window import Walk
from tests.verilog.checks import needs_icarus
from tests.verilog.test_images import FORMATS, SELF, opened, quantised

NETS = [
    ("nn.AvgPool2d(3, 2, ceil_mode=True)", "3, 6, 6"), ("nn.AvgPool2d(3, 1, 1, count_include_pad=False)", "3, 4, 5"),
    ("nn.AvgPool2d(3, 2, 1, ceil_mode=True)", "2, 6, 5"), ("nn.AvgPool1d(3, 2, ceil_mode=True)", "2, 6"),
    ("nn.AdaptiveAvgPool2d((2, 3))", "3, 5, 7"), ("nn.AdaptiveMaxPool2d((2, 3))", "3, 5, 7"),
    ("nn.AdaptiveAvgPool1d(3)", "3, 7"), ("nn.GLU(-1)", "3, 6"), ("nn.GLU(1)", "4, 5"),
    ("nn.GroupNorm(2, 4)", "4, 3, 3"), ("nn.GroupNorm(2, 4, affine=False)", "4, 6"),
    ("nn.InstanceNorm2d(3, affine=True)", "3, 4, 4"), ("nn.InstanceNorm1d(3)", "3, 8"),
    ("nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(3))", "2, 5, 5"),
    ("nn.MaxPool3d(2)", "2, 4, 4, 2"), ("nn.MaxPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0), (2, 1, 1))", "3, 3, 4, 5"),
    ("nn.MaxPool3d(2, ceil_mode=True)", "2, 3, 3, 3"), ("nn.AvgPool3d((2, 2, 1))", "3, 4, 4, 2"),
    ("nn.AvgPool3d(3, 2, 1)", "2, 3, 4, 3"), ("nn.AvgPool3d(2, 1, 1, count_include_pad=False)", "2, 3, 2, 3"),
    ("nn.AvgPool3d(2, ceil_mode=True, divisor_override=4)", "1, 3, 3, 3"), ("nn.AdaptiveAvgPool3d(1)", "3, 2, 4, 2"),
    ("nn.AdaptiveAvgPool3d((2, 1, 2))", "2, 3, 2, 3"), ("nn.AdaptiveMaxPool3d((1, 2, 2))", "2, 3, 3, 4"),
    ("nn.Sequential(nn.Conv3d(1, 2, 2), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(2, 3))", "1, 3, 3, 3"),
]  # fmt: skip


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("module", "shape"), NETS)
def test_within_a_step_and_every_beat(tmp_path: Path, module: str, shape: str) -> None:
    found = opened(module, SELF, shape)
    graph = quantised(found)
    design = lower(graph, found.store, EmitOptions())
    sizes = graph.nodes["x"].ports["data_out"].sizes({**graph.symbols, "batch": 4})
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1)) * 2
    got, want = IntegerModel(graph, found.store, design)(x=x), build_module(graph, found.store).double()(x=x.double())
    step = 2.0 ** -FORMATS["data_out"].frac_width
    torch.testing.assert_close(got, want, rtol=0, atol=step)
    assert (got != want).double().mean() < 0.08, "a tie now and then, or a last place"
    codes = Host(graph, found.store, design)(x=x)
    built = build(design, 4, tmp_path / "builds", "icarus")
    for stall in (0, 3):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)


@pytest.mark.parametrize(("image", "out"), [((5, 7), (2, 3)), ((4, 1), (3, 1)), ((3, 3), (5, 4))])
def test_parts_are_those_of_torch(image: tuple[int, int], out: tuple[int, int]) -> None:
    x = torch.randn(1, 1, *image, dtype=torch.float64)
    pixels, counts = parts(image, out)
    padded = np.append(x.numpy().reshape(-1), 0.0)
    want = functional.adaptive_avg_pool2d(x, out).numpy().reshape(-1)
    np.testing.assert_allclose(padded[pixels].sum(1) / counts, want)


@pytest.mark.parametrize(("size", "out"), [((5, 7, 3), (2, 3, 1)), ((2, 2, 2), (3, 1, 2))])
def test_parts_of_volumes_are_those_of_torch(size: tuple[int, ...], out: tuple[int, ...]) -> None:
    x = torch.randn(1, 1, *size, dtype=torch.float64)
    voxels, counts = parts(size, out)
    padded = np.append(x.numpy().reshape(-1), 0.0)
    want = functional.adaptive_avg_pool3d(x, out).numpy().reshape(-1)
    np.testing.assert_allclose(padded[voxels].sum(1) / counts, want)


@pytest.mark.parametrize("border", [True, False])
def test_sizes_of_windows_are_those_of_torch(border: bool) -> None:
    ones = torch.ones(1, 1, 6, 5, dtype=torch.float64)
    want = functional.avg_pool2d(ones, 3, 2, 1, ceil_mode=True, count_include_pad=border)
    walk = Walk((6, 5), (want.shape[2], want.shape[3]), (3, 3), (2, 2), before=(1, 1))
    inside, every = sizes_of(walk, False, (1, 1)), sizes_of(walk, border, (1, 1))
    np.testing.assert_allclose(inside / every, want.numpy().reshape(-1))


def test_weights_of_a_norm_need_formats() -> None:
    found = opened("nn.GroupNorm(2, 4)", SELF, "4, 3, 3")
    graph = quantised(found)
    node = graph.nodes["m"]
    precision = {k: v for k, v in node.precision.items() if k != "weight"}
    bare = graph.replace(replace(node, precision=precision))
    with pytest.raises(EmitError, match="weight of m has no format"):
        lower(bare, found.store, EmitOptions())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "body", "words"), [
    ("nn.LSTM(4, 6, batch_first=True)", "return self.m(x)[0]", "depends on the one before"),
    ("nn.GRU(4, 6, batch_first=True)", "return self.m(x)[0]", "depends on the one before"),
])  # fmt: skip
def test_what_has_no_hardware_says_what_to_do(module: str, body: str, words: str) -> None:
    found = opened(module, body, "5, 4")
    with pytest.raises(EmitError, match="has no hardware template") as caught:
        lower(quantised(found), found.store, EmitOptions())
    assert words in caught.value.hint and caught.value.node in found.project.base.nodes
