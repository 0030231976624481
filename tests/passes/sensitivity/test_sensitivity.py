"""Sensitivities: what is predicted against what is true, on models small enough to know it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.data.base import Split
from espalier.model.errors import DataError, OptionsError, ProjectError
from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.analysis.evaluate import evaluate
from espalier.passes.analysis.sensitivity import UNFINISHED, SensitivityOptions, gradient_ports, sensitivity
from espalier.passes.base import Cancelled, Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.sensitivity import measured_candidates
from espalier.passes.sensitivity.collect import collect
from espalier.passes.sensitivity.full_table import configured, fast_rounded
from espalier.passes.sensitivity.gradient_statistics import GradientStatistics, LowRank, load, save
from espalier.passes.sensitivity.measure import Baseline
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.sensitivity.port_predictor import SEEN, Part, PortPredictor, Replacement, port_predictor
from espalier.passes.sensitivity.ports import FormatPort, expansion, expansion_name
from espalier.passes.sensitivity.table import Candidate, Predictions, Sensitivity
from espalier.passes.transform.prune import prune
from espalier.passes.transform.quantize import quantize
from tests.patience import PATIENCE

INT4, INT8 = parse_format("integer(width=4, frac_width=3)"), parse_format("integer(width=8, frac_width=6)")


@dataclass
class Case:
    """A demo with its evidence."""

    graph: Graph
    context: Context
    split: Split
    run: Graph
    places: tuple[FormatPort, ...]
    evidence: GradientStatistics

    def place(self, node: str, port: str) -> FormatPort:
        """A place by its name."""
        return next(p for p in self.places if (p.node, p.port) == (node, port))


def made(name: str, folder: Path, samples: int = 128) -> Case:
    opened = open_source(name, folder, origin=Origin.TYPED)
    base = opened.project.base
    context = Context(opened.store, base=base)
    split = load_split(EvaluateOptions(data=name, limit=samples), context)
    _, run, places = gradient_ports(base, base)
    return Case(base, context, split, run, places, collect(run, places, split, context))


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made("demo:digits-mlp", tmp_path_factory.mktemp("mlp"))


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return made("demo:reviews", tmp_path_factory.mktemp("reviews"), 64)


def with_formats(graph: Graph, **formats: Format) -> Graph:
    """`node__port=format` given."""
    for name, fmt in formats.items():
        node, port = name.split("__")
        held = graph[node]
        graph = graph.replace(replace(held, precision={**held.precision, port: Precision(fmt)}))
    return graph


# -- the outputs


def test_pulls_have_the_fisher_information_of_the_softmax(mlp: Case) -> None:
    outputs, random = Outputs(mlp.graph), torch.Generator().manual_seed(0)
    logits = torch.tensor([[2.0, 0.5, -1.0, 0.0]]).expand(40_000, 4)
    pulls = outputs.pull(logits, {}, random).double()
    p = logits[0].double().softmax(-1)
    assert torch.allclose(pulls.T @ pulls / len(pulls), torch.diag(p) - torch.outer(p, p), atol=0.01)


def test_two_classes_need_no_luck(mlp: Case) -> None:
    pulls = Outputs(mlp.graph).pull(torch.tensor([[3.0, -2.0]] * 64), {}, torch.Generator().manual_seed(1))
    assert torch.allclose(pulls.abs(), pulls.abs()[:1].expand_as(pulls)) and len(pulls[:, 0].sign().unique()) == 2


@pytest.mark.slow
def test_rows_that_a_mask_hides_do_not_count(tmp_path: Path) -> None:
    opened = open_source("config:gpt2?n_layer=1&n_embd=16&n_head=2&vocab_size=20&task=causal-lm", tmp_path)
    outputs = Outputs(opened.project.base)
    assert outputs.kind == "distributions" and not outputs.classes
    before, mask = torch.randn(2, 3, 20), torch.tensor([[1, 1, 0], [1, 0, 0]])
    after = before.clone()
    after[0, 2] += torch.randn(20)
    after[1, 1:] += torch.randn(2, 20)
    assert outputs.divergence(before, after, {"attention_mask": mask}) == pytest.approx(0, abs=1e-9)
    assert outputs.divergence(before, after, {}) > 0.1


@pytest.mark.slow
def test_a_divergence_of_rows_does_not_hang_on_the_batch(tmp_path: Path) -> None:
    opened = open_source("config:gpt2?n_layer=1&n_embd=16&n_head=2&vocab_size=20&task=causal-lm", tmp_path)
    outputs, draw = Outputs(opened.project.base), torch.Generator().manual_seed(0)
    before, mask = torch.randn(2, 6, 20, generator=draw), torch.tensor([[1] * 6, [1, 0, 0, 0, 0, 0]])
    after = before + torch.randn(2, 6, 20, generator=draw)
    alone = [outputs.divergence(before[[i]], after[[i]], {"attention_mask": mask[[i]]}) for i in range(2)]
    assert outputs.divergence(before, after, {"attention_mask": mask}) == pytest.approx(sum(alone))
    p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
    rows = (p.exp() * (p - q)).sum(-1)
    assert alone == pytest.approx([float(rows[0].mean()), float(rows[1, 0])]), "the mean over a sample's rows"


@pytest.mark.slow
def test_outputs_without_classes_are_values(tmp_path: Path) -> None:
    opened = open_source("config:bert?num_hidden_layers=1&hidden_size=16&num_attention_heads=2&intermediate_size=16"
                         "&vocab_size=20", tmp_path)  # fmt: skip
    outputs = Outputs(opened.project.base)
    assert outputs.kind == "values" and "squared error" in outputs.words
    x = torch.randn(4, 5, 16)
    assert outputs.divergence(x, x + 0.1 * x.std(), {}) == pytest.approx(4 * 0.005, rel=0.05)


# -- true divergences


@pytest.mark.slow
def test_measured_is_what_a_whole_run_gives(reviews: Case) -> None:
    """Whatever is taken from the baseline's values: formats early, late, in attentions, and pruned weights."""
    graphs = [
        with_formats(reviews.run, bert_encoder_layer_1_output_dense__weight=INT4),
        with_formats(reviews.run, bert_encoder_layer_0_output_dense__data_in=INT4),
        with_formats(reviews.run, scaled_dot_product_attention_1_context__weight=INT4),
        with_formats(reviews.run, add_6__data_out=INT4, classifier__bias=INT4),
        prune(reviews.run, PruneOptions(sparsity=0.8), reviews.context)[0],
        reviews.run,
    ]
    baseline = Baseline(reviews.run, reviews.split, 32, reviews.context)
    for graph, found in zip(graphs, baseline.walk(graphs), strict=True):
        assert found == replace(baseline.measure(graph), seconds=found.seconds)
        kl, right = _whole(graph, reviews)
        assert found.kl == pytest.approx(kl, rel=1e-6, abs=1e-12)
        assert found.accuracy == pytest.approx(right)
    assert found.kl == 0 and found.agreement == 1


