"""The dialect registers itself: recipes in MASE's dicts, and functions with MASE's signature in plug-ins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from espalier.model.document.recipe import Step
from espalier.passes.mase.adapter import register
from espalier.passes.mase.pass_names import MASE_PASSES, NOTHING, translated
from espalier.passes.mase.pruning import is_prune_dict, prune_steps
from espalier.passes.mase.quantizing import is_quantize_dict, quantize_options
from espalier.passes.mase.stand_in import chop_importable
from espalier.passes.recipes.config import decode_options
from espalier.passes.recipes.dialects import DIALECTS, Dialect


class Mase(Dialect):
    """MASE is the course tool whose tutorials the product follows; its package is `chop`."""

    names = frozenset({*MASE_PASSES, *NOTHING})
    signature = "my_pass(mg, pass_args={})"

    def steps(self, name: str, options: Any, path: str) -> tuple[Step, ...] | None:
        """None for a pass of ours with options of ours."""
        if name in NOTHING:
            return ()
        ours = MASE_PASSES.get(name, name)
        table = cast("Mapping[str, Any]", options) if isinstance(options, Mapping) else {}
        if ours == "quantize" and is_quantize_dict(table):
            return (Step(ours, quantize_options(table, path)),)
        if ours == "prune" and is_prune_dict(table):
            return prune_steps(table, path)
        if name not in MASE_PASSES:
            return None
        return (Step(ours, decode_options(ours, translated(name, options), path)),)

    def is_pass(self, function: Callable[..., Any]) -> bool:
        """(mg, pass_args), or (…, pass_args) under a name that ends in _pass."""
        names = list(inspect.signature(function).parameters)
        return len(names) >= 2 and names[1] == "pass_args" and (names[0] == "mg" or function.__name__.endswith("_pass"))

    def register(self, function: Callable[..., Any], file: Path) -> None:
        """Under its own name."""
        register(function, file)

    def imports(self) -> AbstractContextManager[None]:
        """`import chop` works."""
        return chop_importable()


DIALECTS.add("mase", Mase())
