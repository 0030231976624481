"""Batches of samples in the inputs of a graph, and the logits among its results."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError, GraphError, first_line
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import floating
from espalier.model.graph.token_scores import token_scores_width
from espalier.passes.tasks.next_token import token_scores

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split


MAX_SCORES = 512 << 20  # bytes of the scores of tokens of a batch


@contextlib.contextmanager
def fit_error(inputs: dict[str, Tensor]) -> Generator[None]:
    """Convert torch's exceptions for unfit data to a DataError."""
    try:
        yield
    # Sizes that do not fit, token ids outside the vocabulary.
    except (RuntimeError, IndexError) as error:
        shapes = ", ".join(f"{k} {' × '.join(map(str, v.shape))}" for k, v in inputs.items())
        message = f"The model cannot take this data ({shapes}): {first_line(error).rstrip('.')}."
        longer = ", or lower max_length" if "input_ids" in inputs else ""
        raise DataError(message, f"Choose data of the model's kind and size{longer}.") from error


def batches(split: Split, graph: Graph, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """(inputs by the graph's names, labels) of `size` samples each; with an input `labels` if the graph has one.

    Labels are int64 [samples], of windows [samples, positions]; flattened, they are those of the rows of `logits_of`.
    """
    import torch

    names = [n.target for n in graph.placeholders]
    extra = "labels" in names
    given = match_inputs(names, split)
    size = fitting_windows(split, graph, size)
    for inputs, labels in split.batches(size):
        tensors = cast_inputs({given[k]: torch.from_numpy(v) for k, v in inputs.items() if k in given}, graph)
        target = torch.from_numpy(labels).long()
        yield tensors | ({"labels": target} if extra else {}), target


def fitting_windows(split: Split, graph: Graph, size: int) -> int:
    """At most `size` windows, so that the scores of all their tokens take MAX_SCORES bytes at most."""
    width = token_scores_width(graph) if split.labels.ndim == 2 else None
    return size if width is None else max(1, min(size, MAX_SCORES // (4 * width * max(split.labels.shape[1], 1))))


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
    given = [n for n in split.inputs if split.labels.ndim == 1 or n != "attention_mask"]
    if len(needed) == 1 and len(given) == 1:
        return {given[0]: needed[0]}
    optional = ("token_type_ids", "attention_mask", "use_cache")
    missing = [n for n in needed if n not in split.inputs and n not in optional]
    if missing or (needed and not set(needed) & set(split.inputs)):
        given = ", ".join(split.inputs)
        message = f"The model needs the input {', '.join(missing or needed)}; the data has {given}."
        raise DataError(message, "Choose data of the model's kind.")
    return {n: n for n in needed if n in split.inputs}


def logits_of(result: Any, graph: Graph) -> Tensor:
    """The logits among a module's results, [rows, classes]; scores of tokens have a row for each position."""
    logits = scores_of(result, graph)
    return logits.flatten(0, 1) if logits.dim() == 3 and token_scores_width(graph) else logits


def scores_of(result: Any, graph: Graph) -> Any:
    """The result that has the scores: `logits`, the first matrix, or the scores of all tokens of rank 3."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    values = (
        list(result.values()) if isinstance(result, dict) else list(result) if isinstance(result, tuple) else [result]
    )
    matrices = [v for v in values if getattr(v, "dim", lambda: 0)() == 2]
    logits = matrices[0] if matrices else token_scores(result) if token_scores_width(graph) else None
    if logits is None:
        raise GraphError("The model has no scores of classes or tokens, so its accuracy cannot be measured.",
                         "Open it with a classification head (task=sequence-classification).")  # fmt: skip
    return logits


def fit(logits: Tensor, labels: Tensor) -> None:
    """Raise DataError if logits [rows, classes] are not of these labels [rows], or if labels exceed the classes."""
    if logits.dim() == 2 and len(logits) != len(labels):
        raise DataError(
            f"The model gives {len(logits):,} rows of scores, the data has {len(labels):,} labels for them.",
            "Use data of the model's task: a text for a language model, labelled samples for a classifier.",
        )
    fit_classes(logits, labels)


def fit_classes(logits: Tensor, labels: Tensor) -> None:
    """Raise DataError if labels, of any samples, exceed the classes of the logits [rows, classes]."""
    if logits.dim() != 2 or int(labels.max()) >= logits.shape[-1]:
        raise DataError(f"The data has {int(labels.max()) + 1} classes, the model {logits.shape[-1]}.",
                        "Use a model with as many labels as the data.")  # fmt: skip
