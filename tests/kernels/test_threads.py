"""Chunks on a pool of threads: results in order, in a forked child, and when one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from espalier.kernels.fake_quant.denormals import denormals, flushed
from espalier.kernels.fake_quant.threads import CHUNK, run_chunks

SIZE = 4 * CHUNK + 96


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_chunks_are_whole_units_in_order() -> None:
    found = run_chunks(lambda elements, units: (elements, units), SIZE, 32)
    assert len(found) == 3 and all((e.start, e.stop) != (0, SIZE) and e.start % 32 == 0 for e, _ in found)
    assert [e.start for e, _ in found] == [0, *(e.stop for e, _ in found[:-1])] and found[-1][0].stop == SIZE
    assert all(u.start * 32 == e.start for e, u in found)


def test_each_chunk_is_looked_at_once() -> None:
    x = np.arange(SIZE, dtype=np.int64)
    for _ in range(50):
        assert sum(run_chunks(lambda cut, _: x[cut].sum(), SIZE, 1)) == SIZE * (SIZE - 1) // 2


def test_a_failure_is_told_and_the_next_call_works() -> None:
    def fails(elements: slice, units: slice) -> int:
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        run_chunks(fails, SIZE, 1)
    assert len(run_chunks(lambda elements, units: 1, SIZE, 1)) == 3


@pytest.mark.parametrize("count", [True, False])
def test_all_threads_count_denormals_as_the_caller(count: bool) -> None:
    with denormals(count):
        assert [flushed()] * 3 == run_chunks(lambda elements, units: flushed(), SIZE, 1)
    assert not any(run_chunks(lambda elements, units: flushed(), SIZE, 1))


FORKS = """
import os, sys
import numpy as np
import torch
from espalier.kernels.fake_quant import threads
from espalier.kernels.registry import install
from espalier.model.formats.base import parse_format

torch.set_num_threads(3)
if sys.argv[1] == "pool":
    threads._address = lambda process: 0
install()
x = torch.randn(int(sys.argv[2]), 32, generator=torch.Generator().manual_seed(0))
fmt = parse_format("integer(width=8, frac_width=5)")
expected = fmt.forward(x)  # the parent's threads have begun
assert torch.equal(expected, fmt.define(x))
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(fmt.forward(x).numpy(), expected.numpy()) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("how", ["team", "pool"])
def test_a_forked_child_computes_too(how: str) -> None:
    """In a process of its own: gRPC, which other tests load, aborts in a child of a process that has its threads."""
    done = subprocess.run([sys.executable, "-c", FORKS, how, str(SIZE // 32)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
