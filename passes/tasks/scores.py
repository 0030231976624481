"""The scores among a module's results, and whether labels fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import DECODER, IGNORED
from espalier.model.errors import DataError, GraphError
from espalier.model.graph.token_scores import token_scores_width

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.graph.graph import Graph

DECODER_MASK = f"{DECODER}attention_mask"


def is_defined(scores: Tensor) -> Tensor:
    """bool [...]: which rows [..., classes] have a softmax, and so a prediction: none with NaN or +∞, or of −∞ alone.

    −∞ of some classes is how models rule them out.
    """
    return scores.amax(-1).isfinite()


def hits_of(scores: Tensor, targets: Tensor) -> Tensor:
    """bool [rows]: whether the class of the largest score is that of `targets`; of no undefined row."""
    return (scores.argmax(-1) == targets) & is_defined(scores)


def token_scores(result: Any) -> Tensor | None:
    """The scores of tokens among a module's results, [batch, positions, vocabulary]: `logits`, or the first such."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    values = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple) else [result]
    return next((v for v in values if getattr(v, "dim", lambda: 0)() == 3 and v.is_floating_point()), None)


def with_counted(inputs: Mapping[str, Tensor], labels: Tensor) -> Mapping[str, Tensor]:
    """The inputs with the mask of a decoder's positions that have labels; a model itself need not take it."""
    ids = inputs.get(f"{DECODER}input_ids")
    return inputs if ids is None or ids.shape != labels.shape else {**inputs, DECODER_MASK: (labels != IGNORED).long()}


def scored_mask(inputs: Mapping[str, Tensor]) -> Tensor | None:
    """The mask of the positions that outputs are of: the decoder's if the model has one; None if none is known."""
    decodes = f"{DECODER}input_ids" in inputs
    return inputs.get(DECODER_MASK if decodes else "attention_mask")


def logits_of(result: Any, graph: Graph) -> Tensor:
    """The logits among a module's results, [rows, classes]; scores of tokens have a row for each position."""
    logits = scores_of(result, graph)
    return logits.flatten(0, 1) if logits.dim() == 3 and token_scores_width(graph) else logits


def scores_of(result: Any, graph: Graph) -> Any:
    """The result that has the scores: `logits`, the first matrix, or the scores of all tokens of rank 3."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    if isinstance(result, dict) and {"start_logits", "end_logits"} <= result.keys():
        raise GraphError("The model gives scores of where an answer starts and ends, not of classes.",
                         "Choose the task question-answering, or open it with another head.")  # fmt: skip
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