def _whole(graph: Graph, case: Case) -> tuple[float, float]:
    plain, module = (build(g, case.context.store) for g in (case.run, graph))
    lost = 0.0
    with torch.no_grad():
        for inputs, _ in batches(case.split, case.run, 32):
            p, q = (m(**inputs)["logits"].double().log_softmax(-1) for m in (plain, module))
            lost += float((p.exp() * (p - q)).sum())
    held = replace(case.context, base=case.graph)
    summary = evaluate(graph, EvaluateOptions(data="demo:reviews", limit=len(case.split)), held)[1].summary
    return lost / len(case.split), summary["accuracy"]


@pytest.mark.slow
def test_kept_values_stay_within_their_budget(reviews: Case) -> None:
    baseline = Baseline(reviews.run, reviews.split, 32, reviews.context, keep=1 << 24)
    held = sum(v.nbytes for b in baseline._batches for v in b.values.values() if isinstance(v, torch.Tensor))
    assert 0 < held <= 2 << 24
    graph = with_formats(reviews.run, classifier__weight=INT4)
    assert baseline.measure(graph).kl == Baseline(reviews.run, reviews.split, 32, reviews.context).measure(graph).kl


# -- predictions


@pytest.mark.parametrize("port", ["weight", "bias", "data_in", "data_out"])
def test_predictions_meet_the_truth_where_errors_are_small(mlp: Case, port: str) -> None:
    baseline = Baseline(mlp.run, mlp.split, 64, mlp.context)
    for node in ("fc1", "fc2"):
        place = mlp.place(node, port)
        found = port_predictor(place, mlp.evidence, mlp.run, mlp.context.store)
        assert found is not None
        fmt = found.fitted(INT4 if port == "weight" else INT8)
        true = baseline.measure(measured_candidates.with_candidate(mlp.run, place, Candidate(fmt), mlp.context)).kl
        told = found.predict(Candidate(fmt))
        assert told.kl == pytest.approx(true, rel=1, abs=1e-12), (node, told, true)
        assert told.noise < 0.1


