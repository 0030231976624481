"""Tokenizers that cannot be opened, where the error says what went wrong, and the tokens that end texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from espalier.model import network
from espalier.model.data.tokens import open_codec, open_text_pairs, open_tokenizer
from espalier.model.errors import DataError
from tests.seq2seq_models import write_tokenizer


@pytest.mark.parametrize(("error", "told"), [
    (OSError("We couldn't connect to the hub."), "is not in the cache, and the hub cannot be reached"),
    (ValueError("Couldn't instantiate the backend tokenizer."), "(Couldn't instantiate the backend tokenizer.)"),
])  # fmt: skip
def test_only_what_is_missing_is_missing(monkeypatch: pytest.MonkeyPatch, error: Exception, told: str) -> None:
    from transformers import AutoTokenizer

    def fail(*args: Any, **more: Any) -> Any:
        raise error

    monkeypatch.setattr(network, "reachable", lambda endpoint: False)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(DataError) as caught:
        open_tokenizer("someone/some-tokenizer")
    assert told in caught.value.message


def test_a_separator_ends_no_text_beside_an_end(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path)
    tokenizer.sep_token = "[BEGIN]"
    tokenizer.save_pretrained(tmp_path)
    assert open_codec(tmp_path).ends == {2}
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    assert open_codec(tmp_path).ends == {3}


def test_a_tokenizer_without_padding(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path)
    tokenizer.pad_token = tokenizer.eos_token = tokenizer.unk_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(DataError, match="no token for padding"):
        open_text_pairs(tmp_path)
