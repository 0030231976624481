"""Checks that a model treats every block of a stack as it treats the few that were captured.

Identical blocks may still be treated differently by the code around them or by their index. The full and the
truncated model run once each, and their calls of torch are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch._export.utils import (
    _compiling_state_context,  # pyright: ignore[reportPrivateUsage] - the flags by which code knows that it is exported
)
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

from espalier.model.trace.capture import quiet
from espalier.model.trace.repeated_blocks import BlockStack, truncated

OutputRef = tuple[int, int, int]  # stretch, call in it, output of the call
Call = tuple[Any, ...]


def blocks_equivalent(model: nn.Module, stack: BlockStack, example: dict[str, Any]) -> bool:
    """Whether each further block of `stack` makes the calls of the last but one captured block, and the end agrees."""
    try:
        whole = _stretches(model, stack, example)
        with truncated(model, stack):
            short = _stretches(model, stack, example)
    # Boundary to foreign code: a model that does not run on the meta device is captured in full.
    except Exception:  # noqa: BLE001
        return False
    if whole is None or short is None:
        return False
    further = len(whole) - len(short)
    return whole[:-1] == short[:-1] + further * short[-2:-1] and whole[-1] == short[-1]


def _stretches(model: nn.Module, stack: BlockStack, example: dict[str, Any]) -> list[list[Call]] | None:
    """The calls before the first block and from each block to the next; None unless they run once each, in order."""
    blocks = list(model.get_submodule(stack.path).children())
    watch = _Watch(model, stack.path)
    entered: list[int] = []
    with ExitStack() as hooks:
        for i, block in enumerate(blocks):
            hooks.callback(block.register_forward_pre_hook(_counting(watch, entered, i)).remove)
        with quiet(), torch.no_grad(), _compiling_state_context(), watch:
            result = model(**pytree.tree_map_only(Tensor, watch.input, example))
        if entered != list(range(len(blocks))):
            return None
        watch.end(result)
    return watch.stretches


def _counting(watch: _Watch, entered: list[int], number: int) -> Callable[..., None]:
    def begin(*_: Any) -> None:
        entered.append(number)
        watch.stretches.append([])

    return begin


class _Watch(TorchDispatchMode):
    """Records every call with the origin of its tensors: a relative stretch, the part before the blocks, or a name."""

    def __init__(self, model: nn.Module, path: str) -> None:
        super().__init__()
        self.stretches: list[list[Call]] = [[]]
        self._path = path + "."
        named = (*model.named_parameters(), *model.named_buffers())
        self._names = {id(t): n for n, t in named}
        self._made: dict[int, OutputRef] = {}
        self._kept: list[Any] = []  # an id must not be used again

    def input(self, value: Tensor) -> Tensor:
        """Move an input to the model's device and name it."""
        moved = value.to("meta")
        self._kept.append(moved)
        self._names[id(moved)] = f"input {len(self._kept)}"
        return moved

    def end(self, result: Any) -> None:
        """Record the model's result as a last call."""
        self._record("return", dict(result.items()) if hasattr(result, "items") else result)

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        place = len(self.stretches) - 1, len(self.stretches[-1])
        self._record(func, (args, kwargs or {}))
        for i, value in enumerate(pytree.tree_leaves(result)):
            if isinstance(value, Tensor):
                self._made[id(value)] = (*place, i)
                self._kept.append(value)
        return result

    def _record(self, func: Any, given: Any) -> None:
        leaves, spec = pytree.tree_flatten(given)
        self._kept.append(leaves)
        origins = [self._origin(v) if isinstance(v, Tensor) else (type(v).__name__, str(v)) for v in leaves]
        self.stretches[-1].append((func, spec, *origins))

    def _origin(self, value: Tensor) -> Call:
        now = len(self.stretches) - 1
        made = self._made.get(id(value))
        if made is not None:
            stretch, call, output = made
            return ("before", call, output) if not stretch else ("back", now - stretch, call, output)
        name = self._names.get(id(value), "constant")
        mine = f"{self._path}{now - 1}."
        own = name.startswith(mine)
        return "own" if own else "named", name.removeprefix(mine), tuple(value.shape), str(value.dtype)
