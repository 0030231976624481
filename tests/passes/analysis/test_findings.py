"""Findings on data: against hooks on the built models, and against sums over all values."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from espalier.app.cli import main
from espalier.model.data.base import Split
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any, open_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.analysis.statistics import StatisticsOptions
from espalier.passes.base import Context, Report, run_step
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.observed import model_comparison
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.transform.calibrate import CalibrateOptions
from espalier.passes.transform.quantize import quantize

DIGITS, LIMIT = "demo:digits", 50
KEYS = ["node", "port", "kind", "format", "bits", "sqnr_db", "max_error", "mean_error", "saturated", "zeros",
        "underflow", "cosine"]  # fmt: skip

WORDS = """
import torch
def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20))
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net
        def forward(self, input_ids):
            return {"logits": self.net(input_ids)}
    return Words(), {"input_ids": torch.randint(0, 20, (2, 6))}
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Context]:
    """The digits' CNN."""
    found = open_any(DIGITS, tmp_path_factory.mktemp("digits"), origin=Origin.TYPED)
    return found.project.graph, Context(found.store)


def chosen(graph: Graph, context: Context, text: str, ports: tuple[str, ...] = ("weight", "data_in")) -> Graph:
    rule = Rule(Select("type", ("conv2d", "linear")), dict.fromkeys(ports, parse_format(text)))
    return quantize(graph, QuantizeOptions((rule,)), context)[0]


def found(name: str, graph: Graph, context: Context, options: Any) -> Report:
    return run_step(graph, Step(name, options), context).report