def test_numpy_alone_predicts_as_the_fast_versions(reviews: Case) -> None:
    for key in (("bert_encoder_layer_0_output_dense", "weight"), ("scaled_dot_product_attention", "data_in"),
                ("bert_embeddings_word_embeddings", "weight"), ("gelu", "data_in")):  # fmt: skip
        found = port_predictor(reviews.place(*key), reviews.evidence, reviews.run, reviews.context.store)
        assert found is not None
        for fmt in map(parse_format, ("integer(width=4, frac_width=2)", "mxint(width=4)", "scaled_integer(width=4)")):
            slow, quick = found.predict(Candidate(fmt)), found.predict(Candidate(fmt), fast_rounded)
            assert (slow.kl, slow.noise) == pytest.approx((quick.kl, quick.noise), rel=1e-4)
            assert slow.along == pytest.approx(quick.along, rel=1e-3, abs=1e-3 * slow.kl**0.5)


def test_a_sample_of_rows_predicts_the_whole() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(512, 256)).astype(np.float32)
    left, right = (random.normal(size=s).astype(np.float32) for s in ((16, 512, 2), (16, 2, 256)))
    piece = LowRank(left, right, random.random(512).astype(np.float32), random.random(256).astype(np.float32))
    for error in (0.01 * random.normal(size=x.shape), 0.01 * np.ones(x.shape), 0.1 * x):
        q = (x + error).astype(np.float32)
        rows = np.arange(0, 512, 4)
        some = replace(piece, left=left[:, rows], rows=piece.rows[rows], of=512)
        whole = Part(x, piece, np.ones(512, np.float32), 512).effect(_given(q))[0].kl
        sampled = Part(x[rows], some, np.full(128, 4.0, np.float32), 128).effect(_given(q[rows]))[0].kl
        assert 1 / 3 < sampled / whole < 3


def _given(q: np.ndarray) -> Replacement:
    return Replacement(q, None, fast_rounded, False)


def test_sparsities_are_predicted_as_they_will_be_pruned(mlp: Case) -> None:
    place = mlp.place("fc1", "weight")
    found = port_predictor(place, mlp.evidence, mlp.run, mlp.context.store)
    assert found is not None
    graph = prune(mlp.run, PruneOptions(sparsity=0.5, select=Select("name", ("fc1",))), mlp.context)[0]
    by_mask = configured(graph, mlp.places, mlp.run, mlp.evidence, mlp.context.store)
    assert set(by_mask) == {("fc1", "weight")}
    assert by_mask["fc1", "weight"].kl == pytest.approx(found.predict(Candidate(None, 0.5)).kl)
    assert found.predict(Candidate(None, 1.0)).noise == pytest.approx(1.0)


