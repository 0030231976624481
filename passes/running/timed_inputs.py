"""What a timed model runs on: a batch of the data, or made values at the sizes of the trace or others."""

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
    """What is run, and where. Without data, on made inputs of the model's sizes."""

    batch_size: int = field(default=16, metadata={"min": 1, "max": 4096, "help": "batch size"})
    sizes: str = field(
        default="", metadata={"help": "sizes of generated inputs, if not those of the trace, such as seq=128"}
    )
    device: Literal["cpu", "cuda"] = field(default="cpu", metadata={"help": "default: cuda if available"})


def check_device(device: str) -> None:
    """Raises OptionsError for a device that is not here."""
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
def sizes_told(options: TimedOptions) -> Generator[None]:
    """Where inputs of written sizes do not fit, the sizes are what to change."""
    try:
        yield
    except DataError as error:
        if not options.sizes:
            raise
        text = error.message.replace("this data", f"inputs of {options.sizes}")
        raise DataError(text, "Write smaller sizes, or none for those of the trace.") from error


def batch_symbols(graph: Graph) -> list[str]:
    """The sizes that count samples."""
    return [s for s in graph.symbols if s == "batch" or s.startswith("batch_")]


def sizes_of(options: TimedOptions, graph: Graph) -> dict[str, int]:
    """The sizes that were written; raises OptionsError for what the model has not, and where data have their own."""
    from espalier.verilog.design.options import sizes_in

    found = sizes_in(options.sizes)
    if found and options.data:
        raise OptionsError("Data have sizes of their own.", "Take the sizes out, or the data, for made inputs.")
    for name in found:
        if name not in graph.symbols:
            hint = nearest(name, graph.symbols) if graph.symbols else "All of its sizes are fixed."
            raise OptionsError(f"The model has no size {name!r}.", hint)
    return found
