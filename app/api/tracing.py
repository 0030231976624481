"""Traces a caller's torch module in eval mode with copied weights; the module is unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from espalier.model.cache.captures import Capture
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import SourceError
from espalier.model.opening import Opened, described
from espalier.model.sources.info import Loaded, SourceInfo
from espalier.model.sources.source import OBJECT, module_and_example
from espalier.model.store.weights import WeightStore

if TYPE_CHECKING:
    from torch import nn


def traced(module: nn.Module, example: Any, name: str, folder: Path) -> Opened:
    """Trace a module; raises TraceError, SourceError."""
    from espalier.model.trace.trace import trace

    called = name or type(module).__name__
    store = WeightStore(folder)
    with _evaluating(module):
        model, inputs, uncached = module_and_example((module, _example(example)), called)
        loaded = Loaded(SourceInfo(f"{OBJECT}{called}", called, tuple(inputs)), model, inputs, uncached=uncached)
        try:
            result = trace(model, inputs, store)
        finally:
            loaded.restore_cache()
    store.flush("traced")  # until then the tensors share the caller's memory
    project = Project(described(loaded, result.graph, store), result.graph, Recipe(), result.graph)
    return Opened(project, store, result.problems, Capture(result.seconds, result.dynamic, result.fixed), loaded,
                  result.callables)  # fmt: skip


def _example(example: Any) -> Any:
    """Check the example: a dict, a tuple or a tensor; raises SourceError."""
    if isinstance(example, Mapping):
        return dict(cast("Mapping[str, Any]", example))
    if isinstance(example, tuple | list) or hasattr(example, "dim"):
        return example
    raise SourceError(
        f"The example is {type(example).__name__}.", "Give a tensor, a tuple of tensors or a dict of them."
    )


@contextlib.contextmanager
def _evaluating(module: nn.Module) -> Generator[None]:
    """Set eval mode for a block; each submodule's mode is restored."""
    from torch import nn

    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]  a caller may give anything
        raise SourceError(f"{type(module).__name__} is not a torch module.", "Give one, or open a source with es.open.")
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
