"""Data sample of a pruning, from options named as those of an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions, load_split

if TYPE_CHECKING:
    from espalier.model.data.base import Split

FIELDS = ("data", "split", "limit", "text", "label", "tokenizer", "max_length")


def sample(options: Any, context: Context) -> Split:
    """The samples of options with FIELDS; raises DataError."""
    return load_split(EvaluateOptions(**{n: getattr(options, n) for n in FIELDS}), context)
