"""Batches of samples as a graph takes them, and the class scores that it gives."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError, GraphError, first_line
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import floating

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split


@contextlib.contextmanager
def fit_error(inputs: dict[str, Tensor]) -> Generator[None]:
    """Data that the model cannot take is a DataError."""
    try:
        yield
    # Sizes that do not fit, token ids past the vocabulary: torch tells them so.
    except (RuntimeError, IndexError) as error:
        shapes = ", ".join(f"{k} {' × '.join(map(str, v.shape))}" for k, v in inputs.items())
        message = f"The model cannot take this data ({shapes}): {first_line(error).rstrip('.')}."
        longer = ", or lower max_length to what it takes" if "input_ids" in inputs else ""
        raise DataError(message, f"Choose data of the model's kind and size{longer}.") from error


def batches(split: Split, graph: Graph, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """(inputs by the graph's names, labels) of `size` samples each; `labels` among them where the graph takes them."""
    import torch

    names = [n.target for n in graph.placeholders]
    extra = "labels" in names
    given = match_inputs(names, split)
    for inputs, labels in split.batches(size):
        tensors = in_its_kind({given[k]: torch.from_numpy(v) for k, v in inputs.items() if k in given}, graph)
        target = torch.from_numpy(labels).long()
        yield tensors | ({"labels": target} if extra else {}), target


def in_its_kind(tensors: dict[str, Tensor], graph: Graph) -> dict[str, Tensor]:
    """Images and other real numbers in the float that the graph's inputs are in: a model in bfloat16 takes no other."""
    import torch

    kinds = {n.target: n.out.dtype for n in graph.placeholders if floating(n.out) and n.out}
    return {k: v.to(getattr(torch, kinds[k])) if k in kinds and v.is_floating_point() else v
            for k, v in tensors.items()}  # fmt: skip


def match_inputs(names: list[str], split: Split) -> dict[str, str]:
    """Data's input name → graph's; raises DataError when the graph needs one that the data lacks.

    A model with one input takes data with one input, whatever they are called.
    """
    needed = [n for n in names if n != "labels"]
    if len(needed) == 1 and len(split.inputs) == 1:
        return {next(iter(split.inputs)): needed[0]}
    optional = ("token_type_ids", "attention_mask", "use_cache")
    missing = [n for n in needed if n not in split.inputs and n not in optional]
    if missing or (needed and not set(needed) & set(split.inputs)):
        given = ", ".join(split.inputs)
        message = f"The model needs the input {', '.join(missing or needed)}; the data gives {given}."
        raise DataError(message, "Choose data of the model's kind.")
    return {n: n for n in needed if n in split.inputs}


def logits_of(result: Any, graph: Graph) -> Tensor:
    """The class scores among a module's results: `logits`, or the first that is a matrix."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    values = (
        list(result.values()) if isinstance(result, dict) else list(result) if isinstance(result, tuple) else [result]
    )
    found = [v for v in values if getattr(v, "dim", lambda: 0)() == 2]
    if not found:
        raise GraphError("The model gives no class scores, so its accuracy cannot be measured.",
                         "Open it with a classification head (task=sequence-classification).")  # fmt: skip
    return found[0]


def fit(logits: Tensor, labels: Tensor) -> None:
    """Raise DataError where the labels name classes that the scores do not have."""
    if logits.dim() != 2 or int(labels.max()) >= logits.shape[-1]:
        raise DataError(f"The data has classes up to {int(labels.max())}; the model tells {logits.shape[-1]} apart.",
                        "Use a model with as many labels as the data.")  # fmt: skip
