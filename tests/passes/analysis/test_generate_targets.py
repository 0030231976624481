"""Targets that encoder–decoder models write, compared with transformers' own generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.model.data.text_pairs import decoder_start
from espalier.model.errors import DataError
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.running.target_decoding import TargetDecoder
from tests.seq2seq_models import pairs, write_seq2seq, write_tokenizer

KINDS = ("t5", "bart", "mbart")
SOURCE = "one two good four"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each kind, trained a little."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        (folder / kind).mkdir()
        write_seq2seq(folder / kind, 100, 25, kind=kind)
    return folder


def of_transformers(folder: Path, texts: list[str], count: int, model: Any = None) -> tuple[Any, Any]:
    """(tokenizer, tokens after the start) of the most probable tokens."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = model or AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = tokenizer(texts, padding=True, return_tensors="pt")
    ids.pop("token_type_ids", None)
    found = model.generate(**ids, max_new_tokens=count, do_sample=False, num_beams=1)
    return tokenizer, found[:, 1:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_most_probable_tokens_are_those_of_transformers(places: Path, kind: str) -> None:
    tokenizer, wanted = of_transformers(places / kind, [SOURCE], 8)
    found = es.open(str(places / kind)).run("generate", prompt=SOURCE, new_tokens=8)
    assert [row["token"] for row in found.rows] == [tokenizer.decode([t]) for t in wanted[0].tolist()]
    assert found.summary["text"].strip() == tokenizer.decode(wanted[0]) and found.summary["kl"] == 0


@pytest.mark.slow
def test_the_divergence_is_of_the_same_target(places: Path) -> None:
    m = es.open(str(places / "bart"))
    base = m.to_torch().eval()
    m.quantize("linear", weight="integer(width=2)")
    now = m.to_torch().eval()
    found = m.run("generate", prompt=SOURCE, new_tokens=4)
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(places / "bart")
    source, target = tokenizer(SOURCE, return_tensors="pt")["input_ids"], torch.tensor([[2, 0]])
    for at, row in enumerate(found.rows):
        given = {"input_ids": source, "attention_mask": torch.ones_like(source), "decoder_input_ids": target}
        with torch.no_grad():
            p, q = (net(**given)["logits"][0, at].double().log_softmax(-1) for net in (base, now))
        assert row["kl"] == pytest.approx(float((p.exp() * (p - q)).sum()), rel=1e-4, abs=1e-9)
        # BART's settings force the token that ends a text at the limit of new ones.
        token = int(q.argmax()) if at < 3 else 2
        assert row["token"] == tokenizer.decode([token]) and row["probability"] == pytest.approx(float(q.exp()[token]))
        target = torch.tensor([[*target[0, : at + 1].tolist(), token, 0][: at + 2]])
    assert max(row["kl"] for row in found.rows) > 0


@pytest.mark.slow
def test_what_has_no_target(places: Path, tmp_path: Path) -> None:
    m = es.open(str(places / "bart"))
    with pytest.raises(DataError, match="the model takes 32"):
        m.run("generate", prompt=" ".join(row["source"] for row in pairs(20)))
    assert m.run("generate", prompt=SOURCE, new_tokens=100).summary["tokens"] <= 32
    opened = open_any(str(places / "bart"), tmp_path, origin=Origin.TYPED)
    with pytest.raises(DataError, match="not the tokens of a text"):  # as Whisper
        TargetDecoder(opened.project.graph, Context(opened.store, callables=opened.callables), {})


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "prompt"), [("t5", ""), ("mbart", "one")])
def test_sources_of_a_token_or_two(places: Path, kind: str, prompt: str) -> None:
    tokenizer, wanted = of_transformers(places / kind, [prompt], 8)
    found = es.open(str(places / kind)).run("generate", prompt=prompt, new_tokens=8)
    assert [row["token"] for row in found.rows] == [tokenizer.decode([t]) for t in wanted[0].tolist()]


@pytest.mark.slow
def test_the_start_of_the_configuration_goes_before_that_of_the_tokenizer(places: Path, tmp_path: Path) -> None:
    """As of published mBART models, whose tokenizers know the language of targets only if they are told."""
    from transformers import AutoModelForSeq2SeqLM

    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(places / "mbart"), write_tokenizer(tmp_path, "mbart")
    other, same = tokenizer.convert_tokens_to_ids("drei"), es.open(str(places / "mbart")).run("generate", prompt=SOURCE)
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = other
    model.save_pretrained(tmp_path)
    _, wanted = of_transformers(tmp_path, [SOURCE], 8)
    m = es.open(str(tmp_path))
    found = m.run("generate", prompt=SOURCE, new_tokens=8)
    assert [row["token"] for row in found.rows] == [tokenizer.decode([t]) for t in wanted[0].tolist()]
    assert found.rows[0]["probability"] != same.rows[0]["probability"]
    m.save(tmp_path / "p.espalier")
    assert es.open(str(tmp_path / "p.espalier")).run("generate", prompt=SOURCE, new_tokens=8).rows == found.rows


def test_a_tokenizer_that_ends_targets_with_no_token(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path)
    assert decoder_start(str(tmp_path)) == 2
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(DataError, match="ends them with none"):
        decoder_start(str(tmp_path))
