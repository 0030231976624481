"""Every task in every consumer: evaluation, training, adapters, sensitivities, allocations, searches and sweeps."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import espalier as es
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, OptionsError, PassError
from espalier.passes.base import run_step
from espalier.passes.tasks.base import TASKS
from espalier.passes.training.options import FinetuneOptions
from tests.task_models import TOPICS, rows_of, write_task

pytestmark = pytest.mark.slow
KINDS = ("multi-label", "regression", "masked-token", "token-classification", "question-answering", "segmentation",
         "seq2seq", "audio", "contrastive")  # fmt: skip
TASK_OF = {"audio": "classification"}  # of models that are named by their data
RATES = {"contrastive": 1e-3}  # learning rates other than the usual
SPACE = [{"values": "integer(width=3|8)", "select": {"by": "type", "values": ["linear"]}}]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each task, trained a little, with data."""
    folder = tmp_path_factory.mktemp("tasks")
    for task in KINDS:
        (folder / task).mkdir()
        write_task(folder / task, task, count=200, steps=40)
    return folder


def opened(places: Path, task: str) -> tuple[Any, str]:
    return es.open(str(places / task)), str(places / task / "data")


@pytest.mark.parametrize("task", KINDS)
def test_training_shows_and_improves_the_metrics_of_the_task(places: Path, task: str) -> None:
    """Through 3-bit weights (QAT), then of adapters on them with the opened model as teacher (LoRA)."""
    rate = RATES.get(task, 3e-3)
    m, data = opened(places, task)
    m.quantize("linear", weight="integer(width=3)")
    before = m.score(data).summary
    options = FinetuneOptions(data=data, max_steps=24, evaluate_every=12, learning_rate=rate)
    result = run_step(m._graph, Step("finetune", options), m._target().context)
    names = {metric.name for metric in TASKS[TASK_OF.get(task, task)].metrics} - TASKS[
        TASK_OF.get(task, task)
    ].unvalidated
    assert all(math.isfinite(result.report.rows[-1][f"validation_{name}"]) for name in names)
    m.finetune(data=data, max_steps=24, evaluate_every=12, learning_rate=rate)
    assert m.score(data).summary["loss"] < before["loss"]
    n, _ = opened(places, task)
    n.quantize("linear", weight="integer(width=3)").lora("linear", rank=2)
    n.finetune(data=data, max_steps=12, learning_rate=rate, distil=0.5)
    assert n.score(data).summary["loss"] < before["loss"]


@pytest.mark.parametrize("task", KINDS)
def test_a_search_takes_the_goal_of_the_task(places: Path, task: str) -> None:
    """Without goals it is the main metric; the figures of a trial are those of `evaluate`."""
    m, data = opened(places, task)
    main = TASKS[TASK_OF.get(task, task)].main
    study = m.search({"space": SPACE, "within": ["weight_bits<=20"]}, data=data, trials=3)
    assert study.rows and all(math.isfinite(row[main.name]) for row in study.rows)
    values = [row[main.name] for row in study.rows if row["feasible"]]
    assert study.summary[main.name] == (min if main.better == "low" else max)(values)
    with pytest.raises(OptionsError, match="no"):
        m.search(
            {"space": SPACE, "goals": ["f1" if not task.endswith(("classification", "answering")) else "mse"]},
            data=data,
            trials=1,
        )


@pytest.mark.parametrize("task", KINDS)
def test_a_sweep_and_sensitivities_tell_the_main_metric(places: Path, task: str) -> None:
    m, data = opened(places, task)
    main = TASKS[TASK_OF.get(task, task)].main.name
    curve = m.sweep({"prune.sparsity": [0.5]}, data, recipe={"prune": {}})
    row = curve.rows[-1]
    low, high = row["interval"]
    assert low <= row[main] <= high and row["change"] is not None
    report = m.sensitivity(data, formats=["int4"], ports=["weight"], limit=24, exact=True)
    assert all(row["measured"] is not None and math.isfinite(row[main]) for row in report.rows)
    assert report.summary[f"{main}_of_measured_samples"] is not None
    found = m.allocate(data, budget="weight_bits<=16", formats=["int8", "float"], limit=24)
    assert found.summary["weight_bits"] <= 16


def test_divergences_of_several_labels_are_sums_over_decisions(places: Path) -> None:
    """Predicted and measured KL are of independent decisions, not of one softmax."""
    m, data = opened(places, "multi-label")
    n, _ = opened(places, "multi-label")
    n.quantize("linear", weight="integer(width=4)")
    found = n.run("divergence", data=data).summary["kl"]
    before, after = (_scores(x, data) for x in (m, n))
    p, q = torch.distributions.Bernoulli(logits=before), torch.distributions.Bernoulli(logits=after)
    wanted = float(torch.distributions.kl_divergence(p, q).sum(-1).mean())
    assert found == pytest.approx(wanted, rel=1e-3)
    row = n.sensitivity(data, formats=["int8"], ports=["weight"], exact=True).rows[1]
    assert row["predicted"] == pytest.approx(row["measured"], rel=1.0)


