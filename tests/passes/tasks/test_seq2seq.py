"""Encoder–decoder models on sources with targets, held to transformers' own shift and loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import espalier as es
from espalier.app.cli import main
from espalier.model.data.base import IGNORED, LoadOptions
from espalier.model.data.loading import load_with
from espalier.model.data.text_pairs import LAST, decoder_inputs
from espalier.model.errors import DataError, GraphError
from espalier.model.sources.limits import start_of
from espalier.model.sources.source import load_source
from espalier.passes.running.holdout import holdout_mask
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.tasks.base import TASKS
from tests.resumed_training import resumed
from tests.seq2seq_models import batch_of, model_of, pairs, write_seq2seq, write_tokenizer

KINDS = ("t5", "bart", "mbart")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each kind, trained a little, with data."""
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        (folder / kind).mkdir()
        write_seq2seq(folder / kind, 60, 8, kind=kind)
    return folder


def loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    import transformers

    return (transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / kind).eval(),
            transformers.AutoTokenizer.from_pretrained(folder / kind))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_targets_are_shifted_as_transformers_does(kind: str) -> None:
    """T5 and BART start with a token of their configuration, mBART with the target's own last token."""
    torch.manual_seed(0)
    labels = torch.randint(4, 19, (6, 9))
    for row, length in enumerate((9, 1, 4, 8, 2, 6)):
        labels[row, length:] = IGNORED
    wanted = model_of(kind, 19).prepare_decoder_input_ids_from_labels(labels=labels.clone())
    start = {"t5": 0, "bart": 2, "mbart": LAST}[kind]
    found = decoder_inputs(labels.numpy(), start, 0)
    seen = labels.numpy() != IGNORED
    np.testing.assert_array_equal(found["decoder_input_ids"][seen], wanted.numpy()[seen])
    np.testing.assert_array_equal(found["decoder_attention_mask"], seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_transformers(places: Path, kind: str) -> None:
    """On all pairs at once, by the model's own shift, and with the share of right tokens and the perplexity."""
    model, tokenizer = loaded(places, kind)
    batch = batch_of(pairs(200, 1), tokenizer)
    with torch.no_grad():
        result = model(**batch)
    summary = es.open(str(places / kind)).evaluate(str(places / kind / "data"), batch_size=17).summary
    seen = batch["labels"] != IGNORED
    right = (result.logits.argmax(-1) == batch["labels"])[seen].float()
    assert summary["loss"] == pytest.approx(float(result.loss), rel=1e-5)
    assert summary["accuracy"] == pytest.approx(float(right.mean()), abs=1e-6)
    assert summary["perplexity"] == pytest.approx(float(result.loss.exp()), rel=1e-5)
    assert (summary["task"], summary["n"], summary["targets"]) == ("seq2seq", int(seen.sum()), 200)
    counts = np.bincount(batch["labels"][seen].numpy())
    assert summary["guessing"] == pytest.approx(counts.max() / counts.sum())


@pytest.mark.slow
def test_a_configuration_is_opened_with_that_head(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path)
    rows = pairs(40)
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = f"vocab_size={len(tokenizer)}&d_model=16&d_kv=8&d_ff=16&num_layers=1&num_heads=2&decoder_start_token_id=0"
    m = es.open(f"config:t5?{sizes}&task=seq2seq-lm")
    summary = m.evaluate(str(tmp_path / "d.jsonl"), tokenizer=str(tmp_path)).summary
    assert summary["task"] == "seq2seq" and summary["targets"] == 40
    assert 0.5 < summary["loss"] / np.log(len(tokenizer)) < 4


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "json", "parquet", "columns", "summary"])
def test_files_of_every_form(places: Path, tmp_path: Path, form: str) -> None:
    """Other names of columns are said; --text and --label choose."""
    import pandas

    names = {"columns": ("a", "b"), "summary": ("text", "summary")}.get(form, ("source", "target"))
    table = pandas.DataFrame([(row["source"], row["target"]) for row in pairs(200, 1)], columns=list(names))
    path = tmp_path / f"d.{form if form in ('csv', 'json', 'parquet') else 'jsonl'}"
    if form == "csv":
        table.to_csv(path, index=False)
    elif form == "parquet":
        table.to_parquet(path)
    else:
        table.to_json(path, orient="records", lines=path.suffix == ".jsonl")
    m = es.open(str(places / "bart"))
    chosen = {"text": "a", "label": "b"} if form == "columns" else {}
    wanted = m.evaluate(str(places / "bart/data")).summary
    for _ in range(2):  # the second time from the cache
        found = m.evaluate(str(path), **chosen).summary
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
        assert ("'text' of d.jsonl, targets 'summary'" in found.get("warning", "")) == (form == "summary")


