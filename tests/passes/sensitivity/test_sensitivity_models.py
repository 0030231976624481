"""Sensitivities of models of every kind: half precision, adapters, pruned ones, recorded ones, single outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.data.base import Split
from espalier.model.errors import PassError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.trust import Origin
from espalier.passes.analysis.sensitivity import SensitivityOptions, sensitivity
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import load_recipe
from espalier.passes.select import Select
from espalier.passes.sensitivity.correction import spearman
from espalier.passes.sensitivity.table import Predictions, Sensitivity

FACTORY = """
import torch
from transformers import BertConfig, BertForSequenceClassification
def make(labels={labels}):
    torch.manual_seed(0)
    config = BertConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, num_labels=labels, initializer_range=0.3)
    model = BertForSequenceClassification(config).eval().to(torch.{dtype})
    ids = torch.randint(0, 60, (2, 6))
    return model, {{"input_ids": ids, "attention_mask": torch.ones_like(ids)}}
"""
FORMATS = tuple(parse_format(f"integer(width={w})") for w in (6, 4))
LINEARS = Select("type", ("linear",))


@dataclass
class Held:
    """A model, as it is and as it was opened."""

    graph: Graph
    context: Context


def opened(folder: Path, labels: int = 3, dtype: str = "float32", suffix: str = "py") -> Held:
    path = folder / "net.py"
    path.write_text(FACTORY.format(labels=labels, dtype=dtype))
    source = f"{path}:make"
    if suffix == "pt2":
        space: dict[str, Any] = {}
        exec(path.read_text(), space)
        model, example = space["make"]()
        sizes = {0: torch.export.Dim("batch", min=1, max=64)}
        shapes = {k: sizes for k in example}
        torch.export.save(torch.export.export(model, (), example, dynamic_shapes=shapes), folder / "net.pt2")
        source = str(folder / "net.pt2")
    made = open_source(source, folder / "work", origin=Origin.TYPED)
    base = made.project.base
    return Held(base, Context(made.store, base=base, callables=getattr(made, "callables", {}) or {}))


def with_step(held: Held, name: str, **options: Any) -> Held:
    step = load_recipe({"steps": [{"pass": name, "options": options}]}).steps[0]
    return Held(run_step(held.graph, step, held.context).graph, held.context)


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Random tokens in the place of data."""
    random = np.random.default_rng(0)
    ids = random.integers(0, 60, (64, 6))
    split = Split({"input_ids": ids, "attention_mask": np.ones_like(ids)}, random.integers(0, 1, 64))
    monkeypatch.setattr("espalier.passes.running.splits.load_split", lambda options, context: split)
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    yield


def found(held: Held, **options: Any) -> tuple[Report, list[Sensitivity]]:
    """What the pass finds, with its true divergences."""
    parts: dict[tuple[str, str], Sensitivity] = {}

    def hear(part: Any) -> None:
        if not isinstance(part, Predictions):
            parts[part.node, part.port] = part

    ports = ("weight", "data_in")
    wish = {"limit": 32, "formats": FORMATS, "ports": ports, "select": LINEARS, "exact": True, **options}
    context = replace(held.context, found=hear)
    report = sensitivity(held.graph, SensitivityOptions(data="made here", **wish), context)[1]
    return report, list(parts.values())


def judge(report: Report, rows: list[Sensitivity], least: float = 1e-7) -> None:
    """Predictions rank as the truth does, and most are near it."""
    pairs = [(p, m) for r in rows for p, m in zip(r.predicted, r.measured, strict=True) if m is not None and m > least]
    agree = spearman([p for p, _ in pairs], [m for _, m in pairs])
    assert len(pairs) > 10 and agree is not None and agree > 0.85, (len(pairs), agree)
    assert float(np.median([abs(math.log2(p / m)) for p, m in pairs])) < 1
    assert report.summary["configurations"] == 8 and report.summary["configuration_factor"] < 4
    assert report.summary["measured"] == sum(len(r.candidates) for r in rows)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_half_precision(dtype: str, tmp_path: Path) -> None:
    held = opened(tmp_path, dtype=dtype)
    assert {w.dtype for w in held.graph.weights.values() if w.role == "parameter"} == {dtype}
    judge(*found(held), least=1e-4 if dtype == "bfloat16" else 1e-6)  # below, the model's own rounding stands


@pytest.mark.slow
def test_adapters_count(tmp_path: Path) -> None:
    held = with_step(opened(tmp_path), "lora", rank=2)
    random = np.random.default_rng(1)
    weights = dict(held.graph.weights)
    for name, weight in weights.items():
        if "lora" in name.lower() or "adapter" in name.lower():
            was = to_torch(held.context.store.get(weight.key or ""))
            made = torch.from_numpy(0.2 * random.normal(size=tuple(was.shape))).to(was.dtype)
            weights[name] = replace(weight, key=held.context.store.hold(to_numpy(made)))
    assert weights != held.graph.weights
    report, rows = found(Held(held.graph.with_weights(weights), held.context))
    judge(report, rows)
    assert report.summary["baseline"] == "present weights in float"


