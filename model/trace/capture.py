"""torch.export with as many dynamic dimensions as the model allows."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Generator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from espalier.model.errors import TraceError
from espalier.model.trace.specialised_sizes import specialised_axes

Dynamic = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Captured:
    """An exported program; `level` of dynamic sizes: "all", "batch" or "static"; `failures` of the levels before."""

    program: ExportedProgram
    level: str
    failures: tuple[str, ...]


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Suppress the terminal output of torch.export, and the fused inference path of attention modules."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fused kernel can neither be trained nor decomposed
    level = logging.getLogger("torch").level
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    try:
        # torch prints the graph when an attempt fails, and the next attempt may succeed.
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch").setLevel(level)
        torch.backends.mha.set_fastpath_enabled(fast)


def _map(value: Any, leaf: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return leaf(value)
    if isinstance(value, dict):
        return {k: _map(v, leaf) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_map(v, leaf) for v in value)
    return None


def _all_dims(value: Tensor) -> dict[int, Any]:
    if value.is_floating_point():
        # (batch, seq, features) has a dynamic length; image sizes are fixed by the model.
        return {i: Dim.AUTO for i in range(2 if value.dim() == 3 else min(value.dim(), 1))}
    return {i: Dim.AUTO for i in range(value.dim())}


def _batch_dim(value: Tensor) -> dict[int, Any]:
    return {0: Dim.AUTO} if value.dim() else {}


_LEVELS: tuple[tuple[str, Callable[[Tensor], Any] | None], ...] = (
    ("all", _all_dims),
    ("batch", _batch_dim),
    ("static", None),
)


def capture(model: nn.Module, kwargs: dict[str, Any]) -> Captured:
    """Export `model` on example `kwargs`; raises TraceError when no level of dynamism works.

    torch specialises example sizes of 0 and 1: use at least 2 for dynamic dimensions.
    """
    failures: list[str] = []
    for level, leaf in _LEVELS:
        try:
            return Captured(_export(model, kwargs, leaf), level, tuple(failures))
        # Boundary to foreign code: torch.export raises dozens of types for what a model's own code does.
        except Exception as error:  # noqa: BLE001
            failures.append(f"{level}: {type(error).__name__}: {_first_line(error)}")
    raise TraceError(f"The model could not be exported ({failures[-1]}).", "See the log for all attempts.")


def _export(model: nn.Module, kwargs: dict[str, Any], leaf: Callable[[Tensor], Any] | None) -> ExportedProgram:
    """Export with the dynamic dimensions of `leaf`, without those that the model specialises to a constant."""
    dynamic: Dynamic | None = {k: _map(v, leaf) for k, v in kwargs.items()} if leaf else None
    while True:
        with quiet():
            program = torch.export.export(model, (), kwargs, strict=False, dynamic_shapes=dynamic)
        found = specialised_axes(program)
        if not found:
            return program
        for name, axes in found.items():
            free: Any = (dynamic or {}).get(name)
            if not isinstance(free, dict):
                raise TraceError(f"The model fixes the size of {name}.", "Give it fixed sizes.")
            for axis in axes:
                free.pop(axis, None)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"