def hooked(graph: Graph, context: Context) -> tuple[dict[str, tuple[Tensor, Tensor]], Tensor]:
    """(input, result) of each leaf by its node, and the logits, of the first LIMIT test samples at once."""
    module, told = build(graph, context.store), dict[str, tuple[Tensor, Tensor]]()

    def keep(node: str) -> Any:
        def hook(leaf: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
            told[node] = args[0].clone(), result.clone()

        return hook

    for node in graph:
        if node.op in ("conv2d", "linear"):
            module.get_submodule(node.target).register_forward_hook(keep(node.id))
    split = load_split(EvaluateOptions(data=DIGITS, limit=LIMIT), context)
    with torch.no_grad():
        (inputs, _), *_ = split.batches(LIMIT)
        logits = module(*(torch.from_numpy(v) for v in inputs.values()))
    return told, logits


@pytest.mark.parametrize(("text", "shared"), [
    ("scaled_integer(width=4)", lambda rows, columns: 32 * rows),
    ("scaled_integer(width=4, granularity=tensor, symmetric=False)", lambda rows, columns: 32 + 4),
    ("mxint(width=4, block=32)", lambda rows, columns: 8 * rows * -(-columns // 32)),
])  # fmt: skip
def test_bits_are_all_that_is_stored(opened: tuple[Graph, Context], text: str, shared: Any) -> None:
    graph, context = opened
    rows = found("quantization", chosen(graph, context, text, ("weight",)), context, ObserveOptions()).rows
    assert len(rows) > 2
    for row in rows:
        shape = graph[row["node"]].ports["weight"].sizes({})
        columns = math.prod(shape[1:])
        assert row["bits"] == pytest.approx(4 + shared(shape[0], columns) / (shape[0] * columns))


def sqnr(x: Tensor, y: Tensor) -> float:
    x, y = x.double(), y.double()
    return 10 * math.log10(float(x.square().sum() / (x - y).square().sum()))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [64, 7])
@pytest.mark.parametrize("text", ["integer(width=6, frac_width=4)", "mxint(width=4, block=8)",
                                  "scaled_integer(width=4, granularity=tensor)"])  # fmt: skip
def test_layers_and_logits_against_hooks(opened: tuple[Graph, Context], text: str, batch: int) -> None:
    graph, context = opened
    quantised = chosen(graph, context, text)
    if "tensor" in text:  # a scale of each batch would hang on the batch
        quantised = run_step(quantised, Step("calibrate", CalibrateOptions(data=DIGITS)), context).graph
    report = found("quantization", quantised, context, ObserveOptions(data=DIGITS, limit=LIMIT, batch_size=batch))
    (before, plain), (after, logits) = hooked(graph, context), hooked(quantised, context)
    rows = {(r["node"], r["kind"]): r for r in report.rows}
    assert len(rows) == len(report.rows) == 3 * len(before) + 1
    for node, (given, result) in after.items():
        assert rows[node, "output"]["sqnr_db"] == pytest.approx(sqnr(before[node][1], result), abs=0.01)
        assert rows[node, "output"]["max_error"] == pytest.approx(
            float((before[node][1] - result).abs().max()), rel=1e-4
        )
        assert float(rows[node, "activation"]["zeros"]) == pytest.approx(float((given == 0).double().mean()), abs=1e-4)
    assert report.summary["logits_sqnr_db"] == pytest.approx(sqnr(plain, logits), abs=0.01)
    assert report.summary["agreement"] == float((plain.argmax(-1) == logits.argmax(-1)).double().mean())
    for kind in ("activation", "output"):
        of_kind = [r["sqnr_db"] for r in report.rows if r["kind"] == kind and r["sqnr_db"] is not None]
        assert report.summary[f"worst_{kind}_sqnr_db"] == min(of_kind)


def test_an_activation_against_what_flowed_into_its_format(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    fmt = Integer(4, 2)
    quantised = chosen(graph, context, str(fmt), ("data_in",))
    report = found("quantization", quantised, context, ObserveOptions(data=DIGITS, limit=LIMIT))
    first = next(n for n in graph if n.op == "conv2d")
    row = next(r for r in report.rows if (r["node"], r["kind"]) == (first.id, "activation"))
    x = hooked(graph, context)[0][first.id][0]
    assert row["sqnr_db"] == pytest.approx(sqnr(x, fmt.define(x)), abs=1e-6)
    assert row["saturated"] == pytest.approx(float((~fmt.inside(x)).double().mean()))
    assert row["underflow"] == pytest.approx(float(((x != 0) & (fmt.define(x) == 0)).double().mean()))
    assert report.summary["weights"] == 0 and row["format"] == str(fmt)


def test_a_format_on_the_result_counts(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    quantised = chosen(graph, context, "integer(width=3, frac_width=0)", ("data_out",))
    report = found("quantization", quantised, context, ObserveOptions(data=DIGITS, limit=LIMIT))
    first = next(n for n in graph if n.op == "conv2d")
    rows = {r["kind"]: r for r in report.rows if r["node"] == first.id}
    x = hooked(graph, context)[0][first.id][1]
    assert rows["output"]["sqnr_db"] == pytest.approx(sqnr(x, Integer(3, 0).define(x)), abs=1e-6)
    assert rows["activation"]["sqnr_db"] == pytest.approx(rows["output"]["sqnr_db"]), (
        "the first layer's input is the same"
    )


def test_large_results_are_compared_in_small_batches(
    opened: tuple[Graph, Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, context = opened
    quantised = chosen(graph, context, "integer(width=6, frac_width=4)")
    options = ObserveOptions(data=DIGITS, limit=LIMIT)
    whole = found("quantization", quantised, context, options)
    seen: list[int] = []
    monkeypatch.setattr(model_comparison, "MAX_BYTES", 1)
    small = found("quantization", quantised, replace(context, progress=lambda done, *_: seen.append(done)), options)
    assert seen[-LIMIT:] == list(range(1, LIMIT + 1)), "one sample a batch"
    assert small.summary["worst_output_sqnr_db"] == pytest.approx(whole.summary["worst_output_sqnr_db"], abs=0.01)


def test_rows_and_summary_have_the_same_keys_with_and_without_data(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    quantised = chosen(graph, context, "integer(width=8, frac_width=4)")
    alone = found("quantization", quantised, context, ObserveOptions())
    data = found("quantization", quantised, context, ObserveOptions(data=DIGITS, limit=LIMIT))
    assert all(list(r) == KEYS for r in (*alone.rows, *data.rows))
    assert set(alone.summary) == {"weights", "worst", "worst_sqnr_db"} < set(data.summary)
    assert data.rows[: len(alone.rows)] == alone.rows
    assert data.summary["accuracy_of_samples_before"] > 0.9 and data.summary["samples"] == LIMIT
    assert not {"accuracy", "loss"} & set(data.summary), "the score's, which are of the whole split"


def test_accuracies_have_intervals_a_named_baseline_and_their_noise(opened: tuple[Graph, Context]) -> None:
    """Held to scipy: Wilson's interval, and the exact McNemar test on the samples that only one of both gets right."""
    graph, context = opened
    rounded = chosen(graph, context, "integer(width=2, frac_width=1)", ("weight",))
    options = ObserveOptions(data=DIGITS, limit=LIMIT)
    told = found("quantization", rounded, context, options).summary
    assert told["before"] == "present weights in float" and told["split"] == "test"
    evaluated = [
        found("evaluate", g, context, EvaluateOptions(data=DIGITS, limit=LIMIT)).summary for g in (graph, rounded)
    ]
    for key, each in zip(("interval_of_samples_before", "interval_of_samples"), evaluated, strict=True):
        right = round(each["accuracy"] * LIMIT)
        want = stats.binomtest(right, LIMIT).proportion_ci(0.95, method="wilson")
        assert told[key] == pytest.approx([want.low, want.high])
    before, after = (int(e["hits"], 16) for e in evaluated)
    gained, lost = (after & ~before).bit_count(), (before & ~after).bit_count()
    assert told["change_from_before"] == pytest.approx((gained - lost) / LIMIT) and gained + lost > 0
    p = stats.binomtest(gained, gained + lost).pvalue
    assert told["change_from_before_within_noise"] == (p >= 0.05)


def test_where_steps_changed_weights_the_model_as_opened_stands_beside(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    rounded = chosen(graph, context, "integer(width=2, frac_width=1)", ("weight",))
    options, whole = ObserveOptions(data=DIGITS, limit=LIMIT), replace(context, base=graph)
    assert "accuracy_of_samples_baseline" not in found("quantization", rounded, whole, options).summary
    recovered = run_step(rounded, Step("gptq", GptqOptions(data=DIGITS, limit=LIMIT)), whole).graph
    told = found("quantization", recovered, whole, options).summary
    first = found("evaluate", graph, context, EvaluateOptions(data=DIGITS, limit=LIMIT)).summary
    assert told["accuracy_of_samples_baseline"] == pytest.approx(first["accuracy"]) and told["baseline"] == "opened"
    assert told["change_from_baseline"] == pytest.approx(told["accuracy_of_samples"] - first["accuracy"])
    assert told["loss_of_samples_baseline"] == pytest.approx(first["loss"], rel=1e-5)
    assert told["loss_of_samples_before"] > 1.05 * first["loss"], "its weights lie on the grid already"
    assert told["weights_changed_by_steps"] == sum(n.op in ("conv2d", "linear") for n in graph)


def test_data_of_another_kind_is_refused(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    for name in ("quantization", "statistics"):
        options = (StatisticsOptions if name == "statistics" else ObserveOptions)(data="demo:reviews")
        with pytest.raises(DataError, match=r"needs the input|cannot take"):
            found(name, chosen(graph, context, "integer"), context, options)


# -- statistics


def test_statistics_of_activations_against_all_values(opened: tuple[Graph, Context]) -> None:
    graph, context = opened
    report = found("statistics", graph, context, StatisticsOptions(data=DIGITS, limit=LIMIT, batch_size=8, sigmas=2.0))
    told = hooked(graph, context)[0]
    rows = {r["weight"]: r for r in report.rows}
    assert len({tuple(r) for r in report.rows}) == 1, "weights and activations have the same columns"
    assert report.summary["activations"] == sum(r["role"] == "activation" for r in report.rows) >= 2 * len(told)
    for node, values in told.items():
        for port, x in zip(("data_in", "data_out"), values, strict=True):
            row, x = rows[f"{node}.{port}"], x.double()
            assert (row["node"], row["port"], row["elements"]) == (node, port, x.numel())
            assert (row["min"], row["max"]) == pytest.approx((float(x.min()), float(x.max())), rel=1e-5)
            assert row["mean"] == pytest.approx(float(x.mean()), abs=1e-6)
            assert row["variance"] == pytest.approx(float(x.var(correction=0)), rel=1e-4)
            assert row["std"] == pytest.approx(math.sqrt(row["variance"]))
            assert row["sigma_high"] == pytest.approx(row["mean"] + 2 * row["std"])
            assert row["sigma_low"] == pytest.approx(row["mean"] - 2 * row["std"])
            assert row["abs_mean"] == pytest.approx(float(x.abs().mean()), rel=1e-4)
            step = (row["max"] - row["min"]) / 1000
            assert abs(row["q75"] - float(x.quantile(0.75))) <= step + 1e-6
            assert row["zeros"] == int((x == 0).sum())


# -- the command


def test_report_on_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    project, recipe, out = (tmp_path / n for n in ("d.espalier", "r.json", "f.json"))
    formats = {"weight": "integer(width=8, frac_width=6)", "data_in": "integer(width=8, frac_width=4)"}
    rules = [{"select": {"by": "type", "values": ["conv2d", "linear"]}, "formats": formats}]
    steps = [{"pass": "quantize", "options": {"rules": rules}}, {"pass": "calibrate", "options": {"data": DIGITS}}]
    recipe.write_text(json.dumps({"steps": steps}))
    assert main(["run", DIGITS, str(recipe), "-o", str(project)]) == 0
    words = ["report", str(project), "--what", "quantization,statistics", "--data", DIGITS, "--limit", "20"]
    capsys.readouterr()
    assert main([*words, "-o", str(out), "--json"]) == 0
    told = json.loads(out.read_text())
    kinds = [r["kind"] for r in told["rows"] if r["report"] == "quantization"]
    assert (
        set(kinds) == {"weight", "activation", "output", "logits"} and told["summary"]["quantization"]["samples"] == 20
    )
    assert told["summary"]["statistics"]["activations"] > 4
    assert told["summary"]["quantization"]["logits_sqnr_db"] > 25
    capsys.readouterr()
    assert main(["report", DIGITS, "--what", "graph", "--data", DIGITS]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error == ["--data does not apply to graph.", "Add --what statistics or quantization."]


def test_a_language_model_is_compared_without_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of each word are no classes of texts: the layers and the logits have figures, accuracy has none."""
    (tmp_path / "net.py").write_text(WORDS)
    made = open_source(f"{tmp_path / 'net.py'}:make", tmp_path / "work", origin=Origin.TYPED)
    ids = np.random.default_rng(0).integers(0, 20, (8, 6))
    monkeypatch.setattr(
        "espalier.passes.running.splits.load_split", lambda *_: Split({"input_ids": ids}, np.zeros(8, int))
    )
    context = Context(made.store, base=made.project.base)
    graph = chosen(made.project.base, context, "integer(width=4, frac_width=3)")
    report = found("quantization", graph, context, ObserveOptions(data="made here"))
    assert report.summary["logits_sqnr_db"] > 0 and report.summary["samples"] == 8
    assert not {k for k in report.summary if "accuracy" in k or "loss" in k or k == "agreement"}
    assert {r["kind"] for r in report.rows} == {"weight", "activation", "output", "logits"}
