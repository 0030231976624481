"""Metrics and losses of the tasks, held to scikit-learn, scipy and transformers, and entities to rules by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from scipy import stats

import espalier as es
from espalier.model.data.base import IGNORED, Split
from espalier.passes.figure import main_figure, paired_t, student
from espalier.passes.tasks.base import TASKS, Task, all_metrics, task_of
from espalier.passes.tasks.masked_token import masked
from espalier.passes.tasks.resampling import bootstrapped
from espalier.passes.tasks.tally import Tally, packed
from espalier.passes.tasks.token_classification import entities
from tests.task_models import SPECIAL, TAGS, rows_of, write_task, write_words

KINDS = ("multi-label", "regression", "masked-token", "token-classification")


def tallied(task: Task, scores: torch.Tensor, labels: torch.Tensor, size: int = 7) -> Tally:
    """A tally of batches of `size` samples."""
    tally = Tally(task)
    for at in range(0, len(labels), size):
        tally.add(scores[at : at + size], labels[at : at + size])
    return tally


@pytest.mark.parametrize("seed", range(3))
def test_several_labels_as_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = default_rng(seed)
    labels = (rng.random((40, 5)) < 0.3).astype(np.float32)
    labels[:, 4] = 0  # a class that never applies
    scores = rng.normal(size=(40, 5)) + 2 * labels - 1
    scores[:, 4] = -1
    found = tallied(TASKS["multi-label"], torch.tensor(scores), torch.tensor(labels)).figures()
    guesses = scores > 0
    wanted = {
        "accuracy": metrics.accuracy_score(labels, guesses),
        "f1_micro": metrics.f1_score(labels, guesses, average="micro"),
        "f1_macro": metrics.f1_score(labels, guesses, average="macro", zero_division=0),
        "label_accuracy": 1 - metrics.hamming_loss(labels, guesses),
        "loss": float(torch.nn.BCEWithLogitsLoss()(torch.tensor(scores).float(), torch.tensor(labels))),
    }
    assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_regression_as_scikit_learn_and_scipy(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = default_rng(seed)
    truth = rng.integers(0, 6, 50).astype(np.float32) + 100  # with ties, far from 0
    scores = (truth + rng.normal(size=50)).astype(np.float32)
    found = tallied(TASKS["regression"], torch.tensor(scores), torch.tensor(truth)).figures()
    wanted = {
        "mse": metrics.mean_squared_error(truth, scores), "mae": metrics.mean_absolute_error(truth, scores),
        "r2": metrics.r2_score(truth, scores), "pearson": stats.pearsonr(truth, scores).statistic,
        "spearman": stats.spearmanr(truth, scores).statistic, "loss": metrics.mean_squared_error(truth, scores),
    }  # fmt: skip
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_constant_has_no_correlation() -> None:
    found = tallied(TASKS["regression"], torch.full((9,), 2.0), torch.arange(9.0)).figures()
    assert found["pearson"] == found["spearman"] == 0 and found["r2"] == pytest.approx(1 - 9 * 4 / 60 - 60 / 60)


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("B-PER I-PER O B-LOC", {(0, 2, "PER"), (3, 4, "LOC")}),
        ("I-PER I-PER O", set()),  # nothing begins it
        ("B-PER I-LOC I-PER", {(0, 1, "PER")}),  # another type ends it, and does not begin
        ("B-PER B-PER", {(0, 1, "PER"), (1, 2, "PER")}),
        ("O", set()),
    ],
)
def test_entities_of_strict_iob2(tags: str, found: set[tuple[int, int, str]]) -> None:
    """The rules of seqeval's IOB2 in strict mode: only B begins, only I of its type continues."""
    assert entities(tags.split()) == found


