"""Labels in words: in the model's order where it knows them, told where it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.model.data.base import Split, TaskData
from espalier.model.data.class_names import in_order_of, misnamed, model_names
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError
from espalier.model.opening import open_any
from espalier.model.sources.demos import RESOURCES
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options

NAMES = ("negative", "positive")
SAID = "The data's labels are not the model's: awesome counts as 0 negative, bad counts as 1 positive."


def data(classes: tuple[str, ...], labels: list[int]) -> TaskData:
    split = Split({"x": np.zeros((len(labels), 1), np.float32)}, np.array(labels, np.int64))
    return TaskData("mine", "text", classes, {"train": split}, {})


def test_known_names_take_the_order_of_the_model() -> None:
    found = in_order_of(data(("Negative", "POSITIVE"), [0, 1, -1]), ("positive", "neutral", "negative"))
    assert found.classes == ("positive", "neutral", "negative")
    assert found.split("train").labels.tolist() == [2, 0, -1]


@pytest.mark.parametrize("classes", [("awesome", "bad"), ("0", "1"), NAMES])
def test_other_names_stay_as_they_are(classes: tuple[str, ...]) -> None:
    given = data(classes, [0, 1])
    assert in_order_of(given, NAMES) is given and in_order_of(given, ()) is given


def test_a_label_beside_those_of_the_model_is_a_mistake() -> None:
    """Otherwise one wrong label gives all classes other numbers."""
    with pytest.raises(DataError, match="'bad' is none of the model's classes"):
        in_order_of(data(("bad", "positive"), [0, 1]), NAMES)
    inputs = {"x": np.zeros((2, 1), np.float32)}
    splits = {"train": Split(inputs, np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), classes=("bad", "positive"))}
    given = replace(data(("bad", "positive"), [0, 1]), splits=splits)
    with pytest.raises(DataError, match="'bad' is none of the model's classes: negative, positive"):
        in_order_of(given, NAMES)
    assert in_order_of(replace(given, classes=("awesome", "bad")), NAMES).classes == ("awesome", "bad")


def test_strange_words_are_told_with_what_they_count_as() -> None:
    text, hint = misnamed(("awesome", "bad"), NAMES)
    assert text == SAID and hint
    assert "good counts as 2 ?" in misnamed(("a", "b", "good"), NAMES)[0]
    for classes in (("0", "1"), ("NEGATIVE", "positive")):
        assert misnamed(classes, NAMES) == ("", "")
    assert misnamed(("awesome", "bad"), ()) == ("", "")


def test_numbers_that_leave_one_out_are_told() -> None:
    text, hint = misnamed(("0", "2"), ("low", "middle", "high"))
    assert "2 counts as 1 middle" in text and "from 0" in hint
    assert "1 counts as 0, 2 counts as 1." in misnamed(("1", "2"), ())[0]
    assert "LABEL_2 counts as 1" in misnamed(("LABEL_0", "LABEL_2"), ())[0]
    for classes in (("0", "1", "2"), ("LABEL_0", "label_1")):
        assert misnamed(classes, ()) == ("", "")


def test_names_are_read_from_the_configuration(tmp_path: Path) -> None:
    assert model_names(str(RESOURCES / "reviews")) == NAMES
    for content in (
        "{",
        "[]",
        "{}",
        json.dumps({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}),
        '{"id2label": {"1": "a"}}',
    ):
        (tmp_path / "config.json").write_text(content)
        assert model_names(str(tmp_path)) == ()
    assert model_names(None) == () == model_names(str(tmp_path / "nothing" / "at" / "all"))


def asked(
    tmp_path: Path, words: tuple[str, str], name: str = "evaluate", **more: object
) -> tuple[Report, list[object]]:
    lines = [f"the plot was {'great' if row % 2 else 'awful'} number {row},{words[row % 2]}" for row in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *lines, ""]), encoding="utf-8")
    opened, parts = open_any("demo:reviews", tmp_path / "w"), list[object]()
    context = Context(opened.store, reading=opened.project.source.reading, found=parts.append)
    options = decode_options(name, {"data": str(tmp_path / "rows.csv"), **more})
    return run_step(opened.project.graph, Step(name, options), context).report, parts


@pytest.mark.slow
def test_evaluate_and_the_data_panel_tell(tmp_path: Path) -> None:
    assert "warning" not in asked(tmp_path, ("negative", "positive"))[0].summary
    right = asked(tmp_path, ("0", "1"))[0].summary
    strange = asked(tmp_path, ("bad", "awesome"))[0].summary
    assert str(strange["warning"]).startswith(SAID) and "warning" not in right
    assert strange["accuracy"] == pytest.approx(1 - right["accuracy"])
    found: object = asked(tmp_path, ("bad", "awesome"), "data")[1][0]
    assert isinstance(found, tuple) and found[1][0].startswith(SAID)


@pytest.mark.slow
def test_a_training_tells_strange_labels_and_validation_on_its_own_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    few = {"max_steps": 1, "batch_size": 4, "train_limit": 8}
    told = asked(tmp_path, ("bad", "awesome"), "finetune", validation_split="train", **few)[0].summary["warning"]
    assert SAID in told and "Validation uses training samples" in told
    assert "warning" not in asked(tmp_path, ("negative", "positive"), "finetune", **few)[0].summary
