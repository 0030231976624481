"""The error for a tokenizer that llama.cpp does not have."""

from __future__ import annotations

from espalier.model.errors import ExportError

HINT = "Export it as compressed-tensors, or write token ids alone: --ids-only."


def refused(why: str) -> ExportError:
    """The error to raise; `why`: a clause on the tokenizer."""
    return ExportError(f"llama.cpp does not have the model's tokenizer: {why}.", HINT)