@pytest.mark.slow
def test_pruned_models(tmp_path: Path) -> None:
    masked = with_step(opened(tmp_path), "prune", sparsity=0.5)
    report, rows = found(masked)
    judge(report, rows)
    assert report.summary["baseline"] == "opened", "masks are choices"
    random = np.random.default_rng(2)
    weights = dict(masked.graph.weights)
    for name, weight in weights.items():  # as after a training under the masks, which then stay
        was = to_torch(masked.context.store.get(weight.key or ""))
        if was.is_floating_point():
            moved = was * torch.from_numpy(1 + 0.1 * random.normal(size=tuple(was.shape))).to(was.dtype)
            weights[name] = replace(weight, key=masked.context.store.hold(to_numpy(moved)))
    report, rows = found(Held(masked.graph.with_weights(weights), masked.context))
    judge(report, rows)
    assert report.summary["baseline"] == "present weights in float"
    smaller = with_step(with_step(opened(tmp_path), "prune_structured", what="neurons", ratio=0.5), "remove_pruned")
    report, rows = found(smaller)
    judge(report, rows)
    assert report.summary["baseline"] == "present weights in float"


@pytest.mark.slow
def test_a_recorded_program(tmp_path: Path) -> None:
    report, rows = found(opened(tmp_path, suffix="pt2"))
    judge(report, rows)


@pytest.mark.slow
def test_a_single_output_is_a_value(tmp_path: Path) -> None:
    """A regression, or one score: there is no accuracy, and the divergence is that of normal distributions."""
    held = opened(tmp_path, labels=1)
    report, rows = found(held)
    judge(report, rows)
    assert "squared error" in report.summary["divergence"]
    assert report.summary["accuracy_of_measured_samples"] is None
    few, _ = found(held, limit=8, exact=False, measure=0)
    again = {(r["node"], r["port"], r["candidate"]): r["predicted"] for r in few.rows}
    off = [abs(math.log2(again[r["node"], r["port"], r["candidate"]] / r["predicted"])) for r in report.rows
           if r["predicted"] and again.get((r["node"], r["port"], r["candidate"]))]  # fmt: skip
    assert np.median(off) < 2, "a pass of one sample has no spread of its own"


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """What was measured before is not measured again, whoever begins the run anew."""
    held, told = opened(tmp_path), list[str]()

    def stop(done: int, total: int, text: str) -> None:
        told.append(text)
        if sum(t.startswith("measuring") for t in told) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(Held(held.graph, replace(held.context, progress=stop)), ports=("weight",))
    report, rows = found(held, ports=("weight",))
    assert report.summary["measured_before"] >= 4
    assert all(m is not None for r in rows for m in r.measured)
    assert found(held, ports=("weight",))[0].rows == report.rows


@pytest.mark.slow
def test_without_weights_it_says_so(tmp_path: Path) -> None:
    made = open_source("config:bert?num_hidden_layers=1&hidden_size=16&num_attention_heads=2&weights=none", tmp_path)
    with pytest.raises(PassError, match="without weights"):
        sensitivity(made.project.base, SensitivityOptions(data="made here"), Context(made.store))


GAIN = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(60, 16)
        self.gain = torch.nn.Parameter(torch.ones(16))
        self.last = torch.nn.Linear(16, 3)
    def forward(self, input_ids, attention_mask):
        return self.last((self.gain * self.table(input_ids)).mean(1))
def make():
    torch.manual_seed(0)
    ids = torch.randint(0, 60, (2, 6))
    return Net(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
"""


def test_what_a_stored_gain_multiplies_counts(tmp_path: Path) -> None:
    """Llama's norms put their gain first; data_in holds for what flows beside it too, not for the gain alone."""
    (tmp_path / "net.py").write_text(GAIN)
    made = open_source(f"{tmp_path / 'net.py'}:make", tmp_path / "work", origin=Origin.TYPED)
    held = Held(made.project.base, Context(made.store, base=made.project.base, callables=made.callables))
    (node,) = (n.id for n in held.graph if n.op == "mul")
    _, rows = found(held, ports=("data_in",), select=Select("name", (node,)))
    (row,) = rows
    assert len(row.candidates) == 2
    for predicted, measured in zip(row.predicted, row.measured, strict=True):
        assert measured and measured > 1e-6
        assert abs(math.log2(predicted / measured)) < 1
