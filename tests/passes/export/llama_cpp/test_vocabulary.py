"""The vocabulary of a GGUF file: llama.cpp splits texts as transformers does, and other tokenizers are refused."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.model.errors import ExportError
from espalier.model.opening import open_any
from espalier.passes.export import Exported, export
from espalier.passes.export.llama_cpp import vocabulary
from espalier.passes.export.llama_cpp.server import binding
from tests.passes.export.llama_cpp.tokenizers_of import BEGIN, END, ODD, digits, give, gpt2, pattern, texts
from tests.passes.export.models import made

gguf = pytest.importorskip("gguf")
TRIPLES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # noqa: E501  Llama 3
SINGLES = TRIPLES.replace("{1,3}", "")  # Qwen2
KINDS: dict[str, Callable[[], Any]] = {
    "gpt-2": gpt2,
    "smollm": digits,
    "llama-bpe": lambda: pattern(TRIPLES, begins=True, whole=True),
    "dbrx": lambda: pattern(TRIPLES, begins=True),
    "qwen2": lambda: pattern(SINGLES, behavior="removed"),
}


def written(tokenizer: Any, tmp_path: Path, config: dict[str, Any] | None = None, **more: Any) -> Exported:
    """A random Llama with a tokenizer, exported to m.gguf."""
    home = made(
        "llama", tmp_path / "home", vocab_size=520, **{"eos_token_id": 0, "bos_token_id": None, **(config or {})}
    )
    give(tokenizer, home, **more)
    found = open_any(str(home), tmp_path / "work")
    return export(found.project, found.store, "gguf", tmp_path / "m.gguf")


def fields(path: Path) -> dict[str, Any]:
    """What a file says, by the package gguf."""
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def llama_cpp(path: Path) -> Callable[[str], list[int]]:
    """How llama.cpp splits texts with a file's vocabulary."""
    if binding() == "llama_cpp":
        import llama_cpp  # type: ignore[import-not-found]

        model: Any = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        return lambda text: list(model.tokenize(text.encode(), add_bos=True, special=True))
    if binding() != "xllamacpp":
        pytest.skip("neither llama-cpp-python nor xllamacpp is installed")
    import xllamacpp  # type: ignore[import-not-found]

    settings: Any = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.warmup, settings.verbosity = str(path), 64, False, -1
    server: Any = xllamacpp.Server(settings)

    def split(text: str) -> list[int]:
        body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
        asked = urllib.request.Request(f"{server.listening_address}/tokenize", body,
                                       {"Content-Type": "application/json"})  # fmt: skip
        with urllib.request.urlopen(asked) as answer:
            return list(json.load(answer)["tokens"])

    return split


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_llama_cpp_splits_texts_as_transformers_does(kind: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    assert written(KINDS[kind](), tmp_path).notes == ()
    assert fields(tmp_path / "m.gguf")["tokenizer.ggml.pre"] == kind
    split, tokenizer = llama_cpp(tmp_path / "m.gguf"), AutoTokenizer.from_pretrained(tmp_path / "home")
    for text in (*ODD, *texts(260)[200:]):
        assert split(text) == tokenizer(text)["input_ids"], text


@pytest.mark.slow
def test_texts_in_another_form_of_unicode_are_noted(tmp_path: Path) -> None:
    from tokenizers import normalizers
    from transformers import AutoTokenizer

    done = written(pattern(SINGLES, normalizer=normalizers.NFC()), tmp_path)
    assert done.notes == (vocabulary.NFC,)
    split, tokenizer = llama_cpp(tmp_path / "m.gguf"), AutoTokenizer.from_pretrained(tmp_path / "home")
    assert all(split(text) == tokenizer(text)["input_ids"] for text in ODD)
    assert split("e\u0301") != tokenizer("e\u0301")["input_ids"]


@pytest.mark.slow
def test_tokens_around_a_text_are_those_of_the_tokenizer(tmp_path: Path) -> None:
    """The configuration names another token before a text, and none after it."""
    done = written(
        gpt2(begins=True), tmp_path, {"bos_token_id": 7, "eos_token_id": None}, chat_template="{{ messages }}"
    )
    found = fields(tmp_path / "m.gguf")
    known = found["tokenizer.ggml.tokens"]
    assert found["tokenizer.ggml.bos_token_id"] == known.index(BEGIN) != 7
    assert found["tokenizer.ggml.add_bos_token"] and not found["tokenizer.ggml.add_eos_token"]
    assert "tokenizer.ggml.eos_token_id" not in found
    assert done.notes == (f"The model names no end token: llama.cpp takes token 11 ({known[11]}) as one.",)
    assert found["tokenizer.chat_template"] == "{{ messages }}"


@pytest.mark.slow
def test_no_two_tokens_have_one_text(tmp_path: Path) -> None:
    """llama.cpp ends its process for a vocabulary with equal texts."""
    tokenizer = gpt2()
    tokenizer.add_tokens(["[PAD510]", "[PAD511]"])
    written(tokenizer, tmp_path)
    found = fields(tmp_path / "m.gguf")
    tokens = found["tokenizer.ggml.tokens"]
    assert len(set(tokens)) == len(tokens) == 520 and tokens[510] == "[[PAD510]]"
    assert found["tokenizer.ggml.token_type"][tokens.index("[PAD510]")] == 4
    assert llama_cpp(tmp_path / "m.gguf")("a[PAD511]") == [tokens.index("a"), tokens.index("[PAD511]")]


@pytest.mark.slow
def test_a_vocabulary_that_lacks_bytes_is_noted(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    data = json.loads(gpt2().to_str())
    data["model"]["vocab"].pop("!")
    data["model"]["merges"] = [m for m in data["model"]["merges"] if "!" not in "".join(m)]
    done = written(Tokenizer.from_str(json.dumps(data)), tmp_path)
    assert done.notes == ("The vocabulary lacks 1 of 256 bytes: texts with them can get other tokens.",)


def other() -> dict[str, tuple[Any, str]]:
    """Tokenizers that llama.cpp does not have as they are, and what is said of them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    spaced, several = gpt2(), gpt2()
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    several.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} {END} $A", special_tokens=[(BEGIN, 1), (END, 0)]
    )
    words = Tokenizer(models.WordPiece({"[UNK]": 0, END: 1, "a": 2}, unk_token="[UNK]"))
    pieces = Tokenizer(models.Unigram([("a", -1.0), (END, -2.0)], unk_id=0, byte_fallback=False))
    return {
        "words": (words, "byte-level BPE and BPE with byte fallback are written, and it is another WordPiece"),
        "pieces": (pieces, "byte-level BPE and BPE with byte fallback are written, and it is another Unigram"),
        "lower": (gpt2(normalizer=normalizers.Lowercase()), r"it changes texts \(Lowercase\)"),
        "space": (spaced, "it puts a space before a text"),
        "whole": (gpt2(whole=True), "texts are split by none of the patterns gpt-2, smollm"),
        "pattern": (pattern(r"\w+|\W+"), "texts are split by none of the patterns"),
        "several": (several, "it puts several tokens before or after a text"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "pieces", "lower", "space", "whole", "pattern", "several"])
def test_other_tokenizers_are_refused_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    tokenizer, message = other()[kind]
    with pytest.raises(ExportError, match=message) as found:
        written(tokenizer, tmp_path)
    assert "--ids-only" in found.value.hint and not (tmp_path / "m.gguf").exists()


@pytest.mark.slow
def test_a_file_of_token_ids_has_no_vocabulary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = made("llama", tmp_path / "home", vocab_size=520)
    tokenizer, _ = other()["words"]
    give(tokenizer, home)
    path = tmp_path / "m.gguf"
    assert main(["export", str(home), "--as", "gguf", "-o", str(path)]) == 2
    assert "--ids-only" in capsys.readouterr().err
    assert main(["export", str(home), "--as", "gguf", "--ids-only", "-o", str(path)]) == 0
    assert "no vocabulary, as asked" in capsys.readouterr().out
    assert fields(path)["tokenizer.ggml.model"] == "none"
    assert main(["export", str(home), "--as", "packed", "--ids-only", "-o", str(path)]) == 2
    assert "no option --ids-only" in capsys.readouterr().err


@pytest.mark.slow
def test_a_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    home = made("llama", tmp_path / "home", vocab_size=520)
    give(gpt2(), home)
    found = open_any(str(home), tmp_path / "work")
    (home / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(ExportError, match="no readable tokenizer"):
        export(found.project, found.store, "gguf", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()
