"""Tokenisation by the user's Hugging Face tokenizer or the demo's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.borders import read_json, reading, tried
from espalier.model.data.base import Array, Inputs
from espalier.model.data.class_names import local_file
from espalier.model.data.stream_pieces import Tokens, in_pieces
from espalier.model.errors import PASSING, DataError, first_line

# (texts, max_length) → `input_ids` and `attention_mask`, int64 [n, seq], truncated to max_length, padded to the
# longest; and the length of each text before truncation, int64 [n]
Encoder = Callable[[Sequence[str], int], tuple[Inputs, Array]]
NAMES = ("input_ids", "attention_mask")
OVERLAP, LEAST_ROOM = 128, 8  # tokens of windows of a context: shared with the next, and at least
SENTINEL = 1_000_000_000  # transformers writes 1e30 for "no limit"


def open_tokenizer(source: str | Path) -> Encoder:
    """Load the tokenizer of a Hugging Face folder or name; raises DataError if there is none."""
    encode = open_text_pairs(source)
    return lambda texts, max_length: encode(texts, max_length, False)


def open_text_pairs(source: str | Path) -> Callable[[Sequence[str], int, bool], tuple[Inputs, Array]]:
    """As `open_tokenizer`; the last argument says whether the texts are targets, which may have own special tokens."""
    tokenizer = _padding(load_tokenizer(source), source)

    def encode(texts: Sequence[str], max_length: int, targets: bool) -> tuple[Inputs, Array]:
        # The patterns of the tokenizer's file may panic on excessive backtracking.
        with reading(
            f"The tokenizer {Path(source).name}", DataError, "fails on these texts", "Give another tokenizer."
        ):
            return _encoded({"text_target" if targets else "text": list(texts)}, max_length)

    def _encoded(texts: dict[str, list[str]], max_length: int) -> tuple[Inputs, Array]:
        rows = tokenizer(**texts, truncation=True, max_length=max_length, padding="longest")
        inputs = {name: np.array(rows[name], dtype=np.int64) for name in NAMES}
        if rows.encodings:
            return inputs, _lengths(rows.encodings, tokenizer.num_special_tokens_to_add())
        whole = tokenizer(**texts, truncation=False, verbose=False)[NAMES[0]]
        return inputs, np.array([len(row) for row in whole], dtype=np.int64)

    return encode


def open_stream(source: str | Path) -> Callable[[str], tuple[Array, Array]]:
    """The tokenizer for continuous texts, without special tokens; raises DataError if there is none.

    The function returns the token ids, int64 [tokens], and where each token ends in the text, int64 [tokens] in
    characters. Tokenizers that know no places get even ones.
    """
    tokenizer = load_tokenizer(source)

    def placed(text: str) -> Tokens:
        (row,) = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False).encodings
        words = [-1 if word is None else word for word in row.word_ids]
        return Tokens(*(np.array(v, np.int64) for v in (row.ids, [end for _, end in row.offsets], words)))

    def encode(text: str) -> tuple[Array, Array]:
        with reading(f"The tokenizer {Path(source).name}", DataError, "fails on this text", "Give another tokenizer."):
            if tokenizer.is_fast:
                return in_pieces(placed, text)
            rows = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)
            ids = np.array(rows["input_ids"], dtype=np.int64)
            return ids, np.linspace(0, len(text), len(ids) + 1).astype(np.int64)[1:]

    return encode


@dataclass(frozen=True, slots=True)
class Masking:
    """Special tokens of a tokenizer: the mask, those before and after a text, and all tokens that are not special."""

    mask: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    ordinary: Array


def open_masking(source: str | Path) -> Masking:
    """The special tokens for masked language models; raises DataError for a tokenizer without a mask."""
    tokenizer = load_tokenizer(source)
    if tokenizer.mask_token_id is None:
        raise DataError(
            f"The tokenizer {Path(source).name} has no mask token, which masked language models need.",
            "Give the tokenizer of a masked language model, or choose the task next-token.",
        )
    with reading(f"The tokenizer {Path(source).name}", DataError, "fails on its mask", "Give another tokenizer."):
        mask = int(tokenizer.mask_token_id)
        ids = [int(token) for token in tokenizer(tokenizer.mask_token)["input_ids"]]
        at = ids.index(mask)
        special = {int(token) for token in tokenizer.all_special_ids}
        ordinary = np.array([token for token in range(len(tokenizer)) if token not in special], dtype=np.int64)
    return Masking(mask, tuple(ids[:at]), tuple(ids[at + 1 :]), ordinary)


# (texts as lists of words, max_length) → inputs as of `Encoder`; int64 [n, seq], the number of the word whose first
# token stands at each position, −1 at others; and the tokens of each text before truncation, int64 [n]
WordEncoder = Callable[[Sequence[Sequence[str]], int], tuple[Inputs, Array, Array]]


def _placing(source: str | Path, what: str) -> Any:
    """A tokenizer that tells the places of its tokens, with a token of padding; raises DataError for another."""
    tokenizer = load_tokenizer(source)
    if not tokenizer.is_fast:
        raise DataError(f"The tokenizer {Path(source).name} does not tell which {what} of.",
                        "Give a folder with tokenizer.json.")  # fmt: skip
    return _padding(tokenizer, source)


def _padding(tokenizer: Any, source: str | Path) -> Any:
    """The tokenizer with a token of padding; raises DataError if none of its tokens can stand for it."""
    if tokenizer.pad_token is None:
        # Decoder-only models often have none; padding is masked, so any token will do.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise DataError(
            f"The tokenizer {Path(source).name} names no token for padding, text ends or unknown words.",
            "Set pad_token in its tokenizer_config.json.",
        )
    return tokenizer


def open_words(source: str | Path) -> WordEncoder:
    """The tokenizer for texts in words; raises DataError for one that does not tell the words of its tokens."""
    tokenizer = _placing(source, "word a token is")

    def encode(texts: Sequence[Sequence[str]], max_length: int) -> tuple[Inputs, Array, Array]:
        with reading(
            f"The tokenizer {Path(source).name}", DataError, "fails on these words", "Give another tokenizer."
        ):
            listed = [list(words) for words in texts]
            rows = tokenizer(
                listed, is_split_into_words=True, truncation=True, max_length=max_length, padding="longest"
            )
            inputs = {name: np.array(rows[name], dtype=np.int64) for name in NAMES}
            words = np.array([_firsts(row.word_ids) for row in rows.encodings], dtype=np.int64)
            return inputs, words, _lengths(rows.encodings, tokenizer.num_special_tokens_to_add())

    return encode


def _firsts(words: Sequence[int | None]) -> list[int]:
    """The number of each token's word if it is the word's first, otherwise −1."""
    before = [None, *words[:-1]]
    return [-1 if word is None or word == last else word for word, last in zip(words, before, strict=True)]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions with windows of their contexts.

    inputs: `input_ids`, `attention_mask` and `token_type_ids`, int64 [windows, seq]. rows: int64 [windows], the
    question of each. offsets: int64 [windows, seq, 2], the characters of each token in the context; −1 at others.
    firsts: int64 [windows], the position that stands for no answer: of the token of classes, else the first.
    """

    inputs: Inputs
    rows: Array
    offsets: Array
    firsts: Array


