"""What goes wrong in a training, in words: a loss that is no number, memory that does not suffice."""

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

HINT = "Lower the learning rate, or raise the warm-up."
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


class Diverged(Exception):
    """The loss of step `step` is no number; `where`: what went wrong first, as far as it is known."""

    def __init__(self, step: int, where: str, node: str | None = None) -> None:
        super().__init__(step, where, node)
        self.step, self.where, self.node = step, where, node

    @classmethod
    def at(cls, step: int, objective: Any, inputs: Mapping[str, Tensor]) -> Diverged:
        """Look for the first weight, then the first result, that is no number."""
        inner: nn.Module = objective.inner
        if fault := no_number(parameters_of(inner)):
            return cls(step, f"the weight {fault} holds values that are no numbers")
        node = _first_result(inner, objective.taken(inputs))
        return cls(step, f"the results of {node} are no numbers" if node else "", node)

    def error(self) -> PassError:
        """For a training that has nothing to keep."""
        where = f": {self.where}" if self.where else ""
        return PassError(f"The training diverged: its loss is no number at step {self.step}{where}.", HINT, self.node)


def finite(value: Tensor) -> bool:
    """Whether all of a tensor are numbers."""
    return bool(torch.isfinite(value).all())


def no_number(tensors: Mapping[str, Tensor]) -> str | None:
    """The first tensor by name that holds something else than numbers."""
    return next((n for n, t in tensors.items() if t.is_floating_point() and not finite(t)), None)


def _first_result(inner: nn.Module, inputs: dict[str, Any]) -> str | None:
    """The id of the first node whose result is no number."""
    if not isinstance(inner, fx.GraphModule):
        return None
    look = _Look(inner)
    with torch.no_grad():
        look.run(*(inputs.get(n.target) for n in inner.graph.nodes if n.op == "placeholder"))
    return look.found


class _Look(fx.Interpreter):
    found: str | None = None

    def run_node(self, n: fx.Node) -> Any:
        """Run one node and look at its result. Attention masks are −inf by design: only results of layers count."""
        result = super().run_node(n)
        if self.found is None and n.op == "call_module" and isinstance(result, Tensor) and result.is_floating_point():
            self.found = None if finite(result) else n.meta.get(NODE)
        return result


@contextmanager
def memory_told(options: FinetuneOptions) -> Generator[None]:
    """A lack of memory is an error that names what to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch's OutOfMemoryError is a RuntimeError
        if not _of_memory(error):
            raise
        raise _no_memory(options) from error


def _of_memory(error: BaseException) -> bool:
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(text in str(error).lower() for text in NO_MEMORY)


def _no_memory(options: FinetuneOptions) -> PassError:
    size, parts = options.batch_size, options.accumulation
    message = f"The training needs more memory than there is (batch_size {size}, max_length {options.max_length})."
    if size > 1:
        half = math.ceil(size / 2)
        hint = f"Lower batch_size to {half} with accumulation {parts * 2}, which trains alike; or lower max_length."
    else:
        hint = "Lower max_length, freeze more, use adafactor, or a smaller model."
    return PassError(message, hint)
