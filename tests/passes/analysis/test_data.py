"""Figures of data by hand: classes, lengths, what a limit cuts; samples in pages; which are taken for which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import espalier.model.data.demo as demo
from espalier.model.data.base import Split, TaskData
from espalier.model.data.summary import balance, summarise
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError
from espalier.model.opening import Opened, open_any
from espalier.model.sources.reading import Reading
from espalier.passes.analysis.data import head
from espalier.passes.analysis.data_rows import DataRowsOptions
from espalier.passes.analysis.predictions import Predictions
from espalier.passes.base import Context, run_step
from espalier.passes.running.splits import EvaluateOptions


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("digits"))


def run(opened: Opened, name: str, options: Any) -> tuple[Any, list[Any]]:
    """The report and the parts that were found."""
    parts: list[Any] = []
    context = Context(opened.store, reading=Reading(str(demo.SHIPPED)), found=parts.append)
    return run_step(opened.project.graph, Step(name, options), context).report, parts


def rows_of(folder: Path, *lines: str) -> str:
    (folder / "rows.csv").write_text("\n".join(["text,label", *lines, ""]), encoding="utf-8")
    return str(folder / "rows.csv")


def test_lengths_and_cuts() -> None:
    split = Split({"input_ids": np.zeros((4, 3), np.int64)}, np.array([0, 1, 1, 1]), np.array([2, 3, 3, 9]))
    seen = summarise(TaskData("mine", "text", ("a", "b"), {"train": split}, {}), 3)
    assert (seen.median, seen.longest, seen.cut) == (3, 9, 0.25)
    assert sum(seen.splits[0].lengths) == 4 and seen.splits[0].counts == (1, 3) and seen.evaluated.majority == 0.75
    assert seen.splits[0].lengths[seen.edges.index(2)] == 1 and seen.splits[0].lengths[seen.edges.index(3)] == 2


def test_one_long_text_does_not_stretch_the_histogram() -> None:
    lengths = np.array([10] * 999 + [5000])
    split = Split({"input_ids": np.zeros((1000, 1), np.int64)}, np.zeros(1000, np.int64), lengths)
    seen = summarise(TaskData("mine", "text", ("a", "b"), {"train": split}, {}), 128)
    assert seen.edges[-1] < 50 and sum(seen.splits[0].lengths) == 1000 and seen.longest == 5000


@pytest.mark.parametrize(
    ("counts", "words"),
    [((10, 10), "balanced"), ((10, 12), "slightly unbalanced: b is 1.2"), ((20, 10), "unbalanced: a is 2.0 times"),
     ((1, 99), "strongly unbalanced: b is 99.0"), ((0, 3), "no sample is a"), ((0, 0), "no samples")],
)  # fmt: skip
def test_balance_in_words(counts: tuple[int, int], words: str) -> None:
    assert words in balance(counts, ("a", "b"))


def test_data_of_a_demo(digits: Opened) -> None:
    report, ((seen, problem),) = run(digits, "data", EvaluateOptions(data="demo:digits"))
    assert sum(r["samples"] for r in report.rows) == 1797 and len(report.rows) == 30
    assert report.summary["samples"] == 1797 and problem == ("", "") and seen.shape == (1, 8, 8)
    test = [r for r in report.rows if r["split"] == "test"]
    assert report.summary["baseline_accuracy"] == max(r["samples"] for r in test) / 270
    assert head(digits.project.graph) == 10


def test_data_that_does_not_fit_is_told_not_refused(digits: Opened, tmp_path: Path) -> None:
    lines = [f"word {n},class {n % 12}" for n in range(48)]
    _, ((seen, problem),) = run(digits, "data", EvaluateOptions(data=rows_of(tmp_path, *lines)))
    assert len(seen.classes) == 12 and "input" in problem[0]


def test_too_few_rows_to_divide_stay_in_one_piece(digits: Opened, tmp_path: Path) -> None:
    _, ((seen, _),) = run(digits, "data", EvaluateOptions(data=rows_of(tmp_path, "good,1", "bad,0")))
    assert [s.name for s in seen.splits] == ["all"]
    with pytest.raises(DataError, match="no column"):
        run(digits, "data", EvaluateOptions(data=rows_of(tmp_path, "good,1", "bad,0"), text="words"))


def test_samples_in_pages_of_a_class_and_holding_words(digits: Opened, tmp_path: Path) -> None:
    path = rows_of(tmp_path, *(f"text {n} {'Good' if n % 3 else 'bad'},{n % 2}" for n in range(40)))
    everything, _ = run(digits, "data_rows", DataRowsOptions(data=path, split="train"))
    assert everything.summary == {"split": "train", "found": 32} and len(everything.rows) == 32
    page, _ = run(digits, "data_rows", DataRowsOptions(data=path, split="train", start=30, limit=5))
    assert page.rows == everything.rows[30:] and page.summary["found"] == 32
    chosen, _ = run(digits, "data_rows", DataRowsOptions(data=path, split="train", of_class="1", holding="good"))
    wanted = [r for r in everything.rows if r["class"] == "1" and "Good" in r["text"]]
    assert list(chosen.rows) == wanted and wanted
    some, _ = run(digits, "data_rows", DataRowsOptions(data=path, split="train", among=(7, 3)))
    assert some.rows == (everything.rows[7], everything.rows[3])
    for wrong in ({"of_class": "2"}, {"among": (99,)}, {"split": "nothing"}):
        with pytest.raises(DataError):
            run(digits, "data_rows", DataRowsOptions(data=path, **({"split": "train"} | wrong)))  # type: ignore[arg-type]


def test_pictures_of_samples(digits: Opened) -> None:
    report, (pictures,) = run(digits, "data_rows", DataRowsOptions(data="demo:digits", split="test", limit=3))
    height, width, channels, data = pictures[report.rows[2]["sample"]]
    assert (height, width, channels, len(data)) == (8, 8, 1, 64) and len(pictures) == 3


def test_confusion_by_hand() -> None:
    labels, told = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    found = Predictions("test", ("a", "b"), labels, told, np.array([0.9, 0.6, 0.8, 0.7, 0.99], np.float32))
    assert found.confusion().tolist() == [[1, 1], [1, 2]] and found.wrong.tolist() == [4, 1]


def test_predictions_agree_with_the_evaluation(digits: Opened) -> None:
    options = EvaluateOptions(data="demo:digits", split="test")
    report, (found,) = run(digits, "predictions", options)
    plain, _ = run(digits, "evaluate", options)
    assert report.summary["accuracy"] == pytest.approx(plain.summary["accuracy"])
    assert report.summary["wrong"] == len(found.wrong) == round(270 * (1 - plain.summary["accuracy"]))
    assert [r["samples"] for r in report.rows] == np.bincount(found.labels, minlength=10).tolist()
    assert report.rows[3]["recall"] == report.rows[3]["as 3"] / report.rows[3]["samples"]
    assert 0 < report.summary["wrong_confidence"] < report.summary["mean_confidence"] <= 1
