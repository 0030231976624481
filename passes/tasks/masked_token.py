"""Masked tokens of a text: 15 % are predicted, of which 80 % are masked, 10 % random and 10 % kept, with a fixed seed
(Devlin et al., 2019, https://arxiv.org/abs/1810.04805). Pseudo-perplexity is e^loss over these positions; Salazar et
al. (2020, https://arxiv.org/abs/1910.14659) mask each token in turn instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import IGNORED, Array, LabelForm, LoadOptions, Split, TaskData
from espalier.model.data.windows import cut_texts, load_windows
from espalier.model.errors import DataError
from espalier.passes.tasks.base import LOSS, TASKS, Metric, Task

if TYPE_CHECKING:
    from espalier.model.sources.reading import Limits

MASKED_TOKEN = "masked-token"
SHARE, REPLACED, RANDOM, SEED = 0.15, 0.8, 0.1, 0  # of the tokens; of those predicted; of the draws
ACCURACY = Metric("accuracy", "accuracy", "high", "Share of the masked tokens that are predicted correctly", True, True)
PERPLEXITY = Metric("pseudo_perplexity", "pseudo-perplexity", "low", "e to the power of the loss of the masked tokens")


def load_masked(spec: str, options: LoadOptions) -> TaskData:
    """The texts of `spec` in windows with masked tokens; raises DataError."""
    return load_windows(spec, options, _cut)


def _cut(name: str, texts: Mapping[str, str], options: LoadOptions) -> TaskData:
    """Windows of `max_length` tokens, the tokenizer's special tokens around each."""
    from espalier.model.data.tokens import open_masking, open_stream

    assert options.tokenizer is not None
    encode, masking = open_stream(options.tokenizer), open_masking(options.tokenizer)
    room = options.max_length - len(masking.before) - len(masking.after)
    if room < 1:
        raise DataError(f"Windows of {options.max_length} tokens have no room beside the tokenizer's special tokens.",
                        f"Give a maximum length of at least {options.max_length - room + 1}.")  # fmt: skip

    def make(ids: Array, ends: Array, text: str) -> tuple[Split, tuple[str, ...]]:
        width = min(room, len(ids))
        rows = ids[: len(ids) // width * width].reshape(-1, width)
        inputs, labels = masked(rows, masking.mask, masking.ordinary)
        inputs, labels = (_around(a, *ends_) for a, ends_ in (
            (inputs, (masking.before, masking.after)),
            (labels, ([IGNORED] * len(masking.before), [IGNORED] * len(masking.after))),
        ))  # fmt: skip
        borders = [0, *(int(ends[at - 1]) for at in range(width, rows.size + 1, width))]
        split = Split({"input_ids": inputs, "attention_mask": inputs * 0 + 1}, labels, task=MASKED_TOKEN)
        return split, tuple(text[a:b] for a, b in itertools.pairwise(borders))

    return cut_texts(name, texts, encode, make, MASKED_TOKEN)


def masked(rows: Array, mask: int, ordinary: Array) -> tuple[Array, Array]:
    """(inputs, labels) int64 [n, width] of tokens [n, width]; labels are IGNORED where no token is predicted.

    `ordinary`: the tokens of which random ones are drawn; others, such as separators, are never predicted.
    """
    import numpy as np

    # By row: the draws of a window do not depend on how many follow.
    chance, kind, which = np.moveaxis(np.random.default_rng(SEED).random((*rows.shape, 3)), -1, 0)
    drawn = ordinary[(which * len(ordinary)).astype(np.int64)]
    predicted = (chance < SHARE) & np.isin(rows, ordinary)
    inputs = np.where(predicted & (kind < REPLACED), mask, rows)
    inputs = np.where(predicted & (kind >= REPLACED) & (kind < REPLACED + RANDOM), drawn, inputs)
    return inputs.astype(np.int64), np.where(predicted, rows, IGNORED).astype(np.int64)


def _around(rows: Array, before: Any, after: Any) -> Array:
    import numpy as np

    ends = [np.tile(np.array(part, np.int64), (len(rows), 1)) for part in (before, after)]
    return np.concatenate([ends[0], rows, ends[1]], 1)


class MaskedToken(Task):
    """The tokens at masked positions of a window. Labels: int64 [windows, positions], IGNORED elsewhere."""

    name, units, keep, kind, windows = MASKED_TOKEN, "tokens", "loss", "distributions", True
    positions, rows, pooled, large, own = True, False, True, True, 2
    metrics = (ACCURACY, PERPLEXITY, LOSS)
    form = LabelForm(load=load_masked)

    def recognises(self, limits: Limits) -> bool:
        """The head of transformers."""
        return limits.head == "masked-lm"

    def takes(self, labels: Array, inputs: Mapping[str, Array], limits: Limits) -> bool:
        """A label at some positions of an input, for a model with that head."""
        fits = labels.ndim == 2 and any(a.shape == labels.shape for a in inputs.values())
        return fits and limits.head == "masked-lm" and bool((labels == IGNORED).any())

    def hides(self, labels: Array) -> bool:
        """Whether no position has a label."""
        return bool(len(labels)) and not bool((labels != IGNORED).any())

    def figures(self, sums: Array) -> dict[str, Array]:
        """Accuracy, loss and pseudo-perplexity."""
        import numpy as np

        from espalier.passes.score import LARGEST

        figures = super().figures(sums)
        return figures | {"pseudo_perplexity": np.exp(np.minimum(figures["loss"], LARGEST))}

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """The windows with their length in tokens."""
        return {"windows": len(split), "window": split.labels.shape[-1]} if len(split) else {}


TASKS.add(MASKED_TOKEN, MaskedToken())
