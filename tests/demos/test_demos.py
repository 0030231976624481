"""The shipped models: their files are small and safe, and they score what their cards say."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from espalier.model.data.demo import TEXTS
from espalier.model.data.loading import load_data
from espalier.model.errors import SourceError
from espalier.model.sources.demos import DEMOS, RESOURCES, load_demo
from tests.demos.reviews import NOISE, make_reviews
from tests.demos.train import measure
from tests.demos.vocabulary import texts


def _card(name: str) -> dict[str, Any]:
    return json.loads((RESOURCES / name / "card.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", DEMOS)
def test_the_shipped_weights_score_what_the_card_says(name: str) -> None:
    module, _ = load_demo(name)
    data, card = load_data(DEMOS[name].data), _card(name)
    assert card["parameters"] == sum(p.numel() for p in module.parameters())
    assert card["sizes"] == {split: len(part) for split, part in data.splits.items()}
    for split in ("validation", "test"):
        accuracy, loss = measure(module, data.split(split))
        assert accuracy == pytest.approx(card["accuracy"][split], abs=1e-6)
        assert loss == pytest.approx(card["loss"][split], abs=1e-4)


@pytest.mark.parametrize("name", DEMOS)
def test_example_inputs_fit(name: str) -> None:
    module, inputs = load_demo(name)
    out = module(**inputs)
    shape = {"reviews": (2, 2), "stories": (2, 128, 706)}.get(name, (2, 10))
    assert not module.training and getattr(out, "logits", out).shape == shape


def test_the_transformer_is_good_but_below_the_ceiling() -> None:
    assert 0.88 <= _card("reviews")["accuracy"]["test"] <= 1 - NOISE
    assert _card("digits")["accuracy"]["test"] > 0.97 and _card("digits-mlp")["accuracy"]["test"] > 0.95


@pytest.mark.slow
def test_counting_words_does_clearly_worse() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    made, words = make_reviews(), CountVectorizer(token_pattern=r"\S+")
    texts = {name: [row.text for row in rows] for name, rows in made.items()}
    labels = {name: [row.label for row in rows] for name, rows in made.items()}
    model = LogisticRegression(C=0.3, max_iter=2000).fit(words.fit_transform(texts["train"]), labels["train"])
    counted = model.score(words.transform(texts["test"]), labels["test"])
    assert 0.6 < counted < _card("reviews")["accuracy"]["test"] - 0.05


def test_an_unknown_demo_names_those_there_are() -> None:
    with pytest.raises(SourceError) as error:
        load_demo("nothing")
    assert "reviews" in error.value.hint


def test_missing_weights_say_how_to_make_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("espalier.model.sources.demos.RESOURCES", tmp_path)
    with pytest.raises(SourceError) as error:
        load_demo("digits")
    assert "make demo-weights" in error.value.hint


def test_the_files_are_small_and_hold_no_code() -> None:
    files = [path for path in RESOURCES.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 5_000_000
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".gz"}


def test_the_shipped_texts_are_those_of_the_grammar() -> None:
    assert gzip.decompress(TEXTS.read_bytes()) == texts()


def test_the_reviews_folder_is_a_hugging_face_folder() -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = str(RESOURCES / "reviews")
    assert (
        len(AutoTokenizer.from_pretrained(folder))
        == AutoModelForSequenceClassification.from_pretrained(folder).config.vocab_size
    )


def test_the_two_ways_to_tokenise_agree() -> None:
    ours = load_data("demo:reviews", limit=50, splits=("test",)).split("test").inputs
    theirs = load_data("demo:reviews", limit=50, splits=("test",), tokenizer=RESOURCES / "reviews").split("test").inputs
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_importing_the_table_is_light() -> None:
    code = """
import sys
import espalier.model.sources.demos
from espalier.model.data import base, demo, hub, local
assert not {"torch", "transformers", "datasets", "sklearn", "tokenizers", "pandas"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], cwd=RESOURCES.parents[1], check=True)