@pytest.mark.slow
def test_configurations_count_attentions_that_are_written_out(reviews: Case) -> None:
    rule = Rule(Select("name", ("scaled_dot_product_attention",)), {"data_in": INT4, "weight": INT4})
    graph = quantize(reviews.graph, QuantizeOptions((rule,)), reviews.context)[0]
    _, run, places = gradient_ports(graph, None)
    evidence = collect(run, places, reviews.split.take(32), reviews.context)
    found = configured(graph, places, run, evidence, reviews.context.store)
    parts = {("scaled_dot_product_attention_scores", p) for p in ("data_in", "weight")}
    assert parts <= set(found) and min(t.kl for t in found.values()) > 0


def test_what_is_no_number_any_more_is_infinite() -> None:
    x = np.ones((2, 4), np.float32)
    piece = LowRank(*(np.ones(s, np.float32) for s in ((1, 2, 1), (1, 1, 4), (2,), (4,))))
    assert Part(x, piece, np.ones(2, np.float32), 2).effect(_given(np.full_like(x, np.nan)))[0].kl == np.inf


def test_a_binary_point_is_fitted_to_the_values(mlp: Case) -> None:
    x = np.linspace(-100, 100, 4 * SEEN, dtype=np.float32).reshape(-1, 4)
    piece = LowRank(*(np.ones(s, np.float32) for s in ((1, len(x), 1), (1, 1, 4), (len(x),), (4,))))
    found = PortPredictor(mlp.places[0], [Part(x, piece, np.ones(len(x), np.float32), len(x))], x.size)
    assert found.fitted(INT8) == parse_format("integer(width=8, frac_width=0)")


# -- files


def test_evidence_is_read_as_it_was_written(reviews: Case, tmp_path: Path) -> None:
    path = tmp_path / "e.safetensors"
    save(replace(reviews.evidence, reference="abc"), path)
    again = load(path)
    assert (again.words, again.samples, again.reference) == (reviews.evidence.words, 64, "abc")
    assert set(again.pieces) == set(reviews.evidence.pieces)
    for place in reviews.places:
        one, two = (port_predictor(place, e, reviews.run, reviews.context.store) for e in (reviews.evidence, again))
        if one is not None and two is not None and place.node in ("classifier", "gelu", "scaled_dot_product_attention"):
            assert two.predict(Candidate(INT4)).kl == pytest.approx(
                one.predict(Candidate(INT4)).kl, rel=0.01, abs=1e-12
            )


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"nonsense" * 40])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "e.safetensors"
    path.write_bytes(content)
    with pytest.raises(ProjectError):
        load(path)


def test_predictions_need_no_torch(reviews: Case, tmp_path: Path) -> None:
    save(reviews.evidence, tmp_path / "e.safetensors")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "import espalier.passes.sensitivity.full_table, espalier.passes.sensitivity.correction\n"
        "from espalier.passes.analysis.sensitivity import gradient_ports\n"
        "from espalier.passes.sensitivity.gradient_statistics import load\n"
        "from espalier.passes.sensitivity.predict import rows_divergence\n"
        f"e = load(Path({str(tmp_path / 'e.safetensors')!r}))\n"
        "p = e.pieces['gelu:data_in'][0]\nprint(rows_divergence(p, p.x.round(1) - p.x).kl > 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert found.stdout.strip() == "True"


# -- the pass


def run_pass(case: Case, **options: Any) -> tuple[Any, list[Sensitivity]]:
    parts: list[Any] = []
    context = replace(case.context, found=parts.append)
    report = sensitivity(case.graph, SensitivityOptions(data="demo:digits", limit=64, **options), context)[1]
    whole = [i for i, p in enumerate(parts) if isinstance(p, Predictions)]
    rows = [p for p in parts if isinstance(p, Sensitivity)]
    # Once all is predicted, and before anything is measured, that is said.
    assert len(whole) == 1 and {(p.node, p.port) for p in parts[: whole[0]]} == {(p.node, p.port) for p in rows}
    return report, rows


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    yield


