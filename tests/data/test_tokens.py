"""Tokenizers that cannot be opened: the error says what went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.model import network
from espalier.model.data.tokens import open_tokenizer
from espalier.model.errors import DataError


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
