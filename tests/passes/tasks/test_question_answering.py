"""Questions with answers in their contexts, held to SQuAD's official formulas and to transformers' loss."""

from __future__ import annotations

import collections
import json
import re
import string
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import espalier as es
from espalier.model.data.base import LoadOptions, TaskData
from espalier.model.data.loading import load_with
from espalier.model.errors import DataError
from espalier.passes.running.holdout import holdout_mask
from espalier.passes.tasks.base import TASKS, task_of
from espalier.passes.tasks.question_answering import MAX_TOKENS, best_span, compared, window_of
from espalier.passes.tasks.tally import Tally
from tests.task_models import rows_of, write_task, write_words

TASK = "question-answering"
CONTEXT = "anna smith went near paris in the old house"


# SQuAD's evaluate-v2.0.py, https://rajpurkar.github.io/SQuAD-explorer/


def normalize_answer(s: str) -> str:
    def remove_articles(text: str) -> str:
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    def remove_punc(text: str) -> str:
        return "".join(ch for ch in text if ch not in set(string.punctuation))

    return " ".join(remove_articles(remove_punc(s.lower())).split())


def compute_f1(a_gold: str, a_pred: str) -> float:
    gold, pred = normalize_answer(a_gold).split(), normalize_answer(a_pred).split()
    same = sum((collections.Counter(gold) & collections.Counter(pred)).values())
    if len(gold) == 0 or len(pred) == 0:
        return int(gold == pred)
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(pred), 1.0 * same / len(gold)
    return (2 * precision * recall) / (precision + recall)


