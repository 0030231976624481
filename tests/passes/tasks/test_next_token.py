"""Language models: scored, trained and searched on the next token, as transformers' own models compute it."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import espalier as es
from espalier.model.data.base import Split, task_of_labels
from espalier.model.data.tokens import open_stream
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.baseline import ComparedOptions
from espalier.passes.base import Context, run_step
from espalier.passes.running import batches
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.tasks.base import TASKS
from espalier.passes.tasks.next_token import NextToken
from espalier.passes.training.options import FinetuneOptions
from espalier.passes.training.run import watch_of
from espalier.passes.transform.finetune import _unhelped
from tests.language_models import VOCABULARY, text_of, write_model

WIDTH = 32
OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding({size}, 16), nn.Embedding(48, 16)
        self.mix, self.head = nn.Linear(16, 16), nn.Linear(16, {size})

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        before = torch.tril(torch.ones(idx.shape[1], idx.shape[1]))
        return self.head(torch.tanh(self.mix(before @ x / before.sum(-1, keepdim=True))))

def make():
    torch.manual_seed(1)
    return Net(), torch.zeros(2, 8, dtype=torch.long)
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models, and a text."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("llama", "gpt2", "bert"):
        write_model(folder / kind, kind)
    (folder / "book.txt").write_text(text_of(1500))
    return folder


def data(places: Path, **more: Any) -> dict[str, Any]:
    return {"data": str(places / "book.txt"), "max_length": WIDTH, **more}


def by_hand(places: Path, kind: str) -> tuple[float, float, float, float]:
    """(accuracy, loss, perplexity, bits per byte) by transformers alone."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(places / kind).eval()
    text = (places / "book.txt").read_text()
    ids, ends = open_stream(places / kind)(text)
    count = (len(ids) - 1) // WIDTH
    right, lost = 0, 0.0
    with torch.no_grad():
        for at in range(count):
            window = torch.from_numpy(ids[at * WIDTH : (at + 1) * WIDTH + 1])
            logits = model(input_ids=window[None, :-1]).logits[0]
            right += int((logits.argmax(-1) == window[1:]).sum())
            lost += float(F.cross_entropy(logits, window[1:], reduction="sum"))
    n = count * WIDTH
    size = len(text[int(ends[0]) : int(ends[n])].encode())
    return right / n, lost / n, math.exp(lost / n), lost / math.log(2) / size


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_score_is_that_of_transformers(places: Path, kind: str) -> None:
    found = es.open(str(places / kind)).evaluate(**data(places)).summary
    accuracy, loss, perplexity, bits = by_hand(places, kind)
    right = round(found["accuracy"] * found["n"]), round(accuracy * found["n"])
    assert abs(right[0] - right[1]) <= 1 and right[1] > 0, "one token at a border of rounding"
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    assert found["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(bits, rel=1e-5)
    assert found["unit"] == "tokens" and found["n"] == found["windows"] * WIDTH and found["window"] == WIDTH
    ids, _ = open_stream(places / kind)((places / "book.txt").read_text())
    labels = ids[1 : found["n"] + 1]
    assert found["guessing"] == pytest.approx(np.bincount(labels).max() / len(labels))


def test_figures_of_no_data() -> None:
    nothing = Split({"input_ids": np.zeros((0, 4), np.int64)}, np.zeros((0, 4), np.int64))
    assert NextToken().facts({"loss": 1e6}, nothing) == {"perplexity": math.exp(700)}


def test_a_network_that_returns_a_tensor(places: Path, tmp_path: Path) -> None:
    """Its scores are known by their width, and its divergence is that of distributions."""
    (tmp_path / "net.py").write_text(OWN.format(size=310))
    m = es.open(f"{tmp_path / 'net.py'}:make")
    options = data(places, tokenizer=str(places / "llama"))
    before = m.evaluate(**options).summary
    m.quantize("linear", weight="integer(width=3)")
    after = m.evaluate(**options).summary
    assert before["unit"] == "tokens" and after["loss"] != before["loss"]
    found = m.run("divergence", **options).summary
    assert 0 < found["kl"] < 1 and found["n"] == before["n"] and found["accuracy"] == after["accuracy"]


@pytest.mark.slow
def test_a_model_that_sees_later_tokens_is_refused(places: Path) -> None:
    with pytest.raises(DataError, match="depend on later tokens"):
        es.open(str(places / "bert")).evaluate(**data(places, task="next-token"))
    with pytest.raises(DataError, match="no mask token"):
        es.open(str(places / "bert")).evaluate(**data(places))


@pytest.mark.slow
def test_data_of_another_task(places: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "\n".join(f"{text_of(9, at)},{at % 2}" for at in range(30)))
    with pytest.raises(DataError, match="rows of scores"):
        es.open(str(places / "llama")).evaluate(data=str(rows), task="classification")
    with pytest.raises(DataError, match="rows of scores"):
        es.open("demo:reviews").evaluate(**data(places, task="next-token"))
    with pytest.raises(DataError, match="no classes"):
        es.open(str(places / "llama")).run("predictions", **data(places))


@pytest.mark.slow
@pytest.mark.parametrize("act", ["train", "search", "generate"])
def test_a_model_that_sees_later_tokens_is_refused_everywhere(places: Path, act: str) -> None:
    m = es.open(str(places / "bert"))
    project = m.project
    with pytest.raises(DataError, match="depend on later tokens"):
        if act == "train":
            m.finetune(**data(places, task="next-token"), max_steps=1)
        elif act == "generate":
            m.run("generate", prompt=text_of(5))
        else:
            context = Context(m._place.opened.store, reading=project.source.reading)
            Evaluator(project.base, EvaluateOptions(**data(places, task="next-token")), context, ())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["binary(stochastic=true)", "block_fp(width=4, block=16, rows=16)"])
