"""Texts start and end as the model's generation settings say, as transformers' own generation does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import espalier as es
from espalier.app.cli import main
from espalier.model.sources.generation import Generation, generation_of
from tests.passes.analysis.test_generate_targets import KINDS, SOURCE, of_transformers
from tests.seq2seq_models import write_seq2seq, write_tokenizer

NOTE = (
    "Not applied of generation_config.json: num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3; "
    "greedy decoding was used."
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        (folder / kind).mkdir()
        write_seq2seq(folder / kind, 100, 25, kind=kind)
    return folder


def changed(source: Path, folder: Path, kind: str, **changes: Any) -> Any:
    """The model with other generation settings in a folder of its own; returns its tokenizer."""
    from transformers import AutoModelForSeq2SeqLM

    AutoModelForSeq2SeqLM.from_pretrained(source).save_pretrained(folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(settings | changes))
    return write_tokenizer(folder, kind)


def tokens(folder: Path, texts: list[str], count: int = 8) -> list[list[str]]:
    """Tokens of transformers' greedy generation, up to the first that ends a text."""
    from transformers import GenerationConfig

    tokenizer, wanted = of_transformers(folder, texts, count)
    ends: Any = GenerationConfig.from_pretrained(folder).eos_token_id
    rows = [row[: next((i + 1 for i, t in enumerate(row) if t in ends), len(row))] for row in wanted.tolist()]
    return [[tokenizer.decode([t]) for t in row] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_starts_ends_and_forced_tokens_are_those_of_transformers(places: Path, kind: str, tmp_path: Path) -> None:
    tokenizer = changed(places / kind, tmp_path, kind)
    start, forced, end = (tokenizer.convert_tokens_to_ids(word) for word in ("drei", "funf", "zwei"))
    plain = [row["token"] for row in es.open(str(places / kind)).run("generate", prompt=SOURCE, new_tokens=8).rows]
    texts = set[tuple[str, ...]]()
    all_of = {"decoder_start_token_id": start, "forced_bos_token_id": forced, "eos_token_id": [end]}
    for changes in (all_of, {"forced_bos_token_id": forced, "eos_token_id": [2, end]}):
        changed(places / kind, tmp_path, kind, **changes)
        m = es.open(str(tmp_path))
        found = m.run("generate", prompt=SOURCE, new_tokens=8)
        assert [row["token"] for row in found.rows] == tokens(tmp_path, [SOURCE])[0], changes
        assert "note" not in found.summary and found.summary["kl"] == 0
        texts.add(tuple(row["token"] for row in found.rows))
    m.save(tmp_path / "p.espalier")
    assert es.open(str(tmp_path / "p.espalier")).run("generate", prompt=SOURCE, new_tokens=8).rows == found.rows
    assert tuple(plain) not in texts and {text[0] for text in texts} == {"funf"}, "the settings change something"


@pytest.mark.slow
def test_texts_of_data_start_and_end_so_too(places: Path, tmp_path: Path) -> None:
    tokenizer = changed(places / "bart", tmp_path, "bart")
    forced, end = (tokenizer.convert_tokens_to_ids(word) for word in ("drei", "ein"))
    changed(places / "bart", tmp_path, "bart", forced_bos_token_id=forced, eos_token_id=[2, end])
    found = es.open(str(tmp_path)).run("generated_texts", data=str(places / "bart/data"), split="test", limit=12)
    sources = [row["source"].removeprefix("[BEGIN] ") for row in found.rows]
    wanted = [" ".join(t for t in row if not t.startswith("[")) for row in tokens(tmp_path, sources)]
    assert [row["text"].replace("[BEGIN] ", "") for row in found.rows] == wanted
    assert all(text.startswith("drei") for text in wanted) and any(text.endswith("ein") for text in wanted)


@pytest.mark.slow
def test_settings_that_are_not_applied_are_noted(
    places: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(places / "t5", tmp_path, "t5", num_beams=4, no_repeat_ngram_size=3, length_penalty=2.0)
    m, data = es.open(str(tmp_path)), str(places / "t5/data")
    assert m.run("generate", prompt=SOURCE).summary["note"] == NOTE
    drawn = m.run("generate", prompt=SOURCE, temperature=1.0).summary["note"]
    assert drawn == NOTE.replace("greedy decoding was used", "each token was drawn by itself")
    assert m.run("generation_scores", data=data, limit=3).summary["note"] == NOTE
    assert main(["generate", str(tmp_path), SOURCE]) == 0
    assert NOTE in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--what", "generated_texts", "--data", data, "--limit", "2"]) == 0
    assert NOTE in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"do_sample": True, "temperature": 2.0, "top_k": 7}, "do_sample=True, temperature=2.0, top_k=7"),
        ({"do_sample": True, "top_p": 0.5, "min_p": 0.1}, "do_sample=True, top_p=0.5, min_p=0.1"),
        ({"stop_strings": ["gets"]}, "stop_strings"),
        ({"guidance_scale": 2.0}, "guidance_scale=2.0"),
        ({"min_new_tokens": 12, "suppress_tokens": [2]}, "min_new_tokens=12, suppress_tokens"),
        ({"temperature": 1.0, "top_k": 50, "top_p": 1.0, "do_sample": False, "num_beams": 1}, ""),
        ({"max_length": 7, "eos_token_id": [2, 3], "pad_token_id": 0, "use_cache": False}, ""),
        ({"a_setting_of_tomorrow": 3}, "a_setting_of_tomorrow=3"),
    ],
)
def test_every_setting_with_another_value_than_the_default_is_named(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    from types import SimpleNamespace

    from transformers import GenerationConfig, LlamaConfig

    (tmp_path / "generation_config.json").write_text(json.dumps(changes))
    own = GenerationConfig.from_pretrained(tmp_path)
    assert ", ".join(generation_of(SimpleNamespace(config=LlamaConfig(), generation_config=own)).others) == named


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_last_token_at_the_limit_is_the_forced_one(places: Path, tmp_path: Path, count: int) -> None:
    """BART: also where the limit leaves one token, which two settings force, and where several may end a text."""
    tokenizer = changed(places / "bart", tmp_path, "bart")
    forced, last, other = (tokenizer.convert_tokens_to_ids(word) for word in ("drei", "ein", "zwei"))
    ends: dict[str, Any] = {"forced_bos_token_id": forced, "forced_eos_token_id": [other, last]}
    changed(places / "bart", tmp_path, "bart", **ends, eos_token_id=[2])
    wanted, m = tokens(tmp_path, [SOURCE], count)[0], es.open(str(tmp_path))
    found = m.run("generate", prompt=SOURCE, new_tokens=count)
    assert [row["token"] for row in found.rows] == wanted and wanted[-1] == tokenizer.decode([min(last, other)])
    data = str(places / "bart/data")
    texts = m.run("generated_texts", data=data, split="test", limit=6, new_tokens=count)
    assert 0 < texts.summary["cut"] == sum(row["text"].endswith(wanted[-1]) for row in texts.rows)


@pytest.mark.slow
def test_continuations_end_at_any_token_of_the_settings(tmp_path: Path) -> None:
    """A decoder alone, as transformers continues it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    tokenizer = write_tokenizer(tmp_path)
    model: Any = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        eos_token_id=2, pad_token_id=0)).eval()  # fmt: skip
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) / 3)
    model.save_pretrained(tmp_path)
    ids = tokenizer("one two three", return_tensors="pt")["input_ids"][:, :-1]
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 12, "do_sample": False}
    free = model.generate(ids, **given, eos_token_id=None)[0, ids.shape[1] :].tolist()
    end = free[5]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, end], "pad_token_id": 0}))
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    wanted = again.generate(ids, **given)[0, ids.shape[1] :].tolist()
    assert wanted[-1] == end and len(wanted) <= 6
    found = es.open(str(tmp_path)).run("generate", prompt="one two three", new_tokens=12)
    decode: Any = AutoTokenizer.from_pretrained(tmp_path).decode
    assert [row["token"] for row in found.rows] == [decode([t]) for t in wanted]


class Plain:
    """Attributes by name."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def test_settings_of_generation_go_before_those_of_the_configuration() -> None:
    from transformers import GenerationConfig

    config = Plain(vocab_size=10, eos_token_id=[3, 99])
    assert generation_of(Plain(config=config)) == Generation(ends=(3,))
    assert generation_of(Plain()) == Generation()
    own = GenerationConfig(
        eos_token_id=4, decoder_start_token_id=12, forced_bos_token_id=5, forced_eos_token_id=[6, 3], num_beams=1,
        min_length=7, suppress_tokens=[1, 2], repetition_penalty=1.0,
    )  # fmt: skip
    assert generation_of(Plain(config=config, generation_config=own)) == Generation(
        None, 5, 3, (4,), ("min_length=7", "suppress_tokens")
    )
    assert generation_of(Plain(config=config, generation_config=GenerationConfig())).ends == (3,)
