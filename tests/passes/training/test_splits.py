"""Data without a validation split: a tenth of the training samples validates, and that is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.model.document.recipe import Step
from espalier.model.errors import DataError
from espalier.model.opening import Opened, open_source
from espalier.passes.base import Context, run_step
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.splits import splits

WORDS = ("a good film", "a bad film", "what a fine and warm story", "so dull and cold a plot")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source("demo:reviews", tmp_path_factory.mktemp("reviews"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, count in (("train", 40), ("test", 12)):
        rows = [f"{WORDS[i % 4]} {'very ' * (i // 4)},{i % 2}" for i in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return tmp_path


def found(opened: Opened, data: Path, **more: Any) -> Any:
    context = Context(opened.store, reading=opened.project.source.reading, callables=opened.callables)
    return splits(FinetuneOptions(data=str(data), **more), context)


def keys(split: Any) -> set[bytes]:
    return {row.tobytes() for row in np.hstack([split.inputs["input_ids"], split.labels[:, None]])}


@pytest.mark.slow
def test_a_tenth_of_the_training_validates(opened: Opened, folder: Path) -> None:
    whole, made = found(opened, folder, validate=False), found(opened, folder)
    assert whole.check is None and len(whole.train) == 40 and not whole.warnings
    assert (len(made.train), len(made.check)) == (36, 4)
    assert not keys(made.train) & keys(made.check) and keys(made.train) | keys(made.check) == keys(whole.train)
    assert any("no validation split: a tenth of the training samples (4)" in w for w in made.warnings)
    limited = found(opened, folder, train_limit=7, validation_limit=3)
    assert keys(limited.check) < keys(made.check) and keys(limited.train) < keys(made.train)
    assert (len(limited.train), len(limited.check)) == (7, 3)


@pytest.mark.slow
def test_equal_samples_are_on_one_side(opened: Opened, folder: Path) -> None:
    """Whatever their order, and however long the longest text beside them is."""
    rows = [f"{WORDS[i % 4]} {'very ' * (i % 20 // 4)},{i % 2}" for i in range(100)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    made = found(opened, folder)
    assert (len(made.train), len(made.check)) == (90, 10) and not keys(made.train) & keys(made.check)
    first = {tuple(r[r > 0]) for r in made.check.inputs["input_ids"] * made.check.inputs["attention_mask"]}
    (folder / "train.csv").write_text("\n".join(["text,label", *reversed(rows)]) + "\n")
    again = found(opened, folder, max_length=40)
    assert {tuple(r[r > 0]) for r in again.check.inputs["input_ids"] * again.check.inputs["attention_mask"]} == first
    (folder / "train.csv").write_text("\n".join(["text,label", *["good,1"] * 15]) + "\n")
    alike = found(opened, folder)
    assert (len(alike.train), len(alike.check)) == (14, 1)


def test_splits_that_are_there_are_taken(opened: Opened, folder: Path) -> None:
    tested = found(opened, folder, validation_split="test")
    assert (len(tested.train), len(tested.check)) == (40, 12) and not tested.warnings
    (folder / "validation.csv").write_text("text,label\n" + "".join(f"{WORDS[i % 4]},{i % 2}\n" for i in range(6)))
    assert (len((made := found(opened, folder)).train), len(made.check)) == (40, 6) and not made.warnings
    with pytest.raises(DataError, match="no split 'spring'"):
        found(opened, folder, validation_split="spring")


def test_a_score_takes_what_a_training_held_out(opened: Opened, folder: Path) -> None:
    """Of data that only train; a lone file is measured whole, and a split that is named is that split."""
    (folder / "test.csv").unlink()
    project = opened.project
    context = Context(opened.store, reading=project.source.reading, callables=opened.callables)

    def told(data: Path, **more: Any) -> dict[str, Any]:
        step = Step("evaluate", EvaluateOptions(data=str(data), **more))
        return run_step(project.base, step, context).report.summary

    whole, made = told(folder), found(opened, folder)
    assert whole["n"] == 4 and "only training samples" in whole["warning"]
    wish = EvaluateOptions(data=str(folder))
    taken = measured_split(load_task(wish, context.reading, whole=True), "", 0)
    assert keys(taken) == keys(made.check) and told(folder, limit=3)["n"] == 3
    warm = Evaluator(project.base, wish, context, ())
    assert warm.total == 4 and warm.measure(project.base)["accuracy"] == whole["accuracy"]
    assert run_step(project.base, Step("predictions", wish), context).report.summary["n"] == 4
    named = told(folder, split="train")
    assert named["n"] == 40 and "warning" not in named
    (folder / "train.csv").rename(folder / "lone.csv")
    alone = told(folder / "lone.csv")
    assert alone["n"] == 40 and "warning" not in alone


@pytest.mark.slow
def test_a_training_runs_on_it_and_tells(opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(folder / "state"))
    project = opened.project
    context = Context(opened.store, reading=project.source.reading, callables=opened.callables, base=project.base)
    options = FinetuneOptions(data=str(folder), max_steps=1, batch_size=8)
    told = run_step(project.base, Step("finetune", options), context).report
    assert "a tenth of the training samples" in told.summary["warning"]
    assert told.rows[0]["validation_accuracy"] is not None