def test_the_pass_tells_every_place_and_corrects_by_measurements(mlp: Case) -> None:
    report, parts = run_pass(mlp, formats=(INT4, parse_format("ternary")), sparsities=(0.5,), measure=16)
    assert {p.node for p in parts} == {"fc1", "fc2", "fc3", "relu1", "relu2"}
    summary = report.summary
    assert summary["measured"] == 16 == sum(r["measured"] is not None for r in report.rows)
    assert summary["spearman"] > 0.8 and 1 <= summary["error_factor"] < 3
    assert Path(summary["evidence"]).is_file()
    last = {(p.node, p.port): p for p in parts}
    assert len(report.rows) == sum(len(p.candidates) for p in last.values())
    weights = last["fc1", "weight"]
    assert [c.sparsity for c in weights.candidates] == [0, 0, 0.5, 0.5, 0.5]
    again, _ = run_pass(mlp, formats=(INT4,), measure=0)
    assert again.summary["evidence"] == summary["evidence"]


def test_exact_measures_all(mlp: Case) -> None:
    report, parts = run_pass(mlp, formats=(INT4,), ports=("weight",), exact=True)
    assert all(r["measured"] is not None and 0 <= r["accuracy"] <= 1 for r in report.rows)
    assert all(m is not None for m in parts[-1].known)


def test_without_data_it_asks_for_some(mlp: Case) -> None:
    with pytest.raises(DataError, match="none are given"):
        sensitivity(mlp.graph, SensitivityOptions(), mlp.context)
    with pytest.raises(OptionsError, match="wieght"):
        SensitivityOptions(ports=("wieght",))
    with pytest.raises(OptionsError, match="sparsities"):
        SensitivityOptions(sparsities=(1.5,))


def test_it_stops_where_it_is_cancelled(mlp: Case) -> None:
    def stop(done: int, total: int, text: str) -> None:
        if done > 1:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        sensitivity(mlp.graph, SensitivityOptions(data="demo:digits"), replace(mlp.context, progress=stop))


@pytest.mark.slow
def test_it_makes_room_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ended early for another job, while gradients came, comes to the same."""
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))
    opened = open_source("demo:digits-mlp", tmp_path, origin=Origin.TYPED)
    context = Context(opened.store, base=opened.project.base)
    wish = SensitivityOptions(data="demo:digits", limit=128, formats=(INT8, INT4), configurations=2)
    asked = [3]

    def enough() -> bool:
        asked[0] -= 1
        return asked[0] == 0

    texts: list[str] = []
    hearing = replace(context, enough=enough, progress=lambda done, total, text: texts.append(text))
    _, early = sensitivity(opened.project.base, wish, hearing)
    assert early.summary == {UNFINISHED: True} and not early.rows and texts.count(texts[0]) == len(texts) == 3
    asked[0] = 10**9
    _, whole = sensitivity(opened.project.base, wish, hearing)
    assert texts[3:].count(texts[0]) == 32 - 3, "the first three passes are not run again"
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "other"))
    asked[0] = 10**9
    _, alone = sensitivity(opened.project.base, wish, hearing)
    assert alone.rows == whole.rows


def test_gradients_are_taken_at_the_base_without_formats_and_masks(mlp: Case) -> None:
    rule = Rule(Select("type", ("linear",)), {"weight": INT4})
    graph = quantize(mlp.graph, QuantizeOptions((rule,)), mlp.context)[0]
    graph = prune(graph, PruneOptions(sparsity=0.5), mlp.context)[0]
    assert expansion(graph, mlp.graph) == mlp.graph and expansion_name(graph, mlp.graph) == "opened"
    hardware = graph.replace(*(replace(n, arithmetic="hardware") for n in graph if n.op == "relu"))
    assert hardware != graph and expansion(hardware, mlp.graph) == mlp.graph, "without formats hardware has no part"
    trained = graph.with_weights({k: replace(w, key="0" * 32) for k, w in graph.weights.items()})
    bare = expansion(trained, mlp.graph)
    assert expansion_name(trained, mlp.graph) == "present weights in float"
    assert not any(n.precision for n in bare) and any(n.sparsity for n in bare)
