"""SentencePiece's BPE in GGUF files: llama.cpp splits texts as transformers does, or the tokenizer is refused."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from espalier.model.errors import ExportError
from espalier.model.opening import open_any
from espalier.passes.export import Exported, export
from espalier.passes.export.llama_cpp import pieces as subject
from tests.passes.export.llama_cpp.test_vocabulary import fields, llama_cpp
from tests.passes.export.llama_cpp.tokenizers_of import BEGIN, ODD, give, pieces, texts
from tests.passes.export.models import made

gguf = pytest.importorskip("gguf")
NAMES = {"unk_token": "<unk>", "bos_token": BEGIN, "eos_token": "</s>"}
SPECIAL = ("</s>", "a</s>", "</s>b", "a</s>b<s>c", "a </s> b", "<s>", "<s>a", " </s>", "<unk>", "a<unk>b")
MORE = ("▁", "▁a", "a▁b", "<0x0A>", "<0xE2>", "a  b   c    d", "\n a", "a \n", "\x00", "a\x00b", "a\u0301",
        "𝔘𝔫𝔦 中文 字", "[PAD700]", "<s", "s>", "<0x", "0x0A>", " ▁a")  # fmt: skip
ALL = (*ODD, *SPECIAL, *MORE, *texts(480)[200:])


def written(tokenizer: Any, tmp_path: Path, **config: Any) -> Exported:
    home = made("llama", tmp_path / "home", **{"vocab_size": 1000, "bos_token_id": 1, "eos_token_id": 2, **config})
    give(tokenizer, home, **NAMES)
    found = open_any(str(home), tmp_path / "work")
    return export(found.project, found.store, "gguf", tmp_path / "m.gguf")


def differing(tmp_path: Path) -> list[str]:
    """Texts whose ids in llama.cpp are not those of transformers."""
    from transformers import AutoTokenizer

    split, tokenizer = llama_cpp(tmp_path / "m.gguf"), AutoTokenizer.from_pretrained(tmp_path / "home")
    return [text for text in ALL if split(text) != tokenizer(text)["input_ids"]]


@pytest.mark.slow
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("kind", ["prepend", "replace", "never", "never words"])
def test_llama_cpp_splits_texts_as_transformers_does(kind: str, complete: bool, tmp_path: Path) -> None:
    assert written(pieces(kind, complete=complete), tmp_path).notes == ()
    assert len(ALL) >= 300 and differing(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "notes"), [
    ("always", (subject.LEADING,)), ("always words", (subject.LEADING,)),
    ("first", (subject.LEADING, subject.WITHIN)),
])  # fmt: skip
def test_spaces_that_llama_cpp_adds_are_noted(kind: str, notes: tuple[str, ...], tmp_path: Path) -> None:
    """Metaspace puts no space before a text with one; `first`: none after a special token. Nothing else differs."""
    assert written(pieces(kind, complete=True), tmp_path).notes == notes
    found = differing(tmp_path)
    assert " a" in ALL and " a" in found and ("</s>b" in found) == (kind == "first")
    for text in found:
        parts = [text]
        for name in NAMES.values():
            parts = [p for part in parts for p in part.split(name)]
        assert any(p.startswith((" ", "▁")) for p in parts) or (kind == "first" and len(parts) > 1), text


@pytest.mark.slow
def test_the_file_says_what_llama_cpp_needs(tmp_path: Path) -> None:
    written(pieces("prepend", begins=False), tmp_path, pad_token_id=0)
    found = fields(tmp_path / "m.gguf")
    tokens, kinds, scores = (found[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type", "scores"))
    assert (found["tokenizer.ggml.model"], found["tokenizer.ggml.pre"]) == ("llama", "default")
    assert found["tokenizer.ggml.add_space_prefix"] and not found["tokenizer.ggml.add_bos_token"]
    assert "tokenizer.ggml.merges" not in found and len(tokens) == len(kinds) == len(scores) == 1000
    by_text = dict(zip(tokens, kinds, strict=True))
    assert (by_text["<s>"], by_text["<0x0A>"], by_text["e"], by_text["[PAD999]"]) == (3, 6, 1, 5)
    merges = json.loads(pieces("prepend").to_str())["model"]["merges"]
    order = sorted((s, t) for s, t in zip(scores, tokens, strict=True) if s < 0)
    assert [t for _, t in order[::-1]] == ["".join(pair) for pair in merges[1:]]


@pytest.mark.slow
def test_no_end_token_is_noted(tmp_path: Path) -> None:
    done = written(pieces("prepend"), tmp_path, eos_token_id=None)
    assert done.notes == ("The model names no end token: llama.cpp takes token 2 (</s>) as one.",)


def changed(tokenizer: Any, **changes: Any) -> Any:
    """The tokenizer with other entries of its model."""
    from tokenizers import Tokenizer

    data = json.loads(tokenizer.to_str())
    data["model"] |= changes
    return Tokenizer.from_str(json.dumps(data))


def other() -> dict[str, tuple[Any, str]]:
    """Tokenizers that llama.cpp does not have, and what is said of them."""
    from tokenizers import normalizers, pre_tokenizers

    model = json.loads(pieces().to_str())["model"]
    normal, split, bare = pieces(), pieces(), pieces()
    normal.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" ", "▁")])
    split.pre_tokenizer = pre_tokenizers.Whitespace()
    bare.normalizer = normalizers.Sequence([])
    few = {text: number for text, number in model["vocab"].items() if text != "<0x0A>"}
    # "▁" and "the" end as two tokens, whose text is a token as well.
    alone = [pair for pair in model["merges"] if pair[0] != "▁"] + [["▁", "q"]]
    tokens = {**model["vocab"], "▁q": len(model["vocab"])}
    words = json.loads(pieces("always words").to_str())["model"]
    inner = {"vocab": {**words["vocab"], "e▁": len(words["vocab"])}, "merges": [*words["merges"], ["e", "▁"]]}
    return {
        "normal": (normal, "changes spaces alone, and the tokenizer has NFKC, Replace"),
        "split": (split, "and the tokenizer has Prepend, Replace, Whitespace"),
        "bare": (bare, "and the tokenizer has no step"),
        "bytes": (changed(pieces(), vocab=few), "lacks 1 of 256 bytes"),
        "alone": (
            changed(pieces(), vocab=tokens, merges=alone),
            "it leaves pairs apart that llama.cpp merges, those of '▁",
        ),
        "inner": (changed(pieces("always words"), **inner), "those of 'e▁'[.]"),
        "merged": (
            changed(pieces(), merges=[*model["merges"], ["<0x0A>", "e"]], vocab=model["vocab"] | {"<0x0A>e": 900}),
            "it merges bytes",
        ),
        "dropout": (changed(pieces(), dropout=0.5), "merges at random"),
        "whole": (changed(pieces(), ignore_merges=True), "words that are tokens are not merged"),
        "unknown": (changed(pieces(), byte_fallback=False), "byte-level BPE and BPE with byte fallback are written"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "split", "bare", "bytes", "alone", "inner", "merged", "dropout", "whole",
                                  "unknown"])  # fmt: skip
def test_other_tokenizers_are_refused_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    tokenizer, message = other()[kind]
    with pytest.raises(ExportError, match=message) as found:
        written(tokenizer, tmp_path)
    assert "--ids-only" in found.value.hint and not (tmp_path / "m.gguf").exists()


@pytest.mark.slow
def test_added_tokens_that_llama_cpp_finds_otherwise_are_noted(tmp_path: Path) -> None:
    from tokenizers import AddedToken

    tokenizer = pieces("prepend")
    tokenizer.add_tokens([AddedToken("<x>", normalized=True), AddedToken("<y>", normalized=False, rstrip=True)])
    assert written(tokenizer, tmp_path).notes == (
        "The tokenizer looks for <x> after spaces are changed, llama.cpp before: texts with it can get other tokens.",
        "The tokenizer finds <y> by the text beside it, llama.cpp does not: texts with it can get other tokens.",
    )


# -- the rule, without llama.cpp


def by_score(text: str, scores: dict[str, float], tokens: set[str]) -> list[str]:
    """What llm_tokenizer_spm of llama.cpp makes of a text: the pair of the best score merges, the leftmost first."""
    parts = list(text)
    while True:
        pairs = [(-scores.get(parts[i] + parts[i + 1], 0.0), i) for i in range(len(parts) - 1)
                 if parts[i] + parts[i + 1] in tokens]  # fmt: skip
        if not pairs:
            return parts
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def test_scores_merge_as_ranks_do_or_are_refused() -> None:
    """Random merges over three letters: tokenizers' own BPE beside merging by score, on all texts of 1 to 6 letters."""
    from tokenizers import Tokenizer, models

    draw, accepted, refused = random.Random(5), 0, 0
    strings = ["".join(s) for n in range(1, 7) for s in itertools.product("abc", repeat=n)]
    for _ in range(60):
        tokens, merges = list("abc"), []
        for _ in range(draw.randint(3, 9)):
            pair = draw.choice(tokens), draw.choice(tokens)
            if pair not in merges:
                merges.append(pair)
                tokens += [t for t in ["".join(pair)] if t not in tokens]
        if draw.random() < 0.5:
            draw.shuffle(merges)
        vocabulary = {text: number for number, text in enumerate([*tokens, *sorted(subject.BYTES)])}
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True))
        found = subject.merges_of({"model": {"vocab": vocabulary, "merges": merges}})
        try:
            scores = subject.merge_scores(found, tokens, words=False)
        except ExportError:
            refused += 1
            assert any(tokenizer.encode(t).tokens != by_score(t, {}, set(tokens)) for t in tokens)
            continue
        accepted += 1
        for text in strings:
            assert tokenizer.encode(text).tokens == by_score(text, scores, set(tokens)), (merges, text)
    assert accepted > 10 and refused > 10


