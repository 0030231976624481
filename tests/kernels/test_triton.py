"""The Triton kernels give the bits of the definitions: interpreted on the CPU, compiled for a GPU, run where one is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from espalier.model.formats.base import FAST, Format
from tests.chance import number, whole
from tests.kernels.test_fake_quant import DEFAULTS, each_dtype, tame
from tests.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BESIDE = ROOT / ".venv" / "triton"  # where the tests' set-up puts it
needs_triton = pytest.mark.skipif(
    find_spec("triton") is None and not BESIDE.is_dir(), reason="triton is not installed (the gpu extra)"
)


def run(script: str, tmp_path: Path, *words: str, **environment: str) -> str:
    """What a script here prints after RESULT, in an interpreter of its own: triton reads its settings on import."""
    paths = os.pathsep.join(
        [str(ROOT / "roots"), str(ROOT), str(BESIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    every = os.environ | {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(tmp_path)} | environment
    command = [sys.executable, "-W", "ignore", str(HERE / script), *words]
    done = subprocess.run(command, env=every, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("RESULT")[2]


@pytest.mark.slow
@needs_triton
def test_bits_of_every_format_when_interpreted(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    drawn = str(number(pytestconfig, "triton_bits")), "1" if whole() else "0.15"
    told = json.loads(run("triton_bits.py", tmp_path, *drawn, TRITON_INTERPRET="1"))
    assert told["wrong"] == [] and len(told["ran"]) == 15


@pytest.mark.slow
@needs_triton
def test_all_kernels_compile_for_a_gpu(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    drawn = str(number(pytestconfig, "triton_compiles")), "3" if whole() else "1"
    assert int(run("triton_compiles.py", tmp_path, *drawn)) == 17


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("fmt", [d for d in DEFAULTS if not d.stochastic], ids=str)
@each_dtype
def test_bits_on_the_device(fmt: Format, dtype: torch.dtype) -> None:
    x = tame(dtype)
    want, inside = fmt.define(x), fmt.inside(x)
    value, gate = FAST[type(fmt), "cuda"].masked(fmt, x.cuda())
    assert torch.equal(value.cpu(), want)
    assert torch.equal(torch.ones_like(inside) if gate is None else gate.cpu(), inside)
