"""How other tools write recipes and passes: each registers a Dialect here, and recipes and plug-ins know no other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.registry import Registry


class Dialect:
    """One tool's way to write recipes and passes; a subclass overrides what the tool has.

    `names`: passes that its recipes may name. `signature`: how a function that it runs as a pass looks, for hints.
    """

    names: frozenset[str] = frozenset()
    signature: str = ""

    def steps(self, name: str, options: Any, path: str) -> tuple[Step, ...] | None:
        """The steps for one entry of a recipe; None for an entry of another form. Raises OptionsError with `path`."""
        return None

    def is_pass(self, function: Callable[..., Any]) -> bool:
        """Whether a function of a plug-in is a pass in this dialect."""
        return False

    def register(self, function: Callable[..., Any], file: Path) -> None:
        """Register a function that `is_pass` accepts."""

    def imports(self) -> AbstractContextManager[None]:
        """While open, a plug-in may import the tool."""
        return nullcontext()


DIALECTS: Registry[str, Dialect] = Registry("dialect", OptionsError, ("espalier.passes.mase.dialect",))
