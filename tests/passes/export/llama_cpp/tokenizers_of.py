"""Small byte-level tokenizers of the kinds that language models have, trained on the texts of a demo."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from espalier.model.data.demo import TEXTS

END, BEGIN = "<|endoftext|>", "<s>"
ODD = (
    "", " ", "  ", "a", " a", "a ", "Hello world", "HELLO'S 'LL we'Re I'M don't", "12345 1 12 1234567", "3.14 ab12cd",
    "\n", "\n\n\n", "a\n\n b\r\n c", "\t\ttab\t x", "   lead", "trail   ", "é è ü ñ", "日本語のテキスト",
    "русский עברית हिन्दी 한국어", "😀 emoji 👩‍👩‍👧‍👦", "zero\u200b nbsp\u00a0ideo\u3000", "snake_case camelCase",
    "http://x.y/z?q=1&b=2", "!!!???...", f"{BEGIN} special {END} end", "½ ² Ⅷ ٣٤", "a" * 300, "the the  the   the",
    "\ufeffbom", "“quotes” — …", "1,234,567.89$ €5", "if (x==1) { return -1; }\n\t// c", "'s's'S don’t", "\r\n\r\n",
    "ſ's 'ſ K'LL", "Ǆ ǅ ʰ",
)  # fmt: skip


def texts(count: int) -> list[str]:
    """Texts of the demo."""
    with gzip.open(TEXTS, "rt", encoding="utf-8") as file:
        return [next(file).rstrip("\n").split("\t")[-1] for _ in range(count)]


def byte_level(before: Any, *, normalizer: Any = None, begins: bool = False, whole: bool = False) -> Any:
    """A tokenizer of 500 tokens with a pre-tokenizer; `begins`: with a token before each text; `whole`: words that are
    tokens are not merged.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(ignore_merges=whole))
    made.pre_tokenizer, made.decoder = before, decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=[END, BEGIN], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    made.train_from_iterator(texts(200), trainer)
    if begins:
        made.post_processor = processors.TemplateProcessing(
            single=f"{BEGIN} $A", special_tokens=[(BEGIN, made.token_to_id(BEGIN))]
        )
    return made


def gpt2(**more: Any) -> Any:
    """Split as GPT-2 does."""
    from tokenizers import pre_tokenizers

    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), **more)


def digits(**more: Any) -> Any:
    """Split as SmolLM does."""
    from tokenizers import pre_tokenizers

    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return byte_level(pre_tokenizers.Sequence(steps), **more)


def pattern(regex: str, *, behavior: str = "isolated", **more: Any) -> Any:
    """Split by a regular expression; `behavior` removed: what it does not match."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(regex), behavior, invert=behavior == "removed")
    steps = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return byte_level(pre_tokenizers.Sequence(steps), **more)


PIECES = ("<unk>", BEGIN, "</s>")


def pieces(kind: str = "prepend", *, complete: bool = False, begins: bool = True, more: tuple[str, ...] = ()) -> Any:
    """A tokenizer of SentencePiece's kind, BPE that writes unknown characters as bytes.

    `kind`: "prepend" and "replace" change spaces as a normalizer, the others name the scheme of Metaspace, with
    "words" where words are merged alone. `complete`: every pair whose text is a token merges, as in Llama 2, and not
    only the pairs of training. `more`: tokens of which nothing is merged.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers.tokenization_utils_base import generate_merges

    scheme = kind.removesuffix(" words")
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=kind.endswith("words"))
    trained.train_from_iterator(texts(200), trainers.BpeTrainer(vocab_size=600, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    names = [*PIECES, *(f"<0x{byte:02X}>" for byte in range(256)), *("".join(pair) for pair in merges), *more]
    names += [text for text in model["vocab"] if len(text) == 1]
    vocabulary = {text: number for number, text in enumerate(dict.fromkeys(names))}
    if complete:
        merges = generate_merges(vocabulary)
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    if scheme in ("prepend", "replace"):
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if scheme == "prepend" else replace
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=kind.endswith("words"))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens([AddedToken(text, normalized=False) for text in PIECES])
    if begins:
        made.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, 1)])
    return made


def give(tokenizer: Any, home: Path, **more: Any) -> None:
    """Save a tokenizer beside a model, in transformers' files."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{"eos_token": END, **more}).save_pretrained(home)
