"""numba's `njit` where it is installed; without it the same functions run as they are, some hundred times slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
except ImportError:

    def njit(**_: Any) -> Callable[[Any], Any]:
        """Leave a function as it is."""
        return lambda function: function


__all__ = ["njit"]
