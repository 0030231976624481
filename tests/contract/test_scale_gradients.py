"""Gradients of formats with a scale, to the input and to the scale, and formats that round at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.errors import FormatError
from espalier.model.formats.base import Format
from espalier.model.formats.binary import Binary, uniform
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ScaledFormat, shared_shape
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import tensor_scale
from espalier.model.formats.straight_through import straight_through, straight_through_scaled
from tests.contract.test_scaled_formats import each, each_integer, each_scaled, rows


def gradients(fmt: ScaledFormat, x: Tensor, scale: Tensor, grad: Tensor, identity: bool = False) -> tuple[Any, Any]:
    x, scale = x.clone().requires_grad_(), scale.clone().requires_grad_()
    straight_through_scaled(fmt, x, scale, identity).backward(grad)
    return x.grad, scale.grad


@each
def test_gradient_of_the_input(fmt: Format) -> None:
    """Integers: everywhere under the own scale; binary: |x| ≤ 1 (Courbariaux et al.); ternary: everywhere (TWN)."""
    x = torch.from_numpy(rows(50, 9) % 3).requires_grad_()
    straight_through(fmt, x).backward(torch.full_like(x, 3.0))
    held = x.detach()
    if fmt.name.startswith("binary"):
        want = held.abs() <= 1
    else:
        want = fmt.inside(held)
        assert want.float().mean() > 0.99
    assert x.grad is not None and torch.equal(x.grad, 3.0 * want) and torch.equal(fmt.inside(held), want)
    with torch.no_grad():
        assert not straight_through(fmt, x).requires_grad


@each_integer
def test_values_beyond_a_given_scale_saturate_and_get_no_gradient(fmt: ScaledInteger) -> None:
    x = torch.randn(6, 13, generator=torch.Generator().manual_seed(3))
    scale = fmt.scale_of(x) * 0.5
    got, _ = gradients(fmt, x, scale, torch.ones_like(x))
    rounded = torch.from_numpy(np.array(fmt.encode_with(x.numpy(), scale.numpy()).codes))
    low, high = (-fmt.top, fmt.top) if fmt.symmetric else (0, fmt.top)
    clipped = (rounded == low) | (rounded == high)
    assert not got[~clipped].ne(1).any() and got[clipped].eq(0).any()
    assert torch.equal(got.bool(), fmt.inside_with(x, scale))
    assert gradients(fmt, x, scale, torch.ones_like(x), identity=True)[0].eq(1).all()


def test_gradient_of_an_integers_scale_by_hand() -> None:
    fmt = ScaledInteger(3, "channel")  # q = 3
    x = torch.tensor([[0.4, 1.0, -1.75, 9.0]])
    _, got = gradients(fmt, x, torch.tensor([[0.5]]), torch.tensor([[1.0, 10.0, 100.0, 1000.0]]))
    # x/s = 0.8, 2, −3.5 (rounds to −4: outside), 18 (outside)
    assert got.item() == pytest.approx((1 * 0.2 + 10 * 0.0 + 100 * -3 + 1000 * 3) / math.sqrt(4 * 3))
    fmt = ScaledInteger(2, "tensor", symmetric=False)  # codes 0…3
    x = torch.tensor([-3.0, -0.6, 0.3, 5.0])
    _, got = gradients(fmt, x, torch.tensor([1.0, -1.0]), torch.tensor([1.0, 10.0, 100.0, 1000.0]))
    # zero point 1: values −1…2; rne(x/s) − x/s = −0.4, −0.3 inside
    assert got.tolist() == pytest.approx([(-4 - 30 + 3000) / math.sqrt(12), 1001 / math.sqrt(12)])


@each_scaled
def test_gradient_of_the_scale_by_finite_differences(fmt: ScaledFormat) -> None:
    """Of the value where roundings, signs and thresholds are held fixed, which is what each source differentiates."""
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(3, 13, generator=generator, dtype=torch.float64)
    scale = (fmt.scale_of(x) * 0.7).double()
    grad = torch.randn(3, 13, generator=generator, dtype=torch.float64)
    _, got = gradients(fmt, x, scale, grad)
    assert tuple(got.shape) == fmt.scale_shape((3, 13))
    held = frozen(fmt, x, scale)
    for place in np.ndindex(*scale.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = scale.clone()
            moved[place] += step
            ends.append(float((grad * held(moved)).sum()))
        want = (ends[0] - ends[1]) / 2e-5
        if isinstance(fmt, ScaledInteger):
            want /= math.sqrt(x.numel() / math.prod(shared_shape((3, 13), fmt.per)) * fmt.top)
        if isinstance(fmt, OffsetInteger):
            want /= math.sqrt(x.numel() / math.prod(shared_shape((3, 13), fmt.per)) * fmt.top)
        if isinstance(fmt, ScaledElement):
            want /= math.sqrt(x.numel() / math.prod(shared_shape((3, 13), fmt.per)) * fmt.reach)
        assert float(got[place]) == pytest.approx(want, rel=2e-3, abs=2e-3)


def frozen(fmt: ScaledFormat, x: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """scale → value, with what is not smooth (roundings, signs, thresholds) as it is at `scale`."""
    if isinstance(fmt, ScaledInteger):
        return frozen_integer(fmt, x, scale)
    if isinstance(fmt, ScaledElement):
        return frozen_element(fmt, x, scale)
    if isinstance(fmt, OffsetInteger):
        return frozen_offset(fmt, x, scale)
    if isinstance(fmt, BinaryResidual):
        signs, left = [], x
        for alpha in scale.float():
            signs.append(torch.where(left >= 0, 1.0, -1.0).double())
            left = left - alpha * signs[-1]
        return lambda s: (s[0] * signs[0]) + sum(a * p for a, p in zip(s[1:], signs[1:], strict=True))
    sign = torch.sign(fmt.with_scale(x, torch.ones_like(scale)))
    return lambda s: s * sign


def frozen_integer(fmt: ScaledInteger, x: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """The rounding's rest, and which end an element is clipped to, stay as they are at `scale`."""

    def wide(s: Tensor) -> Tensor:
        return s.repeat_interleave(fmt.group, -1)[..., : x.shape[-1]] if fmt.granularity == "group" else s

    inside, above = fmt.inside_with(x, scale), x > fmt.with_scale(x, scale)
    steps = x / wide(tensor_scale(scale if fmt.symmetric else scale[0], fmt.scale_dtype)).double()
    rest = torch.round(steps) - steps

    def value(s: Tensor) -> Tensor:
        step = wide(s if fmt.symmetric else s[0])
        least = -fmt.top * step if fmt.symmetric else wide(s[1])
        most = fmt.top * step + (0 if fmt.symmetric else least)
        return torch.where(inside, x + rest * step, torch.where(above, most, least))

    return value