def _scores(m: Any, data: str) -> torch.Tensor:
    """The scores of all samples, float64."""
    found: list[torch.Tensor] = []
    m.evaluate(data, metric=lambda out, _: found.append(out.double()) or 0.0)
    return found[0]


def test_arrays_of_a_program(places: Path) -> None:
    """Sets of names, indicators and numbers are labels where the model's head is theirs."""
    m, data = opened(places, "multi-label")
    rows = rows_of("multi-label", 200, 1)
    by_file = m.score(data).summary
    by_names = m.score([(row["text"], row["labels"]) for row in rows]).summary
    assert by_names["f1_macro"] == pytest.approx(by_file["f1_macro"]) and by_names["task"] == "multi-label"
    r, numbers = opened(places, "regression")
    values = [(row["text"], row["score"]) for row in rows_of("regression", 200, 1)]
    assert r.score(values).summary["r2"] == pytest.approx(r.score(numbers).summary["r2"], rel=1e-5)


def test_labels_of_files_in_every_form(places: Path, tmp_path: Path) -> None:
    """Lists, texts with separators, numbers of classes and rows of zeros and ones are one set of labels."""
    m, data = opened(places, "multi-label")
    rows, names = rows_of("multi-label", 200, 1), sorted(TOPICS)
    wanted = m.score(data).summary["label_accuracy"]
    forms = {
        "numbers": [[names.index(n) for n in row["labels"]] for row in rows],
        "ones": [[int(n in row["labels"]) for n in names] for row in rows],
        "text": [json.dumps(row["labels"]) for row in rows],
    }
    for name, labels in forms.items():
        table = [{"text": row["text"], "labels": label} for row, label in zip(rows, labels, strict=True)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
        assert m.score(str(path)).summary["label_accuracy"] == pytest.approx(wanted), name


def test_lists_of_labels_choose_the_task_where_the_head_tells_none(places: Path, tmp_path: Path) -> None:
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(places / "multi-label")
    model.config.problem_type = None
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((places / "multi-label/tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_bytes((places / "multi-label/tokenizer_config.json").read_bytes())
    data = str(places / "multi-label/data")
    m = es.open(str(tmp_path))
    assert m.evaluate(data).summary["task"] == "multi-label"
    with pytest.raises(DataError, match=r"holds lists.*\n?.*multi-label"):
        m.evaluate(data, task="classification")


@pytest.mark.parametrize(
    ("task", "table", "told"),
    [
        ("regression", [{"text": "a good tree", "score": "many"}] * 12, "no number"),
        ("multi-label", [{"text": "a tree", "labels": ["rose"]}] * 12, "sets of classes need two"),
        ("token-classification", [{"tokens": ["a", "tree"], "ner_tags": ["O"]}] * 12, "2 words and 1 tags"),
        ("token-classification", [{"tokens": "a tree", "ner_tags": ["O", "O"]}] * 12, "not a list"),
    ],
)
def test_labels_that_are_none_of_the_task(
    places: Path, tmp_path: Path, task: str, table: list[dict[str, Any]], told: str
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    m, _ = opened(places, task)
    with pytest.raises(DataError, match=told):
        m.evaluate(str(path))


def test_what_a_task_does_not_have_is_refused(places: Path) -> None:
    m, data = opened(places, "regression")
    with pytest.raises(PassError, match="no accuracy to keep"):
        m.finetune(data=data, keep="accuracy", max_steps=1)
    with pytest.raises(DataError, match="no single class"):
        m.run("predictions", data=data)


@pytest.mark.parametrize("task", KINDS)
def test_the_data_are_described(places: Path, task: str) -> None:
    m, data = opened(places, task)
    assert m.run("data", data=data).rows
    assert m.run("data_rows", data=data, limit=3).rows


@pytest.mark.parametrize("task", KINDS)
def test_weights_are_pruned_by_gradients_of_the_tasks_loss(places: Path, task: str) -> None:
    """SNIP runs with the loss of the task, whatever the shape of its labels."""
    m, data = opened(places, task)
    kinds = ["linear", *{"segmentation": ["conv2d"], "audio": ["conv1d"]}.get(task, [])]
    m.prune(kinds, sparsity=0.3, method="snip", data=data, limit=32)
    assert m.score(data).summary["sparsity"] == pytest.approx(0.3, abs=0.02)