def official(answers: list[str], prediction: str) -> tuple[float, float]:
    """(exact, F1), the best over the answers."""
    gold = [a for a in answers if normalize_answer(a)] or [""]
    return (
        max(int(normalize_answer(a) == normalize_answer(prediction)) for a in gold),
        max(compute_f1(a, prediction) for a in gold),
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_formulas_are_those_of_squad(seed: int) -> None:
    drawn = Random(seed)
    words = ("The", "a", "an", "Paris", "paris,", "U.S.", "’s", "--", "über", "theatre", "42", "(old)", "\u00a0")
    for _ in range(300):
        text, *answers = (" ".join(drawn.choices(words, k=drawn.randint(0, 5))) for _ in range(drawn.randint(1, 4)))
        assert compared(text, answers) == pytest.approx(official(answers, text))


def test_the_best_span_is_that_of_all_spans() -> None:
    rng = np.random.default_rng(0)
    for width in (1, 7, 50):
        scores, spans = rng.normal(size=(2, width)).astype(np.float32), np.zeros((width, 2), np.int64)
        spans[rng.random(width) < 0.3] = -1
        pairs = [
            (float(scores[0, i]) + float(scores[1, j]), i, j)
            for i in range(width)
            for j in range(i, min(width, i + MAX_TOKENS))
            if spans[i, 0] >= 0 and spans[j, 0] >= 0
        ]
        assert best_span(scores, spans) == pytest.approx(max(pairs)) if pairs else best_span(scores, spans)[0] < -1e9


def row(question: str = "near the", context: str = CONTEXT, text: Any = "paris", start: int | None = None) -> Any:
    begin = context.find(str(text)) if start is None else start
    return {"question": question, "context": context, "answers": {"text": [text], "answer_start": [begin]}}


def loaded(folder: Path, rows: list[Any], length: int = 64, name: str = "data.jsonl", **more: Any) -> TaskData:
    write_words(folder)
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    options = LoadOptions(tokenizer=folder, max_length=length, whole=True, task=TASK, form=TASKS[TASK].form, **more)
    return load_with(str(folder / name), options)


def test_windows_hold_the_whole_context_and_the_answer_where_it_is(tmp_path: Path) -> None:
    rows = rows_of(TASK, 60, 3)
    split = loaded(tmp_path, rows, length=24).splits["all"]
    assert split.samples == 60 < len(split) and split.inputs["input_ids"].shape[1] <= 24
    by_context: dict[int, list[Any]] = {}
    for at in split.labels.tolist():
        window = window_of(split.table[at])
        by_context.setdefault(window.question, []).append(window)
    for number, windows in by_context.items():
        context, wanted = rows[number]["context"], rows[number]["answers"]["text"][0]
        assert all(w.text in context for w in windows)
        assert {word for w in windows for word in w.text.split()} == set(context.split())
        found = [w.text[w.spans[w.start, 0] : w.spans[w.end, 1]] for w in windows if w.start != w.first]
        assert found and set(found) == {wanted}
    assert bool((split.inputs["token_type_ids"].max(1) == 1).all())


def test_limits_and_hold_outs_take_whole_questions(tmp_path: Path) -> None:
    rows = rows_of(TASK, 60, 3)
    split = loaded(tmp_path, rows, length=24).splits["all"]
    assert split.take(10).samples == 10 and len(split.take(10)) >= 10
    mask = holdout_mask(split)
    assert split.groups is not None and not set(split.groups[mask]) & set(split.groups[~mask])
    assert len(set(split.groups[mask])) == 6
    limited = loaded(tmp_path, rows, length=24, limit=7).splits["all"]
    assert limited.samples == 7 and task_of(limited).count(_statistics(limited)) == 7


def _statistics(split: Any) -> Any:
    width = split.inputs["input_ids"].shape[1]
    return task_of(split).statistics(torch.randn(len(split), 2, width), torch.from_numpy(split.labels))


def test_unanswerable_questions_as_in_squad_2(tmp_path: Path) -> None:
    """No answer is right where none is wanted, and is given where its score is above that of the best span."""
    none = {"question": "near a", "context": CONTEXT, "answers": {"text": [], "answer_start": []}}
    split = loaded(tmp_path, [row(), none, row(text="anna smith")]).splits["all"]
    task = task_of(split)
    windows = [window_of(split.table[at]) for at in split.labels.tolist()]
    scores = torch.zeros(3, 2, split.inputs["input_ids"].shape[1])
    for at, window in enumerate(windows):
        scores[at, 0, window.start] = scores[at, 1, window.end] = 5.0  # `first` for the one without
    tally = Tally(task)
    tally.add(scores, torch.from_numpy(split.labels))
    assert tally.figures()["exact_match"] == tally.figures()["f1"] == 1
    wrong = next(at for at, w in enumerate(windows) if w.answers)
    scores[wrong, :, windows[wrong].first] = 9.0
    again = Tally(task)
    again.add(scores, torch.from_numpy(split.labels))
    assert again.figures()["exact_match"] == pytest.approx(2 / 3)


def test_the_best_window_of_a_question_answers(tmp_path: Path) -> None:
    context = " ".join(["old"] * 30 + ["paris"] + ["new"] * 30)
    split = loaded(tmp_path, [row(context=context)], length=24).splits["all"]
    windows = [window_of(split.table[at]) for at in split.labels.tolist()]
    scores = torch.zeros(len(split), 2, split.inputs["input_ids"].shape[1])
    right = next(at for at, w in enumerate(windows) if w.start != w.first)
    scores[right, 0, windows[right].start] = scores[right, 1, windows[right].end] = 1.0
    other = next(at for at in range(len(split)) if at != right)
    task, labels = task_of(split), torch.from_numpy(split.labels)
    assert task.more(task.statistics(scores, labels)) == {"f1": 1.0, "exact_match": 1.0}
    scores[other, :, 5] = 2.0
    assert task.more(task.statistics(scores, labels)) == {"f1": 0.0, "exact_match": 0.0}


FORMS: dict[str, Any] = {
    "lists": lambda r: r,
    "text": lambda r: {**r, "answers": r["answers"]["text"][0]},
    "json": lambda r: {**r, "answers": json.dumps(r["answers"])},
    "dicts": lambda r: {**r, "answers": [{k: v[0] for k, v in r["answers"].items()}]},
}  # fmt: skip


def test_every_form_of_answers_gives_the_same(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = [row(), row("saw the", text="anna smith"), row(text="paris")]
    wanted = loaded(tmp_path, rows).splits["all"].table
    for name, form in FORMS.items():
        found = loaded(tmp_path, [form(r) for r in rows], name=f"{name}.jsonl").splits["all"].table
        assert found == wanted, name
    nested = {"version": "1.1", "data": [{"title": "t", "paragraphs": [
        {"context": CONTEXT, "qas": [{"id": "1", "question": r["question"], "answers": FORMS["dicts"](r)["answers"]}
                                     for r in rows]}]}]}  # fmt: skip
    (tmp_path / "squad.json").write_text(json.dumps(nested))
    pandas.DataFrame(rows).to_parquet(tmp_path / "squad.parquet")
    options = LoadOptions(tokenizer=tmp_path, max_length=64, whole=True, task=TASK, form=TASKS[TASK].form)
    for name in ("squad.json", "squad.parquet"):
        assert load_with(str(tmp_path / name), options).splits["all"].table == wanted, name
        assert load_with(str(tmp_path / name), options).splits["all"].table == wanted, name  # from the cache


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(start=3)], "not in its context at character 3"),
        ([row(text="berlin")], "'berlin' of row 1"),
        ([row(), {**row(), "answers": {"text": [""], "answer_start": [0]}}], "Row 2 .* empty answer"),
        ([{**row(), "answers": None}], "no answers"),
        ([{**row(), "answers": {"text": ["paris"], "answer_start": [21, 3]}}], "1 answers and 2 places"),
        ([{**row(), "answers": {"span": 3}}], "no entry text"),
        ([{**row(), "question": " "}], "no text in question"),
        ([{"ask": "near", "context": CONTEXT, "answers": "paris"}], "no column of questions"),
        ([{"text": "a tree", "label": "good"}], "no column of questions"),
        ([row(question="near " * 60)], "60 tokens: windows of 64 tokens have no room"),
    ],
)
def test_data_that_are_none(tmp_path: Path, rows: list[Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        loaded(tmp_path, rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    write_task(folder, TASK, count=200, steps=60)
    return folder


@pytest.mark.slow
def test_loss_and_metrics_are_those_of_transformers_and_squad(place: Path) -> None:
    """Whole chain: the loss of the model's own head on the same windows, and answers by the official formulas."""
    import transformers

    m = es.open(str(place))
    report = m.score(str(place / "data"), batch_size=1)  # without padding
    rows = [json.loads(line) for line in (place / "data/test.jsonl").read_text().splitlines()]
    data = loaded(place, rows)
    split = data.splits["all"]
    own = transformers.AutoModelForQuestionAnswering.from_pretrained(place).eval()
    best: dict[int, tuple[float, str]] = {}
    losses = []
    for at in range(len(split)):
        mask = split.inputs["attention_mask"][at] != 0
        inputs = {k: torch.from_numpy(v[at][mask])[None] for k, v in split.inputs.items()}
        w = window_of(split.table[int(split.labels[at])])
        with torch.no_grad():
            out = own(**inputs, start_positions=torch.tensor([w.start]), end_positions=torch.tensor([w.end]))
        losses.append(float(out.loss))
        score, start, end = best_span(torch.stack([out.start_logits[0], out.end_logits[0]]).numpy(), w.spans)
        text = w.text[w.spans[start, 0] : w.spans[end, 1]]
        best[w.question] = max(best.get(w.question, (-1e9, "")), (score, text))
    by_question = {window_of(split.table[int(at)]).question: window_of(split.table[int(at)]) for at in split.labels}
    values = [official(list(w.answers), best[q][1]) for q, w in by_question.items()]
    exact, f1 = np.mean(values, 0)
    assert report.n == len(rows) == len(values)
    assert report.exact_match == pytest.approx(exact) and report.f1 == pytest.approx(f1)
    assert report.loss == pytest.approx(np.mean(losses), rel=1e-4)
    batch = split.take(4)
    inputs = {k: torch.from_numpy(v) for k, v in batch.inputs.items()}
    ends = [window_of(split.table[int(at)]) for at in batch.labels]
    wanted = own(**inputs, start_positions=torch.tensor([w.start for w in ends]),
                 end_positions=torch.tensor([w.end for w in ends]))  # fmt: skip
    scores = torch.stack([wanted.start_logits, wanted.end_logits], 1)
    assert task_of(batch).loss(scores, torch.from_numpy(batch.labels)).item() == pytest.approx(wanted.loss.item())
    low, high = report.interval
    assert low <= report.f1 <= high and report.guessing < report.f1
    n = es.open(str(place)).quantize("linear", weight="integer(width=2)")
    change = n.score(str(place / "data"))
    assert change.f1_change < 0 and change.within_noise is False


@pytest.mark.slow
def test_a_function_on_questions(place: Path) -> None:
    """The loss of one end alone, from Python; the metrics remain."""
    m, data = es.open(str(place)), str(place / "data")

    def first_ends(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return outputs[:, 0].logsumexp(-1).mean()

    before = m.score(data, loss=first_ends)
    m.finetune(data=data, loss=first_ends, max_steps=5, learning_rate=1e-2, keep="last")
    after = m.score(data, loss=first_ends)
    assert after.loss < before.loss and before.f1 == m.undo().score(data).f1


def test_a_stored_split_keeps_its_table(tmp_path: Path) -> None:
    split = loaded(tmp_path, [row(), row(text="anna smith")]).splits["all"]
    part = replace(split).rows(np.array([1]))
    assert part.table == split.table and part.groups is not None and len(part.groups) == 1
