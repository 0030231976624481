"""HQQ: the update is the authors', the error falls, and zero points lie where the format has them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.passes.recovery.half_quadratic import Solver, optimised, shrunk
from espalier.passes.transform.hqq import HqqOptions, hqq
from tests.passes.recovery.recovery_cases import demo, with_format


def authors(tensor: Tensor, nbits: int, iters: int = 20) -> tuple[Tensor, Tensor, Tensor]:
    """hqq 0.2.8: Quantizer.quantize (axis=1) and optimize_weights_proximal_v2, in float32."""
    w_f = tensor
    _min, _max = w_f.min(axis=1, keepdim=True)[0], w_f.max(axis=1, keepdim=True)[0]
    max_v = round(2**nbits - 1)
    denom = _max - _min
    scale = max_v / denom
    scale = torch.where(denom.abs() <= 1e-4, torch.full_like(scale, 1.0), scale)
    scale = scale.clamp(max=2e4)
    zero = -_min * scale
    lp_norm, beta, kappa = 0.7, 1e1, 1.01
    best_error = torch.tensor(1e4)
    scale_prev, zero_prev = scale.clone(), zero.clone()
    for _ in range(iters):
        w_q = torch.round(w_f * scale + zero).clamp(0, max_v)
        w_r = (w_q - zero) / scale
        current_error = torch.abs(w_f - w_r).mean().float()
        if best_error - current_error > 0.0:
            best_error = current_error
            scale_prev, zero_prev = scale.clone(), zero.clone()
        else:
            scale, zero = scale_prev.clone(), zero_prev.clone()
            break
        out = torch.abs(w_f - w_r)
        out.sub_((1.0 / beta) * out.pow(lp_norm - 1)).clamp_min_(0.0)
        w_e = out.mul_(torch.sign(w_f - w_r))
        zero = torch.mean(w_q - (w_f - w_e) * scale, axis=1, keepdim=True)
        beta *= kappa
    w_q = torch.round(tensor * scale + zero).clamp(0, max_v)
    return w_q, scale, zero


def weights(seed: int = 0) -> Tensor:
    """Rows with heavy tails, which an l_p norm forgives; one flat, one of two values."""
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(96, 64, generator=made) * 0.05
    x = x + (torch.rand(96, 64, generator=made) < 0.01) * torch.randn(96, 64, generator=made) * 0.3
    x[3] = 0.25
    x[4, ::2] = -0.1
    return x


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_scales_and_zero_points_are_the_authors(bits: int) -> None:
    x = weights(bits)
    codes, scale, zero = authors(x, bits)
    inverse, found, before, after = optimised(x, 2**bits - 1, Solver())
    torch.testing.assert_close(inverse, scale, rtol=0, atol=0)
    torch.testing.assert_close(found, zero, rtol=1e-6, atol=1e-6)
    assert after <= before and (bits > 4 or after < 0.99 * before)
    fmt = OffsetInteger(bits, "channel")
    value = fmt.with_scale(x, torch.stack([1 / inverse, -found / inverse]))
    torch.testing.assert_close(value, (codes - zero) / scale, rtol=0, atol=1e-6)


def test_the_shrinkage_is_that_of_the_blog() -> None:
    x = torch.tensor([-2.0, -0.01, 0.0, 0.5, 1.0])
    want = [-2 + 2**-0.3 / 10, 0, 0, 0.5 - 0.5**-0.3 / 10, 0.9]
    torch.testing.assert_close(shrunk(x, 10.0, 0.7), torch.tensor(want))


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [OffsetInteger(3, "group", 24), OffsetInteger(3, "tensor")], ids=str)
def test_the_pass_lowers_the_mean_error_and_keeps_it_as_a_scale(fmt: Any) -> None:
    opened, context = demo("demo:reviews")
    graph = with_format(opened.project.graph, context, ("linear",), weight=fmt)
    after, report = hqq(graph, HqqOptions(), context)
    rows = [r for r in report.rows if "changed" in r]
    assert report.summary["layers"] == sum(r["changed"] for r in rows) > 0
    assert all(r["error"] <= r["error_rounded"] for r in rows) and report.summary["mean_error_ratio"] < 1
    for row in rows:
        assert bool(after[row["node"]].precision["weight"].scale) == row["changed"]
    again, repeated = hqq(after, HqqOptions(), context)
    assert repeated.summary["layers"] == 0 and again.nodes == after.nodes, "nothing falls further"


def test_formats_without_a_zero_point_are_told() -> None:
    opened, context = demo("demo:reviews")
    graph = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(4, symmetric=False))
    with pytest.raises(PassError, match="rounded by HQQ") as caught:
        hqq(graph, HqqOptions(), context)
    assert "offset_integer" in caught.value.hint
    with pytest.raises(OptionsError, match="lp_norm is 1"):
        HqqOptions(lp_norm=1.0)