def open_pairs(source: str | Path) -> Callable[[Sequence[str], Sequence[str], int], Pairs]:
    """The tokenizer for (questions, contexts, max_length); raises DataError for one without places of its tokens.

    Longer contexts are cut into windows, which overlap by OVERLAP tokens or half of their room.
    """
    tokenizer = _placing(source, "characters a token is")

    def encode(questions: Sequence[str], contexts: Sequence[str], max_length: int) -> Pairs:
        with reading(
            f"The tokenizer {Path(source).name}", DataError, "fails on these texts", "Give another tokenizer."
        ):
            plain = tokenizer(list(questions), add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
        longest_ = max(range(len(plain)), key=lambda at: len(plain[at]))
        room = max_length - len(plain[longest_]) - tokenizer.num_special_tokens_to_add(True)
        if room < LEAST_ROOM:
            raise DataError(
                f"The question of row {longest_ + 1} has {len(plain[longest_])} tokens: windows of {max_length} tokens "
                "have no room for its context.",
                "Shorten the question, or raise max_length if the model takes more.",
            )
        with reading(
            f"The tokenizer {Path(source).name}", DataError, "fails on these texts", "Give another tokenizer."
        ):
            return _pairs(tokenizer, questions, contexts, max_length, min(OVERLAP, room // 2))

    return encode


def _pairs(tokenizer: Any, questions: Sequence[str], contexts: Sequence[str], max_length: int, overlap: int) -> Pairs:
    made = tokenizer(
        list(questions), list(contexts), truncation="only_second", max_length=max_length, stride=overlap,
        return_overflowing_tokens=True, padding="longest",
    )  # fmt: skip
    windows = made.encodings
    inputs = {
        "input_ids": np.array([w.ids for w in windows], dtype=np.int64),
        "attention_mask": np.array([w.attention_mask for w in windows], dtype=np.int64),
        "token_type_ids": np.array([w.type_ids for w in windows], dtype=np.int64),
    }
    offsets = np.array([w.offsets for w in windows], dtype=np.int64)
    offsets[np.array([[part != 1 for part in w.sequence_ids] for w in windows])] = -1
    marks = [t for t in (tokenizer.cls_token_id, tokenizer.bos_token_id) if t is not None]
    found = [next((w.ids.index(t) for t in marks if t in w.ids), 0) for w in windows]
    return Pairs(inputs, np.array(made["overflow_to_sample_mapping"], np.int64), offsets, np.array(found, np.int64))


@dataclass(frozen=True, slots=True)
class Codec:
    """A tokenizer for continuing texts. `ends`: the tokens that end a text.

    encode: a text as tokens, with the special tokens before it and none after it. decode: tokens as a text;
    plain: without special tokens.
    """

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    plain: Callable[[list[int]], str]
    ends: frozenset[int]


def open_codec(source: str | Path) -> Codec:
    """The tokenizer of a Hugging Face folder or name; raises DataError if there is none."""
    tokenizer = load_tokenizer(source)
    special = [int(token) for token in (tokenizer.eos_token_id, tokenizer.sep_token_id) if token is not None]
    ends = frozenset(special[:1])  # beside an end, a separator may stand within a text

    def encode(text: str) -> list[int]:
        with reading(f"The tokenizer {Path(source).name}", DataError, "fails on this text", "Give another tokenizer."):
            ids = [int(token) for token in tokenizer(text, verbose=False)["input_ids"]]
        while len(ids) > 1 and ids[-1] in special:
            ids.pop()
        return ids

    def plain(tokens: list[int]) -> str:
        return str(tokenizer.decode(tokens, skip_special_tokens=True))

    return Codec(encode, lambda tokens: str(tokenizer.decode(tokens)), plain, ends)


def longest(source: str | Path) -> int | None:
    """The tokenizer's `model_max_length`; None if it sets none."""
    file = local_file(str(source), "tokenizer_config.json")
    if file is None and not Path(source).is_dir():
        limit: Any = load_tokenizer(source).model_max_length  # a hub name that is not cached yet
    else:
        limit = _entry(file, "model_max_length") if file else None
    valid = isinstance(limit, int | float) and 2 <= limit < SENTINEL
    return int(limit) if valid else None


def _entry(file: Path, name: str) -> Any:
    content: Any = tried(lambda: read_json(file), None)
    return content.get(name) if isinstance(content, dict) else None


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer of transformers in a folder, or of a name of the hub; raises DataError."""
    from transformers import AutoTokenizer

    from espalier.model.network import offline_if_unreachable

    online = True
    try:
        if Path(source).exists():
            return AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
        with offline_if_unreachable() as online:
            return AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
    # The tokenizers library is written in Rust; its panics are not subclasses of Exception.
    except BaseException as error:
        if isinstance(error, PASSING):
            raise
        hint = "Give a folder with tokenizer.json (or vocab.txt) and tokenizer_config.json, or a Hugging Face name."
        if not online and isinstance(error, OSError):  # otherwise it exists and cannot be read
            raise DataError(
                f"The tokenizer {source} is not in the cache, and the hub cannot be reached.",
                "Give a folder with tokenizer.json and tokenizer_config.json, or use demo:reviews.",
            ) from error
        raise DataError(f"{source} has no readable tokenizer ({first_line(error)}).", hint) from error


def open_shipped(folder: Path) -> Encoder:
    """`open_tokenizer` for a folder in BERT's layout, without importing transformers, which takes seconds."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(texts: Sequence[str], max_length: int) -> tuple[Inputs, Array]:
        tokenizer.enable_truncation(max_length)
        tokenizer.enable_padding()
        rows = tokenizer.encode_batch(list(texts))
        inputs = {
            "input_ids": np.array([row.ids for row in rows], dtype=np.int64),
            "attention_mask": np.array([row.attention_mask for row in rows], dtype=np.int64),
        }
        return inputs, _lengths(rows, tokenizer.num_special_tokens_to_add(False))

    return encode


def _lengths(rows: Iterable[Any], special: int) -> Array:
    """Tokens of each text before truncation, from the encodings' overflow; special tokens count once."""
    counts = (special + sum(sum(part.attention_mask) - special for part in (row, *row.overflowing)) for row in rows)
    return np.fromiter(counts, dtype=np.int64)