def frozen_element(fmt: ScaledElement, x: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """As `frozen_integer`."""

    def wide(s: Tensor) -> Tensor:
        return s.repeat_interleave(fmt.group, -1)[..., : x.shape[-1]] if fmt.granularity == "group" else s

    step = wide(scale.to(getattr(torch, fmt.scale_dtype)).double())
    inside, rest = fmt.inside_with(x, scale), (fmt.with_scale(x, scale) - x) / step
    ends = torch.where(x > 0, fmt.highest, fmt.lowest)
    return lambda s: torch.where(inside, x + rest * wide(s), ends * wide(s))


def frozen_offset(fmt: OffsetInteger, x: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """As `frozen_integer`."""

    def wide(s: Tensor) -> Tensor:
        return s.repeat_interleave(fmt.group, -1)[..., : x.shape[-1]] if fmt.granularity == "group" else s

    inside, above = fmt.inside_with(x, scale), x > wide(scale[1])
    rest = (fmt.with_scale(x, scale) - x) / wide(scale[0])
    return lambda s: torch.where(inside, x + rest * wide(s[0]), wide(s[1]) + above * fmt.top * wide(s[0]))


def test_first_scale_of_learning() -> None:
    x = torch.randn(4, 10)
    got = ScaledInteger(4, "group", 6).first_scale(x)
    want = 2 * torch.stack([x[:, :6].abs().mean(1), x[:, 6:].abs().mean(1)], 1) / math.sqrt(7)
    torch.testing.assert_close(got, want)
    assert torch.equal(BinaryScaled().first_scale(x), BinaryScaled().scale_of(x))


@each_scaled
def test_a_scale_that_does_not_fit_is_told(fmt: ScaledFormat) -> None:
    with pytest.raises(FormatError, match="shape") as caught:
        straight_through_scaled(fmt, torch.zeros(4, 6), torch.ones(4, 5))
    assert str(list(fmt.scale_shape((4, 6)))) in caught.value.hint


# -- chance


@pytest.mark.parametrize("bipolar", [True, False])
def test_chance_follows_the_value_and_torchs_seed(bipolar: bool) -> None:
    fmt = Binary(bipolar, stochastic=True)
    x = torch.linspace(-1.5, 1.5, 13).repeat(20_000, 1)
    torch.manual_seed(5)
    first, second = straight_through(fmt, x), straight_through(fmt, x)
    torch.manual_seed(5)
    assert torch.equal(straight_through(fmt, x), first) and not torch.equal(first, second)
    up = (first == 1).float().mean(0)
    torch.testing.assert_close(up, ((x[0] + 1) / 2).clamp(0, 1), atol=0.015, rtol=0)
    assert set(first.unique().tolist()) == {-1.0 if bipolar else 0.0, 1.0}
    np.testing.assert_array_equal(fmt.rounded(x.numpy()), straight_through(Binary(bipolar), x).numpy())


def test_hash_is_splitmix64() -> None:
    """First outputs of the reference implementation (prng.di.unimi.it/splitmix64.c) for the seeds 0 and 1234567."""
    known = {0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4], 1234567: [6457827717110365317, 3203168211198807973]}
    for seed, outputs in known.items():
        want = np.array([o >> 40 for o in outputs], np.float32) * np.float32(2.0**-24)
        np.testing.assert_array_equal(uniform(seed, torch.zeros(1, 2)).numpy(), want[None])
    big = 2**63 - 1
    np.testing.assert_array_equal(uniform(big, torch.zeros(3, 5)).numpy().ravel(), by_numpy(big, 15))


def by_numpy(seed: int, count: int) -> np.ndarray:
    """The same on unsigned integers."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def test_random_signs_have_the_gradient_of_the_sign() -> None:
    x = torch.tensor([-1.5, -0.5, 0.5, 1.5], requires_grad=True)
    straight_through(Binary(stochastic=True), x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 1, 1, 0]
