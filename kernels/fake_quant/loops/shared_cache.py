"""Cache folder of compiled loops: named by their position in this package, so that equal checkouts share them.

numba itself names the folder by the full path; cached files are identified by their content in both cases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import caching

HERE = Path(__file__).parent
# numba's own locators stay, for other functions
LOCATORS = (f"{__name__}.OfTheLoops", "UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")


class OfTheLoops(caching.UserProvidedCacheLocator):
    """A cache locator for the loops; None for all other functions."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The subfolder of numba's cache folder."""
        return HERE.name

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """A locator if the function is one of the loops; otherwise None."""
        return super().from_function(py_func, py_file) if Path(py_file).parent == HERE else None
