"""Batches of samples in the inputs of a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from espalier.model.errors import DataError, first_line
from espalier.model.graph.graph import Graph, fixed_batch
from espalier.model.graph.limits import check_sizes
from espalier.model.graph.ops import floating
from espalier.passes.tasks.base import task_of

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split


MAX_SCORES = 512 << 20  # bytes of the scores of tokens of a batch


@contextlib.contextmanager
def fit_error(inputs: dict[str, Tensor], graph: Graph | None = None) -> Generator[None]:
    """Convert torch's exceptions for unfit data to a DataError, which names the batch size that `graph` has fixed.

    Inputs beyond the sizes for which `graph` is valid raise DataError first.
    """
    if graph is not None and graph.limits:
        check_sizes(graph, {k: v.shape for k, v in inputs.items()})
    try:
        yield
    # Sizes that do not fit, token ids outside the vocabulary.
    except (RuntimeError, IndexError) as error:
        size = next((len(v) for v in inputs.values() if v.dim()), 0)
        if graph is not None and (own := fixed_batch(graph)) is not None and own != size:
            raise _other_batch(own, size) from error
        shapes = ", ".join(f"{k} {' × '.join(map(str, v.shape))}" for k, v in inputs.items())
        message = f"The model cannot take this data ({shapes}): {first_line(error).rstrip('.')}."
        longer = ", or lower max_length" if "input_ids" in inputs else ""
        raise DataError(message, f"Choose data of the model's kind and size{longer}.") from error


def _other_batch(own: int, size: int) -> DataError:
    rest = f", and a number of samples that {own} divides (--limit)" if own > 1 else ""
    message = f"The model's graph takes batches of {own} alone, and this one has {size}."
    return DataError(message, f"Choose --batch-size {own}{rest}.")


def check_rows(scores: Tensor, graph: Graph, labels: Tensor) -> None:
    """Raise DataError where scores have the rows of the batch that `graph` has fixed instead of those of the labels."""
    own = fixed_batch(graph)
    if own is not None and own != len(labels) and scores.dim() and len(scores) == own:
        raise _other_batch(own, len(labels))


def batches(split: Split, graph: Graph, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """(inputs by the graph's names, labels) of `size` samples each; with an input `labels` if the graph has one.

    Labels are as in `Split`: int64 or float32.
    """
    import torch

    names = [n.target for n in graph.placeholders]
    extra = "labels" in names
    given = match_inputs(names, split)
    size = fitting_size(split, graph, size)
    for inputs, labels in split.batches(size):
        tensors = cast_inputs({given[k]: torch.from_numpy(v) for k, v in inputs.items() if k in given}, graph)
        target = torch.from_numpy(labels)
        target = target if target.is_floating_point() else target.long()
        yield tensors | ({"labels": target} if extra else {}), target


def fitting_size(split: Split, graph: Graph, size: int) -> int:
    """At most `size` samples, so that the scores of all their tokens or pixels take MAX_SCORES bytes at most."""
    scores = task_of(split).scores_of_sample(split, graph)
    return size if scores is None else max(1, min(size, MAX_SCORES // (4 * max(scores, 1))))


def cast_inputs(tensors: dict[str, Tensor], graph: Graph) -> dict[str, Tensor]:
    """Cast floating-point inputs to the dtypes of the graph's inputs."""
    import torch

    kinds = {n.target: n.out.dtype for n in graph.placeholders if floating(n.out) and n.out}
    return {k: v.to(getattr(torch, kinds[k])) if k in kinds and v.is_floating_point() else v
            for k, v in tensors.items()}  # fmt: skip


def match_inputs(names: list[str], split: Split) -> dict[str, str]:
    """Data's input name → graph's; raises DataError if the graph needs one that the data lacks.

    A single input of the data matches a single input of the model, whatever their names. Windows of a text have no
    padding, so that their mask can be left out.
    """
    needed = [n for n in names if n != "labels"]
    windows = task_of(split).windows
    given = [n for n in split.inputs if not windows or n != "attention_mask"]
    if len(needed) == 1 and len(given) == 1:
        return {given[0]: needed[0]}
    optional = ("token_type_ids", "attention_mask", "use_cache")
    missing = [n for n in needed if n not in split.inputs and n not in optional]
    if missing or (needed and not set(needed) & set(split.inputs)):
        given = ", ".join(split.inputs)
        message = f"The model needs the input {', '.join(missing or needed)}; the data has {given}."
        raise DataError(message, "Choose data of the model's kind.")
    return {n: n for n in needed if n in split.inputs}
