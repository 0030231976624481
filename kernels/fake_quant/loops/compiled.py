"""Compilation options of the loops: each file here has a numba cache in the user's cache folder.

Speed depends on vectorisation: no branches, no slices in inner loops, indices that start at 0.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import bytecode, config

HERE = Path(__file__).parent


def _cache_folder() -> Path | None:
    """A folder named by the hash of these sources, as numba does not detect changes of inlined functions."""
    text = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "espalier" / "numba" / hashlib.sha256(text).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _features() -> str:
    """This processor's features by LLVM's names; empty if unknown."""
    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:
        return ""


def _names() -> Iterator[int]:
    """The numbers in the names of compiled functions.

    numba's own begin at 1 in each process. Then two closures of one qualified name, compiled by two processes and
    loaded from the cache by a third, share a name: a call of one runs the other (numba issue 10486).
    """
    while True:
        yield secrets.randbits(64)


def _compiler() -> Callable[..., Any]:
    # Without interleaving, blocks of 16 and 32 elements fill whole vectors (measured: 3 times faster, others equal).
    llvm.set_option("", "-force-vector-interleave=1")
    llvm.set_option("", "-unroll-full-max-count=7")  # vectorise a block's elements instead of unrolling them 16 times
    settings: Any = config  # filled from NUMBA_… variables; the user's settings are kept
    if settings.DISABLE_JIT:
        raise ImportError("Numba's compilation is disabled (NUMBA_DISABLE_JIT): the definitions run.")
    # Half as many instructions; older processors reduce their clock for wide vectors.
    if settings.CPU_FEATURES is None and "+avx512vbmi2" in _features():
        settings.CPU_FEATURES = f"{_features()},-prefer-256-bit"
    if not settings.CACHE_DIR:
        settings.CACHE_DIR = str(_cache_folder() or "")
    if getattr(settings, "CACHE_LOCATOR_CLASSES", None) == "":  # absent before numba 0.62
        from espalier.kernels.fake_quant.loops.shared_cache import LOCATORS

        settings.CACHE_LOCATOR_CLASSES = ",".join(LOCATORS)
    bytecode.FunctionIdentity._unique_ids = _names()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    cached = bool(settings.CACHE_DIR)
    return partial(numba.njit, nogil=True, error_model="numpy", cache=cached)


_njit = _compiler()
loop = _njit()
# Sums in float64 in any order: rounded to float32, they do not depend on the order.
any_order = _njit(fastmath={"reassoc"})
