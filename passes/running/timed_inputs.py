"""Inputs of timed runs: a batch of the data, or generated values at given sizes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from espalier.model.errors import DataError, OptionsError, nearest
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from torch import Tensor

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class TimedOptions(EvaluateOptions):
    """Inputs and device. Without data, inputs are generated at the model's sizes."""

    batch_size: int = field(default=16, metadata={"min": 1, "max": 4096, "help": "batch size"})
    sizes: str = field(
        default="", metadata={"help": "sizes of generated inputs, if not those of the trace, such as seq=128"}
    )
    device: Literal["cpu", "cuda"] = field(default="cpu", metadata={"help": "default: cuda if available"})


def check_device(device: str) -> None:
    """Raise OptionsError for an unavailable device."""
    import torch

    if device not in DEVICES:
        raise OptionsError(f"There is no device {device!r}.", f"Choose {' or '.join(DEVICES)}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionsError("There is no CUDA device here.", "Choose the cpu.")


def inputs_on(options: TimedOptions, graph: Graph, context: Context) -> dict[str, Tensor]:
    """Name → values of a batch of `options.batch_size` samples, on the device. Raises DataError, OptionsError."""
    from espalier.passes.running.batches import batches
    from espalier.passes.running.example import example_inputs
    from espalier.passes.running.splits import load_split

    given = sizes_of(options, graph)
    if options.data:
        inputs = next(batches(load_split(options, context), graph, options.batch_size))[0]
    else:
        sizes = {s: options.batch_size for s in batch_symbols(graph)}
        inputs = example_inputs(graph, sizes | given, context.seed)
    return {k: v.to(options.device) for k, v in inputs.items()}


@contextmanager
def size_errors(options: TimedOptions) -> Generator[None]:
    """Name the sizes in errors of generated inputs that do not fit."""
    try:
        yield
    except DataError as error:
        if not options.sizes:
            raise
        text = error.message.replace("this data", f"inputs of {options.sizes}")
        raise DataError(text, "Use smaller sizes, or none for those of the trace.") from error


def batch_symbols(graph: Graph) -> list[str]:
    """The batch sizes."""
    return [s for s in graph.symbols if s == "batch" or s.startswith("batch_")]


def sizes_of(options: TimedOptions, graph: Graph) -> dict[str, int]:
    """The sizes of the options; raises OptionsError for unknown sizes, and together with data."""
    from espalier.verilog.design.options import sizes_in

    sizes = sizes_in(options.sizes)
    if sizes and options.data:
        raise OptionsError("sizes cannot be combined with data.", "Remove one of them.")
    for name in sizes:
        if name not in graph.symbols:
            hint = nearest(name, graph.symbols) if graph.symbols else "All of its sizes are fixed."
            raise OptionsError(f"The model has no size {name!r}.", hint)
    return sizes
