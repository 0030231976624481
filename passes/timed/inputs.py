"""What a timed model runs on: a batch of the data, or made values at the sizes of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.errors import OptionsError
from model.graph import Graph
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Context

if TYPE_CHECKING:
    from torch import Tensor

DEVICES = ("cpu", "cuda")


def check_device(device: str) -> None:
    """Raises OptionsError for a device that is not here."""
    import torch

    if device not in DEVICES:
        raise OptionsError(f"There is no device {device!r}.", f"Choose {' or '.join(DEVICES)}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionsError("There is no CUDA device here.", "Choose the cpu.")


def inputs_on(device: str, graph: Graph, options: EvaluateOptions, context: Context) -> dict[str, Tensor]:
    """Name → values of a batch of `options.batch_size` samples, on the device. Raises DataError."""
    from passes.analysis.evaluate import batches, load_split
    from passes.export.example import example_inputs

    if options.data:
        inputs = next(batches(load_split(options, context), graph, options.batch_size))[0]
    else:
        sizes = {s: options.batch_size for s in graph.symbols if s == "batch" or s.startswith("batch_")}
        inputs = example_inputs(graph, sizes, context.seed)
    return {k: v.to(device) for k, v in inputs.items()}