def test_f1_of_entities() -> None:
    """Two texts: of three true entities one is predicted, beside one that is none; padding and later tokens are out."""
    task = TASKS["token-classification"].of(TAGS)
    labels = torch.tensor([[IGNORED, 1, 2, IGNORED, 3], [IGNORED, 1, 0, 0, IGNORED]])
    guesses = torch.tensor([[3, 1, 2, 3, 0], [3, 0, 3, 0, 3]])
    tally = Tally(task)
    tally.add(torch.nn.functional.one_hot(guesses, 4).float().flatten(0, 1), labels)
    assert tally.figures() == pytest.approx(
        {"accuracy": 3 / 6, "f1": 2 * 1 / (2 + 3), "loss": float(task.loss(tally_scores(guesses), labels))}
    )
    assert tally.units == 6


def tally_scores(guesses: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(guesses, 4).float().flatten(0, 1)


def test_masks_are_those_of_devlin() -> None:
    rows = default_rng(1).integers(0, 200, (400, 60))
    ordinary = np.arange(5, 200)
    inputs, labels = masked(rows, 4, ordinary)
    again, _ = masked(rows[:9], 4, ordinary)
    assert np.array_equal(again, inputs[:9])  # the draws of a window do not depend on later ones
    predicted = labels != IGNORED
    assert not predicted[rows < 5].any() and np.array_equal(labels[predicted], rows[predicted])
    assert np.array_equal(inputs[~predicted], rows[~predicted])
    of, n = predicted[rows >= 5], int((rows >= 5).sum())
    assert abs(of.mean() - 0.15) < 4 * math.sqrt(0.15 * 0.85 / n)
    kinds = inputs[predicted]
    shares = ((kinds == 4).mean(), (kinds == labels[predicted]).mean(), np.isin(kinds, ordinary).mean())
    assert shares == pytest.approx((0.8, 0.1, 0.2), abs=0.03)


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """Of 200 data sets, about 95 % of the bootstrap's intervals of R² hold that of the population."""
    task, rng, covered = TASKS["regression"], default_rng(3), 0
    for _ in range(200):
        truth = rng.normal(size=120)
        statistics = task.statistics(torch.tensor(truth + rng.normal(size=120) / 2), torch.tensor(truth))
        low, high = bootstrapped(statistics, task.figures)["r2"]
        covered += low <= 0.75 <= high
    assert covered / 200 == pytest.approx(0.95, abs=0.05)


def test_spearmans_interval_by_hand() -> None:
    task, rng = TASKS["regression"], default_rng(0)
    truth = rng.normal(size=50)
    statistics = task.statistics(torch.tensor(truth + rng.normal(size=50)), torch.tensor(truth))
    rho = task.more(statistics)["spearman"]
    reach = stats.norm.ppf(0.975) * math.sqrt((1 + rho**2 / 2) / 47)
    assert task.intervals(statistics)["spearman"] == pytest.approx(
        (math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach))
    )


@pytest.mark.parametrize(("t", "freedom"), [(0.0, 5), (0.5, 1), (2.0, 10), (1.96, 1000), (40.0, 30)])
def test_students_tail(t: float, freedom: int) -> None:
    assert student(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9)


def test_a_change_of_a_mean_is_paired_where_both_are_of_the_same_samples() -> None:
    rng = default_rng(5)
    first, second = rng.random((2, 60)).astype(np.float32)
    p = stats.ttest_rel(first, second).pvalue
    assert paired_t(first.tolist(), second.tolist()) == pytest.approx(p)
    figures = [
        main_figure({"metric": "mse", "mse": float(e.mean()), "n": 60, "better": "low", "interval": [0.4, 0.6],
                     "errors": packed(e)}) for e in (first, second)
    ]  # fmt: skip
    assert figures[0] and figures[1]
    change = figures[0].against(figures[1])
    assert (change.test, change.share) == ("paired t", False) and change.p == pytest.approx(p, rel=1e-5)
    alone = main_figure({"metric": "mse", "mse": 2.0, "n": 60, "better": "low", "interval": [1.9, 2.1]})
    assert alone and alone.against(figures[1]).test == "unpaired intervals" and not alone.against(figures[1]).noise
    assert not figures[0].guesses