@pytest.mark.slow
def test_data_of_a_program(places: Path) -> None:
    """Pairs, dicts, two lists, and arrays with labels as data sets of the hub have them."""
    model, tokenizer = loaded(places, "bart")
    rows = pairs(200, 1)
    batch = batch_of(rows, tokenizer)
    m = es.open(str(places / "bart"))
    wanted = m.evaluate(str(places / "bart/data")).summary["loss"]
    listed = [(row["source"], row["target"]) for row in rows]
    arrays = {name: value.numpy() for name, value in batch.items()}
    given = {**arrays, "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(batch["labels"]).numpy()}
    for data in (listed, rows, tuple(map(list, zip(*listed, strict=True))), arrays, given, {"test": listed}):
        assert m.evaluate(data).summary["loss"] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_divergences_are_of_the_targets_tokens(places: Path) -> None:
    """Without the padding of targets, also where sources have as many tokens; by torch's distributions."""
    m, n = (es.open(str(places / "bart")) for _ in range(2))
    n.quantize("linear", weight="integer(width=4)")
    data, found = str(places / "bart/data"), dict[str, torch.Tensor]()
    _, tokenizer = loaded(places, "bart")
    batch = batch_of(pairs(200, 1), tokenizer)
    labels = batch["labels"]
    assert labels.shape == batch["input_ids"].shape
    arrays = {name: value.numpy() for name, value in batch.items()}
    for name, model in (("before", m), ("after", n)):
        model.evaluate(arrays, metric=lambda out, _, name=name: found.setdefault(name, out.double()).sum().item())
    p, q = (torch.distributions.Categorical(logits=found[k].reshape(*labels.shape, -1)) for k in ("before", "after"))
    lost, seen = torch.distributions.kl_divergence(p, q), labels != IGNORED
    wanted = float(((lost * seen).sum(1) / seen.sum(1)).mean())
    assert n.run("divergence", data=data).summary["kl"] == pytest.approx(wanted, rel=1e-3)
    searched = Evaluator(m._graph, EvaluateOptions(data), m._target().context, ()).measure(n._graph, kl=True)
    assert searched["kl"] == pytest.approx(wanted, rel=1e-3)


@pytest.mark.slow
def test_batches_by_length_give_the_scores_of_one_batch(places: Path) -> None:
    m = es.open(str(places / "t5"))
    data = str(places / "t5/data")
    one, many = (m.evaluate(data, batch_size=size).summary for size in (200, 3))
    assert many["loss"] == pytest.approx(one["loss"], rel=1e-5) and many["hits"] == one["hits"]


def test_equal_sources_are_held_out_together(places: Path, tmp_path: Path) -> None:
    rows = [{**row, "target": target} for row in pairs(30) for target in ("ein", "zwei drei")]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = load_with(str(tmp_path), LoadOptions(tokenizer=str(places / "t5"), task="seq2seq", start=0,
                                                form=TASKS.get("seq2seq").form))  # fmt: skip
    train = data.splits["train"]
    sides: dict[bytes, set[bool]] = {}
    for ids, held in zip(train.inputs["input_ids"], holdout_mask(train), strict=True):
        sides.setdefault(ids.tobytes(), set()).add(bool(held))
    assert all(len(side) == 1 for side in sides.values()) and any(True in side for side in sides.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "told"),
    [
        ([{"source": "one", "target": ""}] * 12, "12 of 12 rows of d.jsonl have no label"),
        ([{"source": "one", "target": ["ein"]}] * 12, "not a text"),
        ([{"source": "one", "other": "ein"}] * 12, "No column of d.jsonl looks like the label"),
        ([{"source": None, "target": "ein"}] * 12, "have no text"),
    ],
)
def test_files_that_are_no_pairs(places: Path, tmp_path: Path, table: list[dict[str, Any]], told: str) -> None:
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    m = es.open(str(places / "t5"))
    with pytest.raises(DataError, match=told):
        m.evaluate(str(tmp_path / "d.jsonl"))


