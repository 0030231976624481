"""Where numba keeps compiled loops: by their place in this package, so that checkouts with the same loops share them.

numba itself names the folder by the whole path; what is in a file is told by its content either way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import caching

HERE = Path(__file__).parent
# Beside it those that numba tries by itself, for functions of others.
LOCATORS = (f"{__name__}.OfTheLoops", "UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")


class OfTheLoops(caching.UserProvidedCacheLocator):
    """A locator for the loops alone; None for all other functions."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder below numba's cache folder."""
        return HERE.name

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator, where the function is one of the loops."""
        return super().from_function(py_func, py_file) if Path(py_file).parent == HERE else None
