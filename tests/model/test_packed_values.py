"""Every format's values out of a packed file against those that a built module computes with, bit for bit."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.formats.base import Format, make_format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.meta import Weight
from espalier.model.graph.views import View
from espalier.model.packed.layout import Packed, Use, stored
from espalier.model.packed.values import pack, same_values, unpack
from espalier.model.registry import FORMATS
from espalier.model.torch.layers import Effective
from espalier.model.torch.tensors import to_numpy, to_torch
from tests.contract.format_cases import VARIANTS

_COARSE = ({"granularity": "tensor"}, {"granularity": "channel"})
SCALED: dict[str, tuple[dict[str, Any], ...]] = {
    "scaled_integer": (
        *_COARSE,
        {"width": 4, "granularity": "group", "group": 5},
        {"width": 2, "granularity": "channel"},
        {"width": 16, "granularity": "channel", "scale_dtype": "float16"},
        {"width": 16, "granularity": "tensor", "scale_dtype": "bfloat16"},
        {"width": 3, "granularity": "channel", "symmetric": False},
        {"width": 8, "granularity": "group", "group": 7, "symmetric": False, "scale_dtype": "float16"},
        {"width": 5, "granularity": "tensor", "symmetric": False, "scale_dtype": "bfloat16"},
    ),
    "binary": ({}, {"bipolar": False}),
    "binary_scaled": _COARSE,
    "binary_residual": tuple({"levels": n, **c} for n in (1, 2, 3) for c in _COARSE),
    "ternary": (*_COARSE, {"threshold": 0.0}, {"threshold": 0.99}),
}
CASES = [make_format(name, values) for name in FORMATS for values in (VARIANTS | SCALED).get(name, ({},))]
SHAPES: dict[str, tuple[tuple[int, ...], View | None]] = {
    "matrix": ((6, 35), None),
    "vector": ((13,), None),
    "one": ((1, 1), None),
    "batched": ((2, 3, 20), None),
    "convolution": ((4, 3, 3, 3), View((0, 1, 2, 3), flat=True)),
    "transposed": ((5, 4, 3), View((1, 0, 2), flat=True)),
    "transposed in groups": ((6, 2, 3), View((1, 0, 2), flat=True, groups=3)),
    "product": ((7, 18), View((1, 0))),
}


def values(shape: tuple[int, ...], dtype: str, seed: int) -> torch.Tensor:
    """Weights as they are, rows of other magnitudes, zeros, one large outlier."""
    torch.manual_seed(seed)
    x = torch.randn(shape) * 0.3
    x.reshape(-1)[:: max(x.numel() // 3, 2)] = 0
    if x.ndim > 1:
        x[-1] *= 2.0**-13
        x[0].reshape(-1)[-1] *= 40
    return x.to(getattr(torch, dtype))


def masked(shape: tuple[int, ...], ratio: float, seed: int) -> np.ndarray | None:
    if not ratio:
        return None
    return np.random.default_rng(seed).random(shape) >= ratio


def part_of(fmt: Format | None, x: torch.Tensor, mask: np.ndarray | None, view: View | None, scale: Any) -> Packed:
    weight = Weight("k", tuple(x.shape), str(x.dtype).removeprefix("torch."))
    zeros = 0 if mask is None else int(mask.size - mask.sum())
    view = view if fmt is not None and fmt.rowwise else None
    use = Use(fmt, None if scale is None else "s", None if mask is None else "m", zeros, view)
    (part,) = stored("w", weight, [use])
    return part


def check(fmt: Format, x: torch.Tensor, mask: np.ndarray | None, view: View | None, scale: Any = None) -> None:
    """What comes back is what a module computes with; and what is opened computes with it too."""
    part = part_of(fmt, x, mask, view, scale)
    data = pack(part, to_numpy(x), mask, scale)
    assert data.dtype == np.uint8 and data.size == part.size == -(-part.mask_bits // 8) + -(
        -(part.code_bits + part.shared) // 8
    )
    found = unpack(part, data, str(x.dtype).removeprefix("torch."), scale)
    kept, given = (None if a is None else torch.from_numpy(np.array(a)) for a in (mask, scale))
    with torch.no_grad():
        want = Effective(fmt, kept, part.use.view, given)(x)
    got = to_torch(found.effective)
    assert got.dtype == want.dtype and torch.equal(got, want)
    if part.layout == "masked":
        assert found.mask is not None and mask is not None and np.array_equal(found.mask, mask)
    assert found.source.dtype == found.effective.dtype and found.source.array.dtype == found.effective.array.dtype
    again = found.scale if isinstance(fmt, ScaledFormat) else None
    assert same_values(part, found.source, mask, again, found.effective)


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("fmt", CASES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_come_back(fmt: Format, shape: str) -> None:
    size, view = SHAPES[shape]
    seed = zlib.crc32(f"{fmt}{shape}".encode())
    for ratio in (0.0, 0.3, 0.9):
        check(fmt, values(size, "float32", seed), masked(size, ratio, seed), view)


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("fmt", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_comes_back(fmt: Format, dtype: str) -> None:
    if dtype == "float16" and fmt.name == "integer" and getattr(fmt, "frac_width", 0) < -15:
        pytest.skip("a step is more than float16 holds, so such a model computes with other values than the codes'")
    seed = zlib.crc32(f"{fmt}{dtype}".encode())
    for ratio in (0.0, 0.5):
        check(fmt, values((6, 35), dtype, seed), masked((6, 35), ratio, seed), None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("scale_dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("width", [2, 3, 5, 6, 8, 10, 16])
def test_values_in_16_bits_give_their_own_scale_again(
    width: int, symmetric: bool, scale_dtype: Any, dtype: str
) -> None:
    """On one side of zero, around it, far from normal, and where ends lie midway between two codes."""
    fmt = ScaledInteger(width, "group", 8, symmetric, scale_dtype)
    x = torch.randn(96, 40, generator=torch.Generator().manual_seed(width))
    x[:16], x[16:32], x[32:48], x[48:64] = x[:16].abs(), -x[16:32].abs(), x[32:48] ** 5, x[48:64] * 1e-6
    x[64:80] = x[64:80].abs() - 2.0**-9
    x = x.to(getattr(torch, dtype))
    part = part_of(fmt, x, None, None, None)
    found = unpack(part, pack(part, to_numpy(x), None, None), dtype)
    assert found.source.dtype == dtype and same_values(part, found.source, None, None, found.effective)


def test_ends_midway_between_two_codes_are_found() -> None:
    """-38.5 and 24.5 steps, each of which goes to the even one."""
    x = torch.tensor([[-0.1396484375, 0.0888671875, 0.0, 0.01]], dtype=torch.bfloat16)
    fmt = ScaledInteger(6, symmetric=False)
    part = part_of(fmt, x, None, None, None)
    found = unpack(part, pack(part, to_numpy(x), None, None), "bfloat16")
    assert same_values(part, found.source, None, None, found.effective)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [f for f in CASES if isinstance(f, ScaledFormat)], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_given_scales_come_back(fmt: ScaledFormat, sign: int) -> None:
    """Learned ones too, which no rule ties to the values; those of signs may even be negative."""
    x = values((6, 35), "float32", 5)
    scale = fmt.scale_of(x) * 1.37
    if sign < 0:
        if fmt.name == "scaled_integer":
            pytest.skip("a step is positive")
        scale = scale.flip(0) * -1
    check(fmt, x, masked(tuple(x.shape), 0.4, 1), None, scale.numpy())
    assert part_of(fmt, x, None, None, scale).shared == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("scale_dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_nothing_is_searched_for_a_given_scale(
    width: int, symmetric: bool, scale_dtype: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 16 bits hardly any number gives such a scale back, so a search would try them all, minutes for a model."""

    def searched(*_: object) -> None:
        pytest.fail("the ends of the range were looked for")

    monkeypatch.setattr("espalier.model.formats.scale_preimage.ends", searched)
    fmt = ScaledInteger(width, "group", 8, symmetric, scale_dtype)
    x = values((6, 35), dtype, width)
    check(fmt, x, masked((6, 35), 0.4, 1), None, (fmt.scale_of(x) * 0.93).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5])
def test_floats_come_back(dtype: str, ratio: float) -> None:
    x, mask = values((6, 35), dtype, 2), masked((6, 35), ratio, 3)
    part = part_of(None, x, mask, None, None)
    data = pack(part, to_numpy(x), mask, None)
    assert data.size == part.size
    got = to_torch(unpack(part, data, dtype).effective)
    assert torch.equal(got, x if mask is None else x * torch.from_numpy(mask))


def test_a_cut_or_foreign_tensor_is_refused() -> None:
    x, mask = values((6, 35), "float32", 2), masked((6, 35), 0.5, 3)
    part = part_of(make_format("integer", {}), x, mask, None, None)
    data = pack(part, to_numpy(x), mask, None)
    with pytest.raises(ValueError, match="the wrong size"):
        unpack(part, data[:-1], "float32")
    data[0] ^= 1
    with pytest.raises(ValueError, match="the wrong number"):
        unpack(part, data, "float32")
