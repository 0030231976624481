"""numba's `njit` if it is installed; otherwise a no-op decorator, some hundred times slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
except ImportError:

    def njit(**_: Any) -> Callable[[Any], Any]:
        """A decorator that returns the function unchanged."""
        return lambda function: function


__all__ = ["njit"]
