"""How the loops are compiled: one file here is one numba cache, in the user's own cache folder.

Loops stand or fall with vectorisation: no branches, no slices in inner loops, indices that start at 0.
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
    """A folder that is named for these sources: numba itself does not see when an inlined function changes."""
    text = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "espalier" / "numba" / hashlib.sha256(text).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _features() -> str:
    """What this processor has, as LLVM names it; empty where it does not know."""
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
    # Not interleaved: blocks of 16 and 32 elements then fill whole vectors (measured: 3 times faster, others alike).
    llvm.set_option("", "-force-vector-interleave=1")
    llvm.set_option("", "-unroll-full-max-count=7")  # a block's elements are vectors, not 16 copies of the code
    settings: Any = config  # fills itself from NUMBA_… variables; the user's own settings are left
    if settings.DISABLE_JIT:
        raise ImportError("Numba is told not to compile (NUMBA_DISABLE_JIT): the definitions run.")
    # Half as many instructions; older processors than these slow their clock for wide vectors.
    if settings.CPU_FEATURES is None and "+avx512vbmi2" in _features():
        settings.CPU_FEATURES = f"{_features()},-prefer-256-bit"
    if not settings.CACHE_DIR:
        settings.CACHE_DIR = str(_cache_folder() or "")
    if getattr(settings, "CACHE_LOCATOR_CLASSES", None) == "":  # numba before 0.62 has none
        from espalier.kernels.fake_quant.loops.shared_cache import LOCATORS

        settings.CACHE_LOCATOR_CLASSES = ",".join(LOCATORS)
    bytecode.FunctionIdentity._unique_ids = _names()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    cached = bool(settings.CACHE_DIR)
    return partial(numba.njit, nogil=True, error_model="numpy", cache=cached)


_njit = _compiler()
loop = _njit()
# Sums in float64, in any order: they are rounded to float32, where the order does not show.
any_order = _njit(fastmath={"reassoc"})
