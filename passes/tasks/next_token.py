"""Prediction of the next token of a text by a causal language model.

Perplexity is e^loss (Jelinek et al., 1977, https://doi.org/10.1121/1.2016299), with the context of a window alone. Bits
per byte do not depend on the tokenizer: the information of all predicted tokens over the bytes of their text.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import NEXT_TOKEN
from espalier.model.errors import DataError
from espalier.passes.score import perplexity
from espalier.passes.tasks.base import TASKS, Run, Task

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

SMALL = 1e-4  # relative change of scores that rounding may cause


def figures(loss: float, split: Split) -> dict[str, Any]:
    """Perplexity, bits per byte, and the windows with their length in tokens."""
    size = 0 if split.text_bytes is None else int(split.text_bytes.sum())
    bits = {"bits_per_byte": loss * split.targets / math.log(2) / size} if size else {}
    windows = {"windows": len(split), "window": split.labels.shape[-1]} if len(split) else {}
    return {"perplexity": perplexity(loss), **bits, **windows}


def token_scores(result: Any) -> Tensor | None:
    """The scores of tokens among a module's results, [batch, positions, vocabulary]: `logits`, or the first such."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    values = result.values() if isinstance(result, dict) else result if isinstance(result, list | tuple) else [result]
    return next((v for v in values if getattr(v, "dim", lambda: 0)() == 3 and v.is_floating_point()), None)


def check(inputs: dict[str, Any], run: Run) -> None:
    """Raise DataError if the scores of a token depend on later tokens, as those of masked language models do.

    The first window is run with its last token and with another one.
    """
    import torch

    name, ids = next(
        (n, v) for n, v in inputs.items() if v.dim() == 2 and not v.is_floating_point() and "mask" not in n
    )
    first = {k: v[:1] if len(v) == len(ids) else v for k, v in inputs.items()}
    other = first[name].clone()
    other[0, -1] = ids[0, 0] if ids[0, 0] != ids[0, -1] else (ids[0, -1] + 1) % max(int(ids.max()), 2)
    with torch.no_grad():
        before, after = (token_scores(run(given)) for given in (first, {**first, name: other}))
    if before is None or after is None or before.dim() != 3 or before.shape[1] < 2:
        return  # the comparison with the labels tells
    change = float((after - before).float()[:, :-1].abs().max())
    if change > SMALL * max(float(before.float().abs().max()), 1e-6):
        raise DataError(
            "The model's scores of a token depend on later tokens, so it does not predict the next token.",
            "Use a causal language model, or a model with a classification head.",
        )


TASKS.add(NEXT_TOKEN, Task(NEXT_TOKEN, "tokens", figures, check))
