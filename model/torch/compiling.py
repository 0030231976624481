"""torch.compile without what earlier runs left, and without leaving anything."""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from espalier.model.leftovers import scratch

CACHE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def compiled_afresh() -> Generator[None]:
    """Inductor compiles within, in this process, into a folder that goes afterwards.

    No caches, so that the first call compiles. A killed process leaves a folder that the next start of Espalier clears;
    inductor's own, `torchinductor_…`, would stay.
    """
    inductor: Any = importlib.import_module("torch._inductor.config")
    before = os.environ.get(CACHE)
    with scratch() as folder, inductor.patch(force_disable_caches=True, compile_threads=1):
        os.environ[CACHE] = str(folder)
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(CACHE, None)
            else:
                os.environ[CACHE] = before
