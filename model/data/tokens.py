"""Texts to token ids, by the user's Hugging Face tokenizer or the demo's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model.data.base import Inputs
from model.errors import DataError

# (texts, max_length) → `input_ids` and `attention_mask`, int64 [n, seq], cut to max_length, padded to the longest
Encoder = Callable[[Sequence[str], int], Inputs]


def open_tokenizer(source: str | Path) -> Encoder:
    """The tokenizer of a Hugging Face folder or name; raises DataError if there is none."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{source} holds no tokenizer that can be read.",
            "Give a folder with tokenizer.json (or vocab.txt) and tokenizer_config.json, or a Hugging Face name.",
        ) from error
    if tokenizer.pad_token is None:
        # Decoder-only models come without one; padding is masked, so any token serves.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token

    def encode(texts: Sequence[str], max_length: int) -> Inputs:
        rows = tokenizer(list(texts), truncation=True, max_length=max_length, padding="longest")
        return {name: np.array(rows[name], dtype=np.int64) for name in ("input_ids", "attention_mask")}

    return encode


def open_shipped(folder: Path) -> Encoder:
    """The same for a folder in BERT's layout, without importing transformers, which takes seconds."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(texts: Sequence[str], max_length: int) -> Inputs:
        tokenizer.enable_truncation(max_length)
        tokenizer.enable_padding()
        rows = tokenizer.encode_batch(list(texts))
        return {
            "input_ids": np.array([row.ids for row in rows], dtype=np.int64),
            "attention_mask": np.array([row.attention_mask for row in rows], dtype=np.int64),
        }

    return encode
