"""Loops in chunks, compiled to the threads and through Python: the same bits, gates, stops and sums."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.kernels.fake_quant.denormals import flushed
from espalier.kernels.fake_quant.plan import NONE
from espalier.kernels.fake_quant.threads import CHUNK, openmp_parallel, run_chunks
from espalier.kernels.lab import mx_dequantize, mx_linear
from espalier.model.formats.base import FAST, parse_format
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.torch.mx_weights import packed, plain
from tests.kernels.test_fake_quant import SPECIAL, bits, tame

cpu = pytest.importorskip("espalier.kernels.fake_quant.cpu", reason="numba is not installed")
chunks = pytest.importorskip("espalier.kernels.fake_quant.chunks", reason="numba is not installed")
from espalier.kernels.fake_quant.loops import elementwise, scales, sums  # noqa: E402

SHAPE = (3 * CHUNK // 96 + 7, 96)
each_way = pytest.mark.parametrize("way", ["native", "python"], indirect=True)


@pytest.fixture(autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """On three threads, natively or not."""
    name = getattr(request, "param", "native")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    if name == "python":
        monkeypatch.setattr(chunks, "openmp_parallel", lambda: 0)
    yield name
    torch.set_num_threads(before)


@pytest.fixture
def spreads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was spread through Python."""
    seen: list[int] = []
    monkeypatch.setattr(chunks, "run_chunks", lambda run, size, unit: seen.append(size) or run_chunks(run, size, unit))
    return seen


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="torch's team is elsewhere")
@pytest.mark.parametrize("text", ["integer", "mxint", "ternary(granularity=tensor)", "scaled_integer"])
def test_no_python_in_the_threads(text: str, spreads: list[int]) -> None:
    x = tame(torch.float32, SHAPE)
    fmt = parse_format(text)
    assert torch.equal(bits(fmt.forward(x)), bits(fmt.define(x))) and openmp_parallel() and not spreads


@pytest.mark.slow
@each_way
@pytest.mark.parametrize("text", ["log", "mxint", "block_fp"])
def test_a_loop_that_stops_in_one_chunk(text: str, way: str) -> None:
    """Numbers that float32's constants cannot follow, in the last chunk alone."""
    fmt, x = parse_format(text), tame(torch.float32, SHAPE)
    x[-40:] *= 2.0**-100
    x[-40:] *= 2.0**-42
    held = x.clone()
    found = FAST[type(fmt), "cpu"].over(fmt, held, None, True)
    assert found is not None and torch.equal(bits(held), bits(fmt.define(x)))
    inside = fmt.inside(x)
    assert torch.equal(torch.ones_like(inside) if found[1] is None else found[1], inside)
    assert torch.equal(bits(fmt.forward(x)), bits(fmt.define(x)))


@pytest.mark.slow
@each_way
def test_each_row_has_its_own_given_scale_whichever_chunk_it_is_in(way: str) -> None:
    x = tame(torch.bfloat16, SHAPE)
    for fmt in (ScaledInteger(8, "channel"), ScaledInteger(8, "channel", symmetric=False)):
        scale = fmt.scale_of(x) * torch.linspace(0.2, 3, len(x))[:, None]
        got, want = fmt.forward_with(x, scale), fmt.with_scale(x, scale)
        assert torch.equal(bits(got + 0.0), bits(want + 0.0))


@each_way
def test_gates_of_chunks_that_clip_and_of_those_that_do_not(way: str) -> None:
    fmt = parse_format("integer(width=8, frac_width=4)")
    for rows in (slice(0, 1), slice(-1, None), slice(0, 0)):
        x = tame(torch.float32, SHAPE)
        x[rows, : len(SPECIAL)] = torch.tensor(SPECIAL)
        value, gate = FAST[type(fmt), "cpu"].masked(fmt, x)
        inside = fmt.inside(x)
        assert torch.equal(bits(value), bits(fmt.define(x)))
        assert torch.equal(torch.ones_like(inside) if gate is None else gate, inside)


@pytest.mark.slow
@each_way
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_statistics_of_chunks_are_those_of_all(dtype: torch.dtype, way: str) -> None:
    x = tame(dtype, SHAPE)
    flat, none = chunks.statistics, np.float32(0)
    words = cpu.words(x)
    ends = flat(scales.whole_extremes, words, none, none)
    assert len(ends) == 3 and (ends[:, 0].min(), ends[:, 1].max()) == (float(x.min()), float(x.max()))
    total, count = flat(sums.whole_residual, words, none, none).sum(axis=0)
    assert (total, count) == (pytest.approx(x.double().abs().sum().item(), rel=1e-12), x.numel())


@each_way
def test_all_threads_count_denormals_as_the_caller_and_as_before_afterwards(way: str) -> None:
    x = torch.full(SHAPE, 1e-40)
    words, out = x.view(-1).numpy(), np.empty(x.numel(), np.float32)
    one_beyond_zero = tuple(np.float32(v) for v in (-np.inf, np.inf, 0, 0, 1))
    for flush in (False, True, False):
        torch.set_flush_denormal(flush)
        try:
            chunks.over_segments(elementwise.beyond, words, out, None, 32, NONE, one_beyond_zero)
        finally:
            torch.set_flush_denormal(False)
        assert (out == (0 if flush else 1)).all()
        assert not any(run_chunks(lambda elements, units: flushed(), x.numel(), 1))


@pytest.mark.slow
@each_way
def test_rows_of_packed_weights(way: str) -> None:
    """Both widths, all dtypes, a last block that is short, and a product with one row."""
    values = tame(torch.float32, (1031, 516)).clamp(-8, 8)
    for width in (8, 4):
        weight = packed(MXInt(width=width, block=32), values)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            assert torch.equal(bits(mx_dequantize.by_numba(weight, dtype)), bits(plain(weight, dtype)))
    weight, x = packed(MXInt(width=8, block=32), values), torch.linspace(-1, 1, 516)[None]
    exact = plain(weight, torch.float32).double() @ x[0].double()
    assert torch.allclose(mx_linear.linear_numba(x, weight)[0].double(), exact, rtol=1e-4, atol=1e-4)


@each_way
def test_rows_that_do_not_lie_in_one_piece(way: str) -> None:
    values = tame(torch.float32, (2048, 512)).clamp(-8, 8)
    weight = packed(MXInt(width=8, block=32), values)
    assert torch.equal(mx_dequantize.by_numba(weight, torch.float32), plain(weight, torch.float32))
    for codes in (weight.codes.t().contiguous().t(), weight.codes.repeat_interleave(2, 1)[:, ::2]):
        assert not codes.is_contiguous()
        strided = replace(weight, codes=codes)
        assert torch.equal(mx_dequantize.by_numba(strided, torch.float32), plain(weight, torch.float32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_asks_for_no_team() -> None:
    assert openmp_parallel() or platform.machine() != "x86_64"
    child = os.fork()
    if child == 0:
        os._exit(openmp_parallel() != 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_empty_tensor_and_one_that_needs_no_chunks() -> None:
    none = np.float32(0)
    assert chunks.statistics(scales.whole_extremes, np.empty(1, np.float32), none, none).shape == (1, 2)
    for shape in ((0, 8), (1, 8)):
        x: Tensor = torch.ones(shape)
        fmt = parse_format("nvfp4")
        assert torch.equal(fmt.forward(x), fmt.define(x))