def test_formats_that_draw_or_share_scales_make_no_model_look_ahead(places: Path, form: str) -> None:
    m = es.open(str(places / "llama"))
    m.quantize("linear", data_in=form)
    assert m.evaluate(**data(places), limit=4).summary["windows"] == 4


@pytest.mark.slow
def test_quantization_counts_tokens(places: Path) -> None:
    m = es.open(str(places / "gpt2"))
    m.quantize("linear", weight="integer(width=3)")
    found, score = m.run("quantization", **data(places)).summary, m.evaluate(**data(places)).summary
    assert 0 < found["agreement"] < 1
    assert found["loss_of_samples"] == pytest.approx(score["loss"], abs=1e-5)
    assert found["accuracy_of_samples"] == score["accuracy"]


@pytest.mark.slow
def test_batches_are_cut_to_the_scores_that_fit(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = es.open(str(places / "llama"))
    wanted = m.evaluate(**data(places)).summary["loss"]
    monkeypatch.setattr(batches, "MAX_SCORES", 3 * 4 * WIDTH * (VOCABULARY + 5))
    sizes = list[int]()
    real = batches.cast_inputs
    monkeypatch.setattr(batches, "cast_inputs", lambda t, g: sizes.append(len(next(iter(t.values())))) or real(t, g))
    assert m.evaluate(**data(places)).summary["loss"] == pytest.approx(wanted, abs=1e-6)
    assert max(sizes) == 3


def test_hidden_states_are_no_scores_of_tokens(tmp_path: Path) -> None:
    """A headless encoder may be wider than a small vocabulary."""
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef make():\n"
        "    net = nn.Sequential(nn.Embedding(30, 64), nn.Linear(64, 64), nn.LayerNorm(64))\n"
        "    return net, torch.zeros(2, 8, dtype=torch.long)\n"
    )
    m = es.open(f"{tmp_path / 'net.py'}:make")
    assert m.project.source.limits is not None and m.project.source.limits.task == ""


@pytest.mark.slow
def test_a_training_lowers_the_loss(places: Path) -> None:
    m = es.open(str(places / "llama"))
    m.quantize("linear", weight="mxint8")
    before = m.evaluate(**data(places)).summary
    m.finetune(**data(places), max_steps=30, batch_size=8, learning_rate=0.01)
    after = m.evaluate(**data(places)).summary
    assert after["loss"] < before["loss"] - 0.5 and after["accuracy"] > before["accuracy"]


@pytest.mark.slow
def test_distillation_takes_scores_of_tokens(places: Path) -> None:
    m = es.open(str(places / "llama"))
    m.quantize("linear", weight="integer(width=2)")
    before = m.run("divergence", **data(places)).summary["kl"]
    m.finetune(**data(places), max_steps=20, batch_size=8, learning_rate=3e-4, distil=1.0, keep="last")
    assert m.run("divergence", **data(places)).summary["kl"] < before


@pytest.mark.slow
def test_a_search_measures_what_an_evaluation_measures(places: Path, tmp_path: Path) -> None:
    m = es.open(str(places / "gpt2"))
    m.quantize("linear", weight="mxint4")
    wanted = m.evaluate(**data(places)).summary
    project = m.project
    context = Context(m._place.opened.store, reading=project.source.reading)
    evaluator = Evaluator(project.base, EvaluateOptions(**data(places)), context, ())
    found = evaluator.measure(m.graph, kl=True)
    assert evaluator.total == wanted["windows"] and evaluator.noise["n"] == wanted["n"]
    assert found["loss"] == pytest.approx(wanted["loss"], abs=1e-6) and found["kl"] > 0
    assert found["accuracy"] == wanted["accuracy"]


@pytest.mark.slow
def test_a_comparison_with_the_baseline_is_paired_by_token(places: Path) -> None:
    m = es.open(str(places / "llama"))
    before = m.evaluate(**data(places)).summary
    m.quantize("linear", weight="integer(width=2)")
    project = m.project
    context = Context(m._place.opened.store, reading=project.source.reading, base=project.base)
    found = run_step(project.graph, Step("evaluate", ComparedOptions(**data(places))), context).report.summary
    assert found["baseline_accuracy"] == before["accuracy"] and found["change"]["accuracy"]["test"] == "McNemar"
    assert found["kl"] == pytest.approx(m.run("divergence", **data(places)).summary["kl"], rel=1e-6) and found["kl"] > 0


