"""Scores that are NaN or infinite are never right: a row of NaN has no largest score, though `argmax` names class 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.app.cli import main
from espalier.model.data.base import IGNORED
from espalier.passes.tasks.base import TASKS
from espalier.passes.tasks.contrastive import found_ranks
from espalier.passes.tasks.question_answering import QuestionAnswering
from espalier.passes.tasks.tally import Tally
from espalier.passes.tasks.token_classification import TokenClassification

UNDEFINED = [[torch.nan] * 3, [9.0, torch.nan, 0.0], [0.0, 1.0, torch.inf], [-torch.inf] * 3]


def tallied(task: Any, scores: Tensor, labels: Tensor) -> Tally:
    tally = Tally(task)
    tally.add(scores, labels)
    return tally


@pytest.mark.parametrize("row", UNDEFINED)
def test_a_row_without_a_softmax_is_never_right(row: list[float]) -> None:
    scores = torch.tensor([row] * 3 + [[2.0, -torch.inf, 1.0]])  # the last one rules a class out
    tally = tallied(TASKS["classification"], scores, torch.tensor([0, 1, 2, 0]))
    assert tally.figures()["accuracy"] == 0.25 and tally.hits() is not None
    assert tally.hits().tolist() == [False] * 3 + [True] and tally.unscored == 3  # type: ignore[union-attr]
    assert TASKS["classification"].agreeing(scores, scores, torch.zeros(4, dtype=torch.long)) == 1


@pytest.mark.parametrize("name", ["masked-token", "next-token", "seq2seq"])
def test_tokens_of_undefined_scores_are_wrong(name: str) -> None:
    labels = torch.tensor([[0, 0, IGNORED], [0, 1, 2]])
    scores = torch.full((6, 3), torch.nan)
    scores[4] = torch.tensor([0.0, 5.0, 0.0])
    assert tallied(TASKS[name], scores, labels).figures()["accuracy"] == 0.2


def test_tags_of_undefined_scores_are_no_entities() -> None:
    task = TokenClassification(("B-X", "I-X", "O"))
    labels = torch.tensor([[0, 1, 2, 0]])
    right = torch.nn.functional.one_hot(labels[0], 3).float()
    assert tallied(task, right, labels).figures()["f1"] == 1
    right[3] = torch.nan  # the second entity; argmax would still name B-X
    figures = tallied(task, right, labels).figures()
    assert figures["accuracy"] == 0.75 and figures["f1"] == pytest.approx(2 * 1 / (1 + 2))


def test_decisions_of_undefined_scores_are_wrong_whatever_the_label() -> None:
    labels = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    scores = torch.tensor([[-1.0, 1.0], [torch.nan, torch.nan], [torch.inf, -1.0]])
    tally = tallied(TASKS["multi-label"], scores, labels)
    figures, hits = tally.figures(), tally.hits()
    assert hits is not None and hits.tolist() == [True, False, False]
    assert figures["accuracy"] == pytest.approx(1 / 3) and figures["label_accuracy"] == pytest.approx(3 / 6)
    assert figures["f1_micro"] == pytest.approx(2 * 1 / (2 * 1 + 2 + 1))


def test_pixels_of_undefined_scores_have_no_class() -> None:
    labels = torch.tensor([[[0, 0], [1, 1]]])
    scores = torch.tensor([[[[5.0, torch.nan], [0.0, 0.0]], [[0.0, 0.0], [5.0, torch.nan]]]])
    figures = tallied(TASKS["segmentation"], scores, labels).figures()
    assert figures["accuracy"] == 0.5 and figures["miou"] == 0.5  # 1 of 2 pixels of either class, none too many
    assert TASKS["segmentation"].agreeing(scores, scores, labels) == 0


@pytest.mark.parametrize("answers", [[], ["yes"]])
def test_a_question_with_undefined_scores_is_not_answered(answers: list[str]) -> None:
    window = {"question": 0, "text": "yes", "spans": [[-1, -1], [0, 3]], "answers": answers, "start": 0, "end": 0,
              "first": 0, "unanswerable": True}  # fmt: skip
    task, labels = QuestionAnswering((json.dumps(window),)), torch.tensor([0])
    sound = torch.tensor([[[5.0, 0.0], [5.0, 0.0]]]) if not answers else torch.tensor([[[0.0, 5.0], [0.0, 5.0]]])
    assert tallied(task, sound, labels).figures()["exact_match"] == 1
    figures = tallied(task, sound * torch.nan, labels).figures()
    assert figures["exact_match"] == 0 and figures["f1"] == 0


def test_embeddings_of_nan_are_near_to_nothing() -> None:
    pairs = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])  # loss, 1, image, caption
    sound = np.concatenate([pairs, np.eye(2), np.eye(2)], 1)
    assert found_ranks(sound).tolist() == [[1.0] * 6] * 2
    sound[1, 4:6] = np.nan  # of the second image
    found = found_ranks(sound)
    assert found[:, 1].tolist() == [1, 0] and found[:, 4].tolist() == [1, 0]


def test_correlations_with_nan_are_nan() -> None:
    figures = tallied(TASKS["regression"], torch.tensor([1.0, torch.nan, 3.0]), torch.tensor([1.0, 2.0, 3.0])).figures()
    assert all(np.isnan(figures[name]) for name in ("mse", "r2", "pearson", "spearman"))


# -- for the user


@pytest.fixture(scope="module")
def model() -> es.Model:
    torch.manual_seed(0)
    return es.trace(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).eval(), torch.randn(4, 6))


@pytest.mark.slow
def test_python_warns_and_scores_nothing(model: es.Model) -> None:
    data = (torch.full((60, 6), torch.nan), torch.zeros(60, dtype=torch.long))
    for measure in (model.score, model.evaluate):
        with pytest.warns(UserWarning, match="not finite .* for 60 of 60 samples") as caught:
            report = measure(data)
        assert report.accuracy == 0 and report.interval[0] == 0 and report.unscored == 60
        assert caught[0].filename == __file__


@pytest.mark.slow
def test_the_confusion_has_a_class_of_their_own(model: es.Model) -> None:
    x, y = torch.randn(8, 6), torch.zeros(8, dtype=torch.long)
    y[1], y[2] = 1, 2
    x[4:] = torch.nan
    report = model.run("predictions", data=(x, y))
    rows = {row["class"]: row for row in report.rows}
    assert rows["0"]["as none (scores not finite)"] == 4 and rows["none (scores not finite)"]["samples"] == 0


@pytest.mark.slow
def test_the_command_says_it(tmp_path: Path, model: es.Model, capsys: pytest.CaptureFixture[str]) -> None:
    model.save(tmp_path / "m.espalier")
    np.savez(tmp_path / "d.npz", x=np.full((20, 6), np.nan, np.float32), y=np.zeros(20, np.int64))
    args = ["evaluate", str(tmp_path / "m.espalier"), "--data", str(tmp_path / "d.npz"), "--json"]
    assert main(args) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["accuracy"] == 0
    assert "not finite (NaN or infinite) for 20 of 20 samples" in told.err
