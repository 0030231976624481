"""Long texts are tokenised in pieces, and get the tokens of the whole text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from espalier.model.data import stream_pieces
from espalier.model.data.stream_pieces import Tokens, in_pieces
from espalier.model.data.tokens import open_stream
from tests.passes.export.llama_cpp.test_vocabulary import SINGLES, TRIPLES
from tests.passes.export.llama_cpp.tokenizers_of import ODD, digits, give, gpt2, pattern, pieces, texts


def spaced() -> Any:
    """As RoBERTa: a space is put before a text without one."""
    from tokenizers import pre_tokenizers

    made = gpt2()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return made


def word_pieces() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    parts = ["[UNK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"), "the", "##er"]
    made = Tokenizer(models.WordPiece({text: at for at, text in enumerate(parts)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    return made


KINDS: dict[str, tuple[Callable[[], Any], bool]] = {  # and whether the text can be divided
    "gpt-2": (gpt2, True), "smollm": (digits, True), "llama 3": (lambda: pattern(TRIPLES, whole=True), True),
    "qwen2": (lambda: pattern(SINGLES, behavior="removed"), True), "roberta": (spaced, True),
    "bert": (word_pieces, True), "mistral words": (lambda: pieces("first words"), True),
    "llama 2": (lambda: pieces("prepend"), False), "mistral": (lambda: pieces("first"), False),
}  # fmt: skip


def long_text() -> str:
    drawn = Random(0)
    odd = [drawn.choice(ODD) + drawn.choice(("  ", "\n", " ", "\n\n ", "\t")) for _ in range(200)]
    return " ".join([*texts(100), *odd, *texts(100)])


def by(tokenizer: Any, lengths: list[int]) -> Callable[[str], Tokens]:
    def encode(text: str) -> Tokens:
        lengths.append(len(text))
        row = tokenizer.encode(text, add_special_tokens=False)
        words = [-1 if word is None else word for word in row.word_ids]
        return Tokens(*(np.array(v, np.int64) for v in (row.ids, [end for _, end in row.offsets], words)))

    return encode


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_have_the_tokens_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pieces, "MARGIN", 300)
    make, divides = KINDS[kind]
    lengths, text = list[int](), long_text()
    encode = by(make(), lengths)
    whole = encode(text)
    for piece in (1000, 1777, 5000):
        lengths.clear()
        ids, ends = in_pieces(encode, text, piece)
        assert np.array_equal(ids, whole.ids) and np.array_equal(ends, whole.ends)
        assert (max(lengths) == piece) == divides and (divides or max(lengths) == len(text))


def test_a_tokenizer_that_looks_far_back_takes_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that are numbered from the start of the text are no words of a piece."""
    monkeypatch.setattr(stream_pieces, "MARGIN", 50)
    lengths = list[int]()

    def numbered(text: str) -> Tokens:
        lengths.append(len(text))
        words = text.split(" ")
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        return Tokens(np.arange(len(words)), ends, np.arange(len(words)))

    text = "word " * 300
    ids, ends = in_pieces(numbered, text, 200)
    assert ids.tolist() == list(range(301)) and int(ends[-1]) == len(text) == max(lengths)


def test_a_word_longer_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pieces, "MARGIN", 50)
    encode = by(gpt2(), list[int]())
    for text in ("a" * 1000, "b c " * 40 + "a" * 1000 + " d e" * 40, " " * 1000, "x " + " " * 900 + "y"):
        whole = encode(text)
        ids, ends = in_pieces(encode, text, 200)
        assert np.array_equal(ids, whole.ids) and np.array_equal(ends, whole.ends)


@pytest.mark.slow
def test_streams_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    give(gpt2(), tmp_path)
    text = " ".join(texts(400) * 30)
    assert len(text) > stream_pieces.PIECE
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    given, called = list[int](), PreTrainedTokenizerFast.__call__

    def counted(self: Any, text: Any, **more: Any) -> Any:
        given.append(len(text))
        return called(self, text, **more)

    monkeypatch.setattr(PreTrainedTokenizerFast, "__call__", counted)
    ids, ends = open_stream(tmp_path)(text)
    assert ids.tolist() == whole["input_ids"] and ends.tolist() == [end for _, end in whole["offset_mapping"]]
    assert max(given) == stream_pieces.PIECE and len(given) > 1