@pytest.mark.slow
def test_data_of_a_program(places: Path) -> None:
    m = es.open(str(places / "llama"))
    text = (places / "book.txt").read_text()
    wanted = m.evaluate(**data(places)).summary["loss"]
    assert m.evaluate([text], max_length=WIDTH).summary["loss"] == pytest.approx(wanted)
    ids, _ = open_stream(places / "llama")(text)
    count = (len(ids) - 1) // WIDTH
    x, y = ids[: count * WIDTH].reshape(count, WIDTH), ids[1 : count * WIDTH + 1].reshape(count, WIDTH)
    found = m.evaluate((x, y)).summary
    assert found["loss"] == pytest.approx(wanted) and "bits_per_byte" not in found
    labelled = [(text, 1)], [{"text": text, "label": 0}]  # labels are of no use to a language model
    for given in labelled:
        assert m.evaluate(given, max_length=WIDTH).summary["loss"] == pytest.approx(wanted)
    halves = {"train": [text[:3000]], "validation": [text[3000:6000]]}
    trained = m.finetune(data=halves, max_length=WIDTH, max_steps=2, batch_size=2)
    assert trained.evaluate([text], max_length=WIDTH).summary["loss"] != wanted


@pytest.mark.slow
def test_data_are_described_by_windows(places: Path) -> None:
    m = es.open(str(places / "llama"))
    report = m.run("data", **data(places))
    assert report.summary["task"] == "next-token" and report.summary["window"] == WIDTH
    assert [row["split"] for row in report.rows] == ["train", "validation", "test"]
    page = m.run("data_rows", **data(places), limit=2)
    assert len(page.rows) == 2 and all(row["text"] for row in page.rows)


@pytest.mark.slow
def test_ranks_compute_what_one_process_computes(places: Path) -> None:
    m = es.open(str(places / "llama"))
    found = m.shard_run(mesh="1x2", strategy="megatron", **data(places), limit=4)
    difference = found.summary["difference"]
    assert difference["outputs"]["relative"] <= 1e-5 and difference["gradients"]["relative"] <= 1e-5
    assert difference["gradients"]["worst"], "the loss of tokens has gradients"


@pytest.mark.slow
def test_ranks_train_as_one_process(places: Path) -> None:
    losses = list[float]()
    for distributed in (False, True):
        m = es.open(str(places / "llama"))
        m.shard(mesh="1x2", strategy="megatron")
        m.finetune(
            **data(places), max_steps=4, batch_size=4, optimiser="sgd", learning_rate=0.1, distributed=distributed
        )
        losses.append(m.evaluate(**data(places)).summary["loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.slow
def test_labels_of_a_program_that_are_no_next_tokens(places: Path) -> None:
    m = es.open(str(places / "llama"))
    x = np.arange(64).reshape(2, 32)
    with pytest.raises(DataError, match="tokens themselves"):
        m.evaluate((x, x))
    with pytest.raises(DataError, match="have no label"):
        m.evaluate((x, np.where(x % 5 == 0, -100, x)))


@pytest.mark.slow
def test_tokens_without_labels_calibrate(places: Path) -> None:
    m = es.open(str(places / "llama"))
    x = np.arange(384).reshape(12, 32) % 256
    m.quantize("linear", weight="int4", data_in="int8").calibrate(data={"input_ids": x, "attention_mask": x * 0 + 1})
    with pytest.raises(DataError, match="no labels"):
        m.evaluate({"input_ids": x, "attention_mask": x * 0 + 1})


def test_an_unhelpful_training_names_the_loss() -> None:
    rows = [{"step": 0, "validation_loss": 6.4}, {"step": 5, "validation_loss": 6.19}]
    watch: Any = SimpleNamespace(steps=5, rows=rows, best="accuracy")
    assert "fell from 6.4 to 6.19 at step 5" in _unhelped(watch)
    rows[1]["validation_loss"] = 7.0
    assert "fell" not in _unhelped(watch)


@pytest.mark.parametrize(("shape", "keep", "best"), [
    ((4, 8), "auto", "loss"), ((4,), "auto", "accuracy"), ((4, 8), "accuracy", "accuracy"), ((4,), "last", "last"),
])  # fmt: skip
def test_the_best_weights_are_those_of_the_tasks_figure(
    shape: tuple[int, ...], keep: Any, best: str, tmp_path: Path
) -> None:
    labels = torch.zeros(shape, dtype=torch.long)
    samples: Any = SimpleNamespace(tensors={"labels": labels}, task=TASKS.get(task_of_labels(labels)))
    watch = watch_of(samples, None, FinetuneOptions(data="d", keep=keep), Context(WeightStore(tmp_path)), {})
    assert watch.best == best
