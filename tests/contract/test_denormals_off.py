"""Training counts denormals as 0: no format may divide by what then is 0."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator

import pytest
import torch

import espalier.passes  # noqa: F401  (fast versions register)
from espalier.kernels.fake_quant import plan
from espalier.kernels.fake_quant.threads import CHUNK
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through, value_and_gate
from tests.contract.format_cases import FORMS, probes
from tests.contract.test_scaled_formats import RULED as SCALED


@pytest.fixture
def flushed() -> Generator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("fmt", [*FORMS, *SCALED], ids=str)
def test_zero_rows_and_tiny_rows_stay_numbers(fmt: Format, flushed: None) -> None:
    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(0)) * 0.02
    x[0], x[3], x[5] = 0, x[3] * 1e-37, x[5] * 1e-42
    assert fmt.define(x).isfinite().all() and fmt.forward(x).isfinite().all()
    assert value_and_gate(fmt, x)[0].isfinite().all()


@pytest.mark.parametrize("fmt", [f for f in FORMS if not f.stochastic], ids=str)
def test_zeros_among_numbers_have_their_own_value(fmt: Format, flushed: None) -> None:
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0)).relu()
    value, _ = value_and_gate(fmt, x)
    assert torch.equal(value, fmt.define(x))
    wide = x.clone().requires_grad_()
    straight_through(fmt, wide).backward(torch.ones_like(x))
    assert torch.equal(wide.grad, fmt.inside(x).float())


@pytest.mark.parametrize("fmt", FORMS, ids=str)
def test_what_is_kept_from_then_is_exact_afterwards(fmt: Format) -> None:
    plan._make_plan.cache_clear()
    torch.set_flush_denormal(True)
    try:
        value_and_gate(fmt, torch.ones(2, 32))
    finally:
        torch.set_flush_denormal(False)
    x = torch.from_numpy(probes(fmt, 200))
    assert torch.equal(fmt.forward(x), fmt.define(x))
    wide = x.clone().requires_grad_()
    straight_through(fmt, wide).backward(torch.ones_like(x))
    assert torch.equal(wide.grad, fmt.inside(x).float())


def test_threads_flush_as_their_caller_does() -> None:
    """On threads that began before, and on those that begin meanwhile."""
    fmt = Integer(8, 4, signed=False, rounding="floor")
    x = torch.full((4 * CHUNK,), -1e-40)
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for flush in (False, True, False):
            torch.set_flush_denormal(flush)
            gate = value_and_gate(fmt, x)[1]
            assert (gate is None or bool(gate.all())) if flush else (gate is not None and not gate.any())
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


LATER = """
import torch
from espalier.passes.training.run import running
torch.set_num_threads(4)
with running():
    torch.ones(1 << 20).mul_(1.5)
assert not (torch.full((1 << 20,), 1e-40) * 1 == 0).any()
"""


@pytest.mark.slow
def test_no_thread_flushes_after_training() -> None:
    """OpenMP's threads inherit the flag of the thread that starts them, and keep it."""
    check = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr
