"""Temporarily sets torch's number of threads."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Generator[None]:
    """Use `count` threads inside the block; 0: unchanged."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
