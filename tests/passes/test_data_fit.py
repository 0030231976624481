"""Where data meet a model: lengths that both sides take, what is cut and said, and data that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from espalier.model.data.base import Split
from espalier.model.errors import DataError
from espalier.model.opening import Opened, open_source
from espalier.model.sources.demos import RESOURCES
from espalier.model.sources.reading import Limits, Reading
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.base import Context
from espalier.passes.running.data_fit import text_facts, text_limit, truncation_note
from espalier.passes.running.splits import EvaluateOptions, load_split

WORDS = str(RESOURCES / "reviews")
SMALL = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1"
TASK = "num_labels=3&task=sequence-classification"


def said(folder: Path, length: object) -> str:
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    return str(folder)


def test_the_strictest_of_model_and_tokenizer_limits_texts(tmp_path: Path) -> None:
    words, endless = said(tmp_path / "a", 100), said(tmp_path / "b", int(1e30))
    positions, rotary = Reading(limits=Limits(tokens=64)), Reading(limits=Limits(context=4096))
    assert text_limit(0, positions, words).tokens == 64 and "64 positions" in text_limit(0, positions, words).source
    assert text_limit(0, rotary, words).tokens == 100 and "model_max_length" in text_limit(0, rotary, words).source
    assert text_limit(0, rotary, endless).tokens == 4096
    assert text_limit(0, Reading(), endless).tokens == 512 and "default" in text_limit(0, Reading(), endless).source
    assert text_limit(0, Reading(limits=Limits(length=12)), words).tokens == 12


def test_a_wish_goes_beyond_the_tokenizer_but_not_beyond_the_positions(tmp_path: Path) -> None:
    words, positions = said(tmp_path / "a", 100), Reading(limits=Limits(tokens=200))
    assert text_limit(150, positions, words).tokens == 150
    assert text_limit(300, positions, words).tokens == 200
    assert text_limit(20, positions, words).source == "max_length"


def test_what_is_cut_is_counted() -> None:
    split = Split({}, np.zeros(4, np.int64), np.array([10, 20, 30, 40]))
    facts = text_facts(split, text_limit(25, Reading(), None))
    assert facts == {"max_length": 25, "length_from": "max_length", "longest": 40, "texts_cut": 0.5, "tokens_lost": 0.2}
    assert truncation_note(facts) == "up to 25 tokens (max_length): 50.0% are truncated, 20.0% of all tokens lost"
    assert truncation_note({"accuracy": 1.0}) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("positions", "cut"), [(8, True), (32, True), (512, False)])
def test_models_of_any_number_of_positions_are_measured(positions: int, cut: bool, tmp_path: Path) -> None:
    spec = f"config:bert?{SMALL}&max_position_embeddings={positions}&vocab_size=2000&{TASK}"
    opened = open_source(spec, tmp_path, origin=Origin.TYPED)
    context = Context(opened.store, reading=opened.project.source.reading)
    options = EvaluateOptions(data="demo:reviews", limit=60, tokenizer=WORDS)
    found = evaluate(opened.project.graph, options, context)[1].summary
    assert found["max_length"] == min(positions, 128)  # what the demo's tokenizer says
    assert bool(found["texts_cut"]) == cut == bool(found["tokens_lost"])


def test_a_vocabulary_smaller_than_the_tokenizers_is_one_clear_error(tmp_path: Path) -> None:
    opened = open_source(f"config:bert?{SMALL}&vocab_size=300&{TASK}", tmp_path)
    context = Context(opened.store, reading=opened.project.source.reading)
    with pytest.raises(DataError, match="vocabulary has 300") as told:
        load_split(EvaluateOptions(data="demo:reviews", tokenizer=WORDS), context)
    assert "--tokenizer" in told.value.hint


# -- images


def pictures(folder: Path, size: tuple[int, int], mode: str) -> str:
    for name, level in (("zero", 40), ("one", 200)):
        (folder / name).mkdir(parents=True)
        for at in range(3):
            Image.new(mode, size, (level, level, level) if mode == "RGB" else level).save(folder / name / f"{at}.png")
    return str(folder)


@pytest.mark.parametrize(("size", "mode"), [((8, 8), "L"), ((20, 12), "L"), ((32, 32), "RGB")])
def test_images_are_brought_to_the_models_size_and_it_is_said(size: tuple[int, int], mode: str, tmp_path: Path) -> None:
    opened: Opened = open_source("demo:digits", tmp_path)
    context = Context(opened.store, reading=opened.project.source.reading)
    options = EvaluateOptions(data=pictures(tmp_path / "pictures", size, mode))
    split = load_split(options, context)
    assert split.inputs["x"].shape == (6, 1, 8, 8)
    levels = np.array([200, 40])[split.labels] / 255  # classes are sorted: one, zero
    np.testing.assert_allclose(split.inputs["x"].mean((1, 2, 3)), levels, atol=1 / 255)
    warning = evaluate(opened.project.graph, options, context)[1].summary.get("warning", "")
    assert ("are resized to 8 × 8" in warning) == (size != (8, 8)) and ("to grey" in warning) == (mode == "RGB")


def test_data_that_cannot_be_fitted_say_both_sizes() -> None:
    context = Context(None, reading=Reading(limits=Limits(image=(2, 8, 8))))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"are 1 × 8 × 8 .* the model takes 2 × 8 × 8"):
        load_split(EvaluateOptions(data="demo:digits"), context)