@pytest.mark.slow
def test_truncated_targets_are_said(places: Path) -> None:
    summary = es.open(str(places / "bart")).evaluate(str(places / "bart/data"), max_length=5).summary
    assert "targets are truncated to 5 tokens" in summary["warning"] and summary["longest_target"] == 5


@pytest.mark.slow
def test_other_models_and_tokenizers(places: Path, tmp_path: Path) -> None:
    m, data = es.open(str(places / "t5")), str(places / "t5/data")
    with pytest.raises((DataError, GraphError)):
        es.open("demo:reviews").evaluate(data, task="seq2seq")
    sizes = "vocab_size=9&d_model=16&d_kv=8&d_ff=16&num_layers=1&num_heads=2&decoder_start_token_id=0"
    small = es.open(f"config:t5?{sizes}&task=seq2seq-lm")
    with pytest.raises(DataError, match=r"token ids up to|vocabulary has 9"):
        small.evaluate(data, tokenizer=str(places / "t5"))
    ids = np.full((4, 5), 7)
    assert m.evaluate({"input_ids": ids, "attention_mask": ids * 0 + 1, "labels": ids}).summary["n"] == 20
    with pytest.raises(DataError, match="with which token the model's decoder starts"):
        decoder_inputs(ids, None, 0)


@pytest.mark.parametrize(("more", "start"), [("", 5), ("&decoder_start_token_id=3", 3)])
def test_a_configuration_without_a_start_takes_the_padding(more: str, start: int) -> None:
    sizes = "vocab_size=9&d_model=16&d_kv=8&d_ff=16&num_layers=1&num_heads=2&pad_token_id=5"
    loaded = load_source(f"config:t5?{sizes}&task=seq2seq-lm{more}")
    assert start_of(loaded.model) == start and bool(loaded.notes) == (not more)


@pytest.mark.slow
def test_training_is_that_of_transformers(places: Path) -> None:
    """One step of SGD on one batch gives the weights of torch's own step on transformers' loss."""
    model, tokenizer = loaded(places, "bart")
    rows = pairs(20, 5)
    m = es.open(str(places / "bart"))
    listed = [(row["source"], row["target"]) for row in rows]
    plain = {"momentum": 0.0, "schedule": "constant", "warm_up": 0, "weight_decay": 0.0, "clip": 0.0, "keep": "last"}
    data = {"train": listed, "validation": listed[:2]}
    m.finetune(data=data, max_steps=1, batch_size=20, learning_rate=0.5, optimiser="sgd", **plain)
    model(**batch_of(rows, tokenizer)).loss.backward()
    with torch.no_grad():
        for value in model.parameters():
            if value.grad is not None:
                value -= 0.5 * value.grad
        wanted = float(model.eval()(**batch_of(pairs(200, 1), tokenizer)).loss)
    assert m.evaluate(str(places / "bart/data")).summary["loss"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.slow
def test_training_resumes_to_equal_weights(places: Path) -> None:
    """Distilled, so that the teacher's scores of the targets are kept or computed again."""
    whole, again = resumed(lambda: es.open(str(places / "t5")), str(places / "t5/data"), distil=0.5)
    assert whole == again and whole["validation_perplexity"] is not None


@pytest.mark.slow
def test_the_command_line(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, data = str(places / "t5"), str(places / "t5/data")
    assert main(["evaluate", source, "--data", data, "--task", "seq2seq", "--json"]) == 0
    assert "perplexity" in json.dumps(json.loads(capsys.readouterr().out))
    assert main(["evaluate", source, "--data", data, "--task", "classification"]) == 2


def test_ignored_positions_do_not_count() -> None:
    task = TASKS.get("seq2seq")
    torch.manual_seed(0)
    scores, labels = torch.randn(3, 4, 11), torch.randint(0, 11, (3, 4))
    labels[0, 2:], labels[2, 1:] = IGNORED, IGNORED
    figures = task.figures(task.statistics(scores.flatten(0, 1), labels).sum(0))
    assert figures["loss"] == pytest.approx(float(F.cross_entropy(scores.flatten(0, 1), labels.flatten())), rel=1e-6)
    assert task.hides(torch.full((2, 3), IGNORED).numpy()) and not task.hides(labels.numpy())