@pytest.mark.slow
def test_a_tokenizer_of_sentencepiece_itself(tmp_path: Path) -> None:
    """tokenizer.model alone: ids are those of SentencePiece, and scores are ordered as its own."""
    import io

    sentencepiece = pytest.importorskip("sentencepiece")
    written_by = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(400)), model_writer=written_by, vocab_size=900, model_type="bpe", minloglevel=2,
        byte_fallback=True, remove_extra_whitespaces=False, normalization_rule_name="identity",
    )  # fmt: skip
    home = made("llama", tmp_path / "home", vocab_size=908, bos_token_id=1, eos_token_id=2)
    (home / "tokenizer.model").write_bytes(written_by.getvalue())
    (home / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer", "add_bos_token": true}')
    found = open_any(str(home), tmp_path / "work")
    assert export(found.project, found.store, "gguf", tmp_path / "m.gguf").notes == (subject.LEADING, subject.WITHIN)
    split = llama_cpp(tmp_path / "m.gguf")
    own = sentencepiece.SentencePieceProcessor(model_proto=written_by.getvalue())
    plain = [text for text in ALL if not any(name in text for name in NAMES.values())]
    assert [text for text in plain if split(text) != [1, *own.encode(text)]] == []
    scores = fields(tmp_path / "m.gguf")["tokenizer.ggml.scores"]
    merged = [i for i in range(own.get_piece_size()) if scores[i] < 0]
    assert merged == sorted(merged, key=lambda i: -own.get_score(i)) == sorted(merged, key=lambda i: -scores[i])
