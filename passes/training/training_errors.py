"""Errors of a training: non-finite loss, out of memory."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from espalier.model.errors import PassError
from espalier.model.torch.build import NODE, parameters_of
from espalier.passes.training.options import FinetuneOptions

HINT = "Lower the learning rate, or increase the warm-up."
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


class Diverged(Exception):
    """The loss of step `step` is not finite; `where`: the first non-finite tensor, if known."""

    def __init__(self, step: int, where: str, node: str | None = None) -> None:
        super().__init__(step, where, node)
        self.step, self.where, self.node = step, where, node

    @classmethod
    def at(cls, step: int, objective: Any, inputs: Mapping[str, Tensor]) -> Diverged:
        """Find the first non-finite weight or, if there is none, result."""
        inner: nn.Module = objective.inner
        if fault := first_non_finite(parameters_of(inner)):
            return cls(step, f"the weight {fault} is not finite")
        node = _first_result(inner, objective.taken(inputs))
        return cls(step, f"the results of {node} are not finite" if node else "", node)

    def error(self) -> PassError:
        """The error of a training without usable weights."""
        where = f": {self.where}" if self.where else ""
        return PassError(f"The training diverged: its loss is not finite at step {self.step}{where}.", HINT, self.node)


def finite(value: Tensor) -> bool:
    """Whether all elements are finite, of a tensor in parts those of all ranks."""
    untyped: Any = value
    part: Tensor | None = untyped.to_local() if hasattr(value, "to_local") else None
    if part is None:
        return bool(torch.isfinite(value).all())
    from torch import distributed

    flag = torch.isfinite(part).all().int()
    distributed.all_reduce(flag, distributed.ReduceOp.MIN)
    return bool(flag)


def first_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with NaN or infinite values."""
    return next((n for n, t in tensors.items() if t.is_floating_point() and not finite(t)), None)


def _first_result(inner: nn.Module, inputs: dict[str, Any]) -> str | None:
    """Id of the first node with a non-finite result."""
    if not isinstance(inner, fx.GraphModule):
        return None
    check = _FiniteCheck(inner)
    with torch.no_grad():
        check.run(*(inputs.get(n.target) for n in inner.graph.nodes if n.op == "placeholder"))
    return check.first


class _FiniteCheck(fx.Interpreter):
    first: str | None = None

    def run_node(self, n: fx.Node) -> Any:
        """Run one node and check its result. Attention masks are −inf by design: only results of layers count."""
        result = super().run_node(n)
        if self.first is None and n.op == "call_module" and isinstance(result, Tensor) and result.is_floating_point():
            self.first = None if finite(result) else n.meta.get(NODE)
        return result


@contextmanager
def memory_errors(options: FinetuneOptions) -> Generator[None]:
    """Convert out-of-memory exceptions to a PassError that names the options to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch's OutOfMemoryError is a RuntimeError
        if not _of_memory(error):
            raise
        raise _no_memory(options) from error


def _of_memory(error: BaseException) -> bool:
    typed = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return typed or any(text in str(error).lower() for text in NO_MEMORY)


def _no_memory(options: FinetuneOptions) -> PassError:
    size, parts = options.batch_size, options.accumulation
    message = f"The training ran out of memory (batch_size {size}, max_length {options.max_length})."
    if options.distributed:
        hint = "Shard the model over more devices, lower batch_size with more accumulation, or freeze more nodes."
    elif size > 1:
        half = math.ceil(size / 2)
        hint = f"Lower batch_size to {half} with accumulation {parts * 2}, which is equivalent; or lower max_length."
    else:
        hint = "Lower max_length, freeze more nodes, use adafactor or a smaller model."
    return PassError(message, hint)
