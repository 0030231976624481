"""Data that a search's model cannot take, or that lack a split, are told before any trial, and no study is begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from espalier.model.document.recipe import Recipe
from espalier.model.errors import DataError
from espalier.model.opening import Opened, open_source
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.search.search import Search
from espalier.passes.search.spec import SearchSpec, Vary
from espalier.passes.search.storage import open_storage, study_names
from espalier.passes.search.study import Plan, begin

SCORE = EvaluateOptions(data="demo:digits", limit=40)
SPEC = SearchSpec("s", (Vary(values="integer(width=4|8)", per="all"),), sampler="grid", trials=2, score=SCORE)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source("demo:digits-mlp", tmp_path_factory.mktemp("mlp"))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Larger than the model takes them."""
    for split in ("train", "test"):
        for name in ("0", "1"):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for i in range(12):
                Image.fromarray(np.full((12, 12), 20 * i, np.uint8)).save(folder / f"{i}.png")
    return tmp_path / "images"


def begun(opened: Opened, folder: Path, *, resume: bool = False, **more: Any) -> Any:
    project = opened.project
    search = Search(replace(SPEC, **more), Recipe(), project.base, project.source)
    context = Context(opened.store, reading=project.source.reading, base=project.base)
    return begin(Plan(search, context, f"journal://{folder}/s.journal", resume))


def test_data_of_another_kind(mlp: Opened, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"needs the input|cannot take") as told:
        begun(mlp, tmp_path, score=EvaluateOptions(data="demo:reviews", limit=40))
    assert told.value.hint and not list(tmp_path.glob("s.journal*"))


def test_images_of_another_size_are_resized(mlp: Opened, images: Path, tmp_path: Path) -> None:
    ended = [t for t in begun(mlp, tmp_path, score=EvaluateOptions(data=str(images))).trials() if t.state != "running"]
    assert {t.state for t in ended} == {"complete"}


@pytest.mark.slow
def test_texts_are_cut_to_the_positions_of_the_model(tmp_path: Path) -> None:
    small = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1&vocab_size=4000"
    spec = f"config:bert?{small}&max_position_embeddings=8&task=sequence-classification"
    opened = open_source(spec, tmp_path / "bert", origin=Origin.TYPED)
    demo = open_source("demo:reviews", tmp_path / "demo").project.source.tokenizer
    score = EvaluateOptions(data="demo:reviews", limit=40, tokenizer=str(demo or ""))
    ended = [t for t in begun(opened, tmp_path, score=score).trials() if t.state != "running"]
    assert {t.state for t in ended} == {"complete"}


@pytest.mark.slow
def test_models_of_another_configuration_are_not_judged_by_the_source(tmp_path: Path) -> None:
    """Theirs are the positions that the texts need; a split that is not there is told as ever."""
    small = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1&vocab_size=4000"
    spec = f"config:bert?{small}&max_position_embeddings=8&task=sequence-classification"
    opened = open_source(spec, tmp_path / "bert", origin=Origin.TYPED)
    words = str(open_source("demo:reviews", tmp_path / "demo").project.source.tokenizer or "")
    score = EvaluateOptions(data="demo:reviews", limit=40, tokenizer=words)
    sizes = Vary("config", values="128, 256", key="max_position_embeddings", name="positions")
    more: dict[str, Any] = {"space": (sizes,), "score": score}
    ended = [t for t in begun(opened, tmp_path, **more).trials() if t.state != "running"]
    assert [t.state for t in ended] == ["complete", "complete"]
    with pytest.raises(DataError, match="no split 'spring'"):
        begun(opened, tmp_path, study="t", space=(sizes,), score=replace(score, split="spring"))
    told = {"validation_split": "spring", "tokenizer": words}
    with pytest.raises(DataError, match="no split 'spring'"):
        begun(opened, tmp_path, study="u", train="after", finetune=told, **more)


def test_a_split_that_is_not_there(mlp: Opened, tmp_path: Path) -> None:
    options = {"data": "demo:digits", "validation_split": "spring"}
    with pytest.raises(DataError, match="no split 'spring'"):
        begun(mlp, tmp_path, train="after", finetune=options)
    assert not list(tmp_path.glob("s.journal*"))


def test_a_split_without_samples_or_labels(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub hides the labels of some test sets, and all their rows are left out."""
    whole = load_split(SCORE, Context(mlp.store))
    hidden = replace(whole, labels=np.full_like(whole.labels, -1))
    for split, words in ((whole.take(0), "no samples to measure on"), (hidden, "hidden")):
        monkeypatch.setattr("espalier.passes.running.splits.load_split", lambda *_, split=split: split)
        with pytest.raises(DataError, match=words) as told:
            begun(mlp, tmp_path)
        assert told.value.hint and not list(tmp_path.glob("s.journal*"))


def test_data_that_fit_begin(mlp: Opened, tmp_path: Path) -> None:
    ended = [t for t in begun(mlp, tmp_path).trials() if t.state != "running"]
    assert [t.state for t in ended] == ["complete", "complete"]


def test_a_finished_study_is_gone_on_with_without_its_data(
    mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to measure; where trials are, or of a study that is not there, the data come first."""
    wrong = EvaluateOptions(data="demo:reviews", limit=40)
    wide: dict[str, Any] = {"space": (replace(SPEC.space[0], values="integer(width=2|4|8)"),)}
    with pytest.raises(DataError):
        begun(mlp, tmp_path, resume=True, score=wrong)
    assert not list(tmp_path.glob("s.journal*"))
    assert len([t for t in begun(mlp, tmp_path, **wide).trials() if t.state == "complete"]) == 2
    with pytest.raises(DataError):
        begun(mlp, tmp_path, resume=True, study="t", score=wrong)
    assert study_names(open_storage(f"journal://{tmp_path}/s.journal")) == ["s"]
    checked: list[int] = []
    monkeypatch.setattr("espalier.passes.search.study.check_data", lambda *_, **__: checked.append(1))
    assert not list(begun(mlp, tmp_path, resume=True, **wide).trials()) and not checked
    assert begun(mlp, tmp_path, resume=True, trials=3, **wide).has_trials_to_run and checked
