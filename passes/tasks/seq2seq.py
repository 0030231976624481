"""Sequence to sequence: each token of a target, from the source and the tokens before it (teacher forcing).

The loss is the mean cross-entropy of the targets' tokens, as transformers' models compute it from labels. Perplexity is
e^loss. Texts that the model would generate by itself are not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import DECODER, IGNORED, Array, LabelForm
from espalier.model.data.text_pairs import SEQ2SEQ, SOURCES, TARGETS, decoder_inputs, padding_of, pair_data, pair_rows
from espalier.model.errors import DataError, GraphError
from espalier.passes.tasks.base import LOSS, TASKS, Metric, Task
from espalier.passes.tasks.scores import token_scores

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split
    from espalier.model.graph.graph import Graph
    from espalier.model.sources.reading import Limits

HEAD = "seq2seq-lm"
IDS = f"{DECODER}input_ids"
ACCURACY = Metric(
    "accuracy", "accuracy", "high", "Share of the targets' tokens that are predicted correctly", True, True
)
PERPLEXITY = Metric("perplexity", "perplexity", "low", "e to the power of the loss of the targets' tokens")


class SequenceToSequence(Task):
    """The tokens of a target. Labels: int64 [texts, positions], IGNORED after the target's end."""

    name, units, keep, kind, metrics = SEQ2SEQ, "tokens", "loss", "distributions", (ACCURACY, PERPLEXITY, LOSS)
    positions, rows, pooled, large, own, resampled = True, False, True, True, None, True
    form = LabelForm(rows=pair_rows, samples=pair_data, labels=TARGETS, texts=SOURCES)

    def recognises(self, limits: Limits) -> bool:
        """The head of transformers."""
        return limits.head == HEAD

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """Tokens of a target, for a model with that head or with inputs of a decoder of their shape."""
        decodes = IDS in inputs and inputs[IDS].shape == labels.shape
        return labels.ndim == 2 and labels.dtype.kind in "iu" and (decodes or limits.head == HEAD)

    def completed(self, inputs: dict[str, Array], labels: Array, limits: Limits) -> dict[str, Array]:
        """With the decoder's inputs, if they are not given; raises DataError if no start is known."""
        if IDS in inputs:
            return inputs
        hidden = padding_of(inputs) if "attention_mask" in inputs else 0
        return {**inputs, **decoder_inputs(labels, limits.start, hidden)}

    def hides(self, labels: Array) -> bool:
        """Whether no position has a label."""
        return bool(len(labels)) and not bool((labels != IGNORED).any())

    def scores(self, result: Any, graph: Graph) -> Tensor:
        """[texts × positions, vocabulary]: `logits`, or the first result of rank 3."""
        scores = token_scores(result)
        if scores is None or scores.dim() != 3:
            raise GraphError("The model gives no scores of each token of a target.",
                             "Open it with the head seq2seq-lm, or choose another task.")  # fmt: skip
        return scores.flatten(0, 1)

    def scores_of_sample(self, split: Split, graph: Graph) -> int | None:
        """Those of the vocabulary at each position of the longest target."""
        shapes = [n.out.shape for ref in graph.output.inputs if (n := graph.nodes[ref.node]).out is not None]
        width = next((s[2] for s in shapes if len(s) == 3 and isinstance(s[2], int)), 1)
        return width * split.labels.shape[-1]

    def fit(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for labels of other positions, or of more tokens than the scores have."""
        if labels.dim() != 2 or len(scores) != labels.numel():
            raise DataError(f"The model gives {len(scores):,} rows of scores, the targets have {labels.numel():,} "
                            "positions.",
                            "Give sources with targets, and a model whose decoder reads the targets.")  # fmt: skip
        self.fit_all(scores, labels)

    def fit_all(self, scores: Tensor, labels: Tensor) -> None:
        """Raise DataError for more tokens than the scores have."""
        if int(labels.max()) >= scores.shape[-1]:
            raise DataError(f"The targets have token ids up to {int(labels.max()):,}; the model scores "
                            f"{scores.shape[-1]:,} tokens.",
                            "Use the model's tokenizer (--tokenizer).")  # fmt: skip

    def figures(self, sums: Array) -> dict[str, Array]:
        """Accuracy, loss and perplexity."""
        import numpy as np

        from espalier.passes.score import LARGEST

        figures = super().figures(sums)
        return figures | {"perplexity": np.exp(np.minimum(figures["loss"], LARGEST))}

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """The number of targets, and the tokens of the longest."""
        return {"targets": len(split), "longest_target": split.labels.shape[-1]} if len(split) else {}


TASKS.add(SEQ2SEQ, SequenceToSequence())
