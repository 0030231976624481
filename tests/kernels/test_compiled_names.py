"""Loops from numba's cache: each runs under a name of its own, whichever processes compiled them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import sys
import numpy as np
from espalier.kernels.fake_quant.loops import team
from espalier.kernels.fake_quant.loops.blocks import fixed_blocks

c = (np.int32(2139095039), np.float32(127), np.float32(127.49999), np.int32(-50331648), np.int32(8388608),
     np.int32(2071986176), np.int32(58720256), np.int32(2130706431))
x, gate, none = np.zeros(128, np.float32), np.zeros(128, np.uint8), np.zeros((0, 0), np.float32)
for _ in range(2):  # once all are loaded
    addresses = [team.address_of(fixed_blocks[int(size)], (x, x, gate, 16, none, c)) for size in sys.argv[1:]]
print(*addresses)
"""


@pytest.mark.slow
def test_closures_compiled_by_two_processes_are_two_functions_in_a_third(tmp_path: Path) -> None:
    """Each process compiles one as its first: numba's own numbering gives both the same symbol (its issue 10486)."""

    def addresses(*sizes: str) -> list[str]:
        run = subprocess.run(
            [sys.executable, "-c", COMPILE, *sizes],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONHASHSEED": "0"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return run.stdout.split()

    addresses("16")
    addresses("64")
    first, second = addresses("16", "64")
    assert first != second