def test_the_level_of_guessing() -> None:
    labels = np.array([[1, 0], [1, 0], [0, 1], [1, 1]], np.float32)
    sets = Split({"x": labels}, labels, task="multi-label")
    assert task_of(sets).guess(sets, sets) == 0.5
    numbers, trained = (Split({"x": a}, a, task="regression") for a in (np.float32([0, 2]), np.float32([3, 3, 3])))
    assert task_of(numbers).guess(numbers, trained) == pytest.approx((9 + 1) / 2)


def test_metrics_of_one_name_have_one_direction() -> None:
    for _, task in TASKS.items():
        for metric in task.metrics:
            assert metric.better == all_metrics()[metric.name].better
            assert metric.share == all_metrics()[metric.name].share


# -- against transformers


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each task, hardly trained, with data."""
    folder = tmp_path_factory.mktemp("tasks")
    for task in KINDS:
        (folder / task).mkdir()
        write_task(folder / task, task, count=60, steps=3)
    return folder


def inputs_of(place: Path, task: str, **options: Any) -> Any:
    """The test split as Espalier reads it."""
    from espalier.model.sources.reading import Reading
    from espalier.passes.running.splits import EvaluateOptions, load_split

    m = es.open(str(place))
    reading: Reading = m._project.source.reading
    split = load_split(EvaluateOptions(data=str(place / "data"), **options), _context(reading))
    assert split.predicts == task
    return m, split


def _context(reading: Any) -> Any:
    from espalier.model.store.weights import WeightStore
    from espalier.passes.base import Context

    return Context(WeightStore(None), reading=reading)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("task", KINDS)
def test_losses_and_predictions_are_those_of_transformers(places: Path, task: str) -> None:
    import transformers

    m, split = inputs_of(places / task, task)
    found = m.evaluate(str(places / task / "data")).summary
    config = transformers.AutoConfig.from_pretrained(places / task)
    model = getattr(transformers, config.architectures[0]).from_pretrained(places / task).eval()
    inputs = {name: torch.from_numpy(values) for name, values in split.inputs.items()}
    labels = torch.from_numpy(split.labels)
    with torch.no_grad():
        wanted = model(**inputs, labels=labels)
    assert found["loss"] == pytest.approx(float(wanted.loss), rel=1e-5)
    assert found["task"] == task and found["metric"] == TASKS[task].main.name
    assert found[found["metric"]] is not None and found["guessing"] is not None
    kept = labels != IGNORED
    if task in ("masked-token", "token-classification"):
        right = (wanted.logits.argmax(-1) == labels)[kept].float().mean()
        assert found["accuracy"] == pytest.approx(float(right)) and found["n"] == int(kept.sum())
    if task == "multi-label":
        assert found["accuracy"] == pytest.approx(float(((wanted.logits > 0) == (labels > 0.5)).all(-1).float().mean()))


@pytest.mark.slow
def test_words_are_aligned_with_their_first_tokens(places: Path) -> None:
    """`splendid` and others of more than five letters have several tokens; the tag stands at the first."""
    place = places / "token-classification"
    _, split = inputs_of(place, "token-classification")
    tokenizer = write_words(place)
    rows = rows_of("token-classification", 200, 1)
    by_words = {tuple(row["tokens"]): row["ner_tags"] for row in rows}
    for ids, labels in zip(split.inputs["input_ids"].tolist(), split.labels.tolist(), strict=True):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        firsts = [at for at, p in enumerate(pieces) if p not in SPECIAL and not p.startswith("##")]
        words = tuple(tokenizer.decode([i for i in ids if i >= len(SPECIAL)]).replace(" ##", "").split())
        assert [TAGS[labels[at]] for at in firsts] == by_words[words]
        assert all(label == IGNORED for at, label in enumerate(labels) if at not in firsts)
