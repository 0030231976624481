"""torch's number of threads, for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """So many threads of torch's own; 0: as many as now."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
