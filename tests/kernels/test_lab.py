"""Every kernel of the lab against its reference: on the CPU, interpreted, and on a GPU where there is one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from espalier.kernels.bench.run import Request, run
from espalier.kernels.bench.spec import KERNELS, Kernel, KernelError
from espalier.kernels.lab import attention, layer_norm, linear_gelu, mx_dequantize, mx_linear, mx_matmul, softmax
from espalier.kernels.lab.mx_dequantize import by_numba
from espalier.kernels.lab.mx_linear import linear_numba, linear_values
from espalier.model.errors import FormatError
from espalier.model.formats.mxint import MXInt
from espalier.model.torch.mx_weights import MXLinear, MXWeight, packed, plain, product
from tests.kernels.test_triton import needs_triton
from tests.kernels.test_triton import run as interpreted

SMALL = {
    "softmax": "5x33", "attention": "1x2x19x24x1x1", "linear_gelu": "3x20x33", "layer_norm": "3x45",
    "layer_norm_backward": "7x45", "mxint8_linear": "1x20x70", "mxint4_linear": "3x20x45", "mxint8_matmul": "3x20x70",
}  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def small(kernel: Kernel) -> str:
    """A shape that no block size divides."""
    return SMALL.get(kernel.name, "3x45")


def each() -> list[Any]:
    """Names; those of formats whose loops would be compiled here are slow, and have quick tests of their own."""
    slow = [n for n in KERNELS if n.startswith("fake_quant") and n != "fake_quant_integer"]
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in KERNELS]


@pytest.mark.parametrize("name", each())
def test_every_version_that_runs_here_is_right(name: str) -> None:
    kernel = KERNELS.get(name)
    asked = Request((name,), "cpu", ("float32", "bfloat16"), (small(kernel),), seconds=0, rounds=1, ceilings=False)
    rows = run(asked).rows
    ran = [r for r in rows if r.seconds is not None]
    assert [r for r in ran if r.problem] == [] and all(r.correct for r in ran)
    assert {r.dtype for r in ran if r.version == kernel.baseline} == {"float32", "bfloat16"}
    for row in (r for r in rows if r.seconds is None):
        assert any(word in row.problem for word in ("triton", "Triton", "numba", "one row")), row


@pytest.mark.slow
@needs_triton
def test_triton_kernels_interpreted(tmp_path: Path) -> None:
    told = json.loads(interpreted("lab_interpreted.py", tmp_path, TRITON_INTERPRET="1"))
    assert told["wrong"] == [] and told["count"] > 80


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", list(KERNELS))
def test_every_version_on_the_device(name: str) -> None:
    shapes = (small(KERNELS.get(name)),)
    rows = run(Request((name,), "cuda", ("float32", "bfloat16", "float16"), shapes, seconds=0, rounds=1)).rows
    assert [r for r in rows if r.correct is False] == []


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 9), columns=st.integers(1, 80), width=st.sampled_from([4, 8]),
    block=st.sampled_from([1, 2, 7, 16, 32]), scale=st.sampled_from([1e-40, 1e-30, 1.0, 1e30]),
    dtype=st.sampled_from(DTYPES), seed=st.integers(0, 99),
)  # fmt: skip
def test_packed_values_are_those_of_the_format(
    rows: int, columns: int, width: int, block: int, scale: float, dtype: torch.dtype, seed: int
) -> None:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * scale
    x[0] = 0
    fmt = MXInt(width, block)
    held, most = packed(fmt, x), torch.finfo(dtype).max
    want = fmt.define(x).clamp(-most, most).to(dtype)
    assert torch.equal(plain(held, dtype), want)
    assert torch.equal(by_numba(held, dtype), want)
    assert held.bytes == rows * (-(-columns * width // 8) + -(-columns // block))


def weight(rows: int, columns: int) -> MXWeight:
    """A random weight in MXINT8."""
    return packed(MXInt(8, 32), torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("columns", [32, 70])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_products_with_packed_weights(columns: int, shape: tuple[int, ...]) -> None:
    held, x = weight(12, columns), torch.randn(*shape, columns)
    bias = torch.randn(12)
    want = nn.functional.linear(x, plain(held, x.dtype), bias)
    assert torch.equal(product(x, held, bias), want)
    assert torch.equal(linear_values(x, held, bias), want)
    torch.testing.assert_close(linear_numba(x, held, bias), want, rtol=1e-5, atol=1e-5)


def test_a_packed_linear_lets_gradients_through_and_holds_no_floats() -> None:
    held, x = weight(12, 64), torch.randn(3, 64, requires_grad=True)
    layer = MXLinear(held)
    (grad,) = torch.autograd.grad(layer(x).sum(), x)
    torch.testing.assert_close(grad, plain(held, torch.float32).sum(0).expand(3, 64))
    kinds: list[Tensor] = [*layer.parameters(), *layer.buffers()]
    assert {t.dtype for t in kinds} == {torch.int8, torch.uint8} and sum(t.nbytes for t in kinds) == 12 * (64 + 2)


def test_nan_is_refused_and_names_its_node() -> None:
    weight = torch.ones(2, 40)
    weight[1, 3] = math.nan
    with pytest.raises(FormatError, match="1 of the weights are NaN") as caught:
        packed(MXInt(8, 32), weight, "fc1")
    assert caught.value.node == "fc1" and caught.value.hint
    weight[1, 3] = math.inf
    assert torch.equal(plain(packed(MXInt(8, 32), weight), torch.float32), MXInt(8, 32).forward(weight))


def test_what_a_kernel_would_misread_is_refused() -> None:
    """Before anything is launched, so also without triton."""
    q, k = torch.randn(1, 4, 5, 16), torch.randn(1, 2, 7, 16)
    w, b = torch.ones(3), torch.zeros(3)
    eight, four = packed(MXInt(8, 8), torch.randn(3, 40)), packed(MXInt(4, 1), torch.randn(3, 40))
    calls: list[Any] = [
        lambda: softmax.softmax(torch.arange(6).reshape(2, 3)),
        lambda: softmax.softmax(torch.randn(2, 3, requires_grad=True)),
        lambda: attention.attention(q, k, k),
        lambda: attention.attention(k, k, k[..., :8]),
        lambda: attention.attention(k[0], k[0], k[0]),
        lambda: attention.attention(*[torch.randn(1, 1, 2, 300)] * 3),
        lambda: attention.attention(k, k, k.requires_grad_()),
        lambda: layer_norm.layer_norm(torch.randn(2, 3).double(), w, b),
        lambda: linear_gelu.linear_gelu(torch.randn(2, 3), torch.randn(4, 3).half()),
        lambda: mx_linear.linear_triton(torch.randn(2, 40), eight),
        lambda: mx_dequantize.by_triton(four, torch.float32),
        lambda: mx_matmul.matmul_triton(eight, eight),
    ]
    for call in calls:
        with pytest.raises(KernelError) as caught:
            call()
        assert caught.value.hint
    assert torch.equal(mx_dequantize.values(four, torch.float32), plain(four, torch.float32))


def test_columns_are_mixed_for_pairs_of_four_threads() -> None:
    x = torch.arange(64).view(2, 32)
    order = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]
    assert mx_linear.mixed(x)[1].tolist() == [32 + start + i for start in (0, 16) for i in order]
    assert mx_linear.mixed(x[:, :0]).shape == (2, 0)
