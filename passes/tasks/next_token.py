"""Prediction of the next token of a text by a causal language model.

Perplexity is e^loss (Jelinek et al., 1977, https://doi.org/10.1121/1.2016299), with the context of a window alone. Bits
per byte do not depend on the tokenizer: the information of all predicted tokens over the bytes of their text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import NEXT_TOKEN, Array
from espalier.model.data.windows import WINDOWS
from espalier.model.errors import DataError
from espalier.passes.score import perplexity
from espalier.passes.tasks.base import LOSS, TASKS, Metric, Run, Task
from espalier.passes.tasks.scores import token_scores

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.model.sources.reading import Limits

SMALL = 1e-4  # relative change of scores that rounding may cause
ACCURACY = Metric("accuracy", "accuracy", "high", "Share of the tokens that are predicted correctly", True, True)
PERPLEXITY = Metric("perplexity", "perplexity", "low", "e to the power of the loss of the next tokens")
BITS = Metric("bits_per_byte", "bits per byte", "low", "Information of all predicted tokens over the bytes of the text")


class NextToken(Task):
    """The next token at each position of a window."""

    name, units, keep, kind, windows = NEXT_TOKEN, "tokens", "loss", "distributions", True
    positions, large, unvalidated = True, True, frozenset({"bits_per_byte", "perplexity"})
    metrics = (ACCURACY, PERPLEXITY, LOSS, BITS)
    own = None  # transformers' models shift labels themselves
    form = WINDOWS

    def recognises(self, limits: Limits) -> bool:
        """A score of each token of the vocabulary at each position, and no head of a masked or an encoder's model."""
        return limits.task == NEXT_TOKEN and limits.head not in ("masked-lm", "seq2seq-lm")

    def check(self, inputs: dict[str, Any], run: Run) -> None:
        """Raise DataError if the scores of a token depend on later tokens, as those of masked language models do.

        The first window is run with its last token and with another one.
        """
        if depends_on_later(inputs, run):
            raise DataError(
                "The model's scores of a token depend on later tokens, so it does not predict the next token.",
                "Use a causal language model, a model with a classification head, or the task masked-token.",
            )

    def figures(self, sums: Array) -> dict[str, Array]:
        """Accuracy, loss and perplexity."""
        import numpy as np

        from espalier.passes.score import LARGEST

        figures = super().figures(sums)
        return figures | {"perplexity": np.exp(np.minimum(figures["loss"], LARGEST))}

    def facts(self, figures: Mapping[str, float], split: Split) -> dict[str, Any]:
        """Perplexity, bits per byte, and the windows with their length in tokens."""
        loss, size = figures["loss"], 0 if split.text_bytes is None else int(split.text_bytes.sum())
        bits = {"bits_per_byte": loss * split.targets / math.log(2) / size} if size else {}
        windows = {"windows": len(split), "window": split.labels.shape[-1]} if len(split) else {}
        return {"perplexity": perplexity(loss), **bits, **windows}


def depends_on_later(inputs: dict[str, Any], run: Run) -> bool:
    """Whether the scores of tokens change with the last token of the first window."""
    import torch

    name, ids = next(
        (n, v) for n, v in inputs.items() if v.dim() == 2 and not v.is_floating_point() and "mask" not in n
    )
    other = ids.clone()
    other[0, -1] = ids[0, 0] if ids[0, 0] != ids[0, -1] else (ids[0, -1] + 1) % max(int(ids.max()), 2)
    with torch.no_grad():
        before, after = (token_scores(run(given)) for given in (inputs, {**inputs, name: other}))
    if before is None or after is None or before.dim() != 3 or before.shape[1] < 2:
        return False  # the comparison with the labels tells
    change = float((after - before).float()[:, :-1].abs().max())
    return change > SMALL * max(float(before.float().abs().max()), 1e-6)


TASKS.add(NEXT_TOKEN, NextToken())
