"""LoRA: inserting changes nothing, only adapters train, fusing gives what was computed, and all of it is counted."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from espalier.model.document.project import Project, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.adapters import adaptable, adapted, adapter_macs
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any, open_source
from espalier.model.packed.layout import packed_size
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import Tensor, WeightStore
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.layers import Effective, unpack_mask
from espalier.model.torch.low_rank import LowRank
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.model.trust import Origin
from espalier.passes.analysis.trainable import TrainableOptions
from espalier.passes.base import Context, NoOptions, run_step
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.choices.lora import LoraOptions, Rank
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export import export
from espalier.passes.export.loading import load_folder
from espalier.passes.recipes.config import load_recipe
from espalier.passes.score import node_bitops, one_sample, static_score
from espalier.passes.select import Select
from espalier.passes.transform.finetune import FinetuneOptions
from espalier.passes.transform.fold_batch_norm import FoldBatchNormOptions
from espalier.passes.transform.fuse_lora import FuseLoraOptions
from tests.model.zoo import MODELS, SLOW, run, slow
from tests.passes.lowrank.lora_cases import Case, case, equal, near, results, step, trained

ANY = Select("regex", (".",))
EACH = [slow(n) if n in SLOW else n for n in MODELS]
LINEARS = Select("type", ("linear",))
FORMATS = QuantizeOptions((Rule(LINEARS, {"weight": Integer(6, 4), "data_in": Integer(8, 4)}),))


def everywhere(held: Case, rank: int = 2) -> Graph:
    return step(held.graph, held, "lora", LoraOptions(rank, select=ANY))[0]


# -- inserting


@pytest.mark.slow
@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("name", EACH)
def test_inserting_changes_no_result_and_fusing_gives_what_the_adapters_gave(name: str) -> None:
    held = case(name)
    if not any(adaptable(n, held.graph) for n in held.graph):
        with pytest.raises(PassError):
            everywhere(held)
        return
    graph = everywhere(held)
    # torch multiplies tensors that are not contiguous in another order where the weight needs no gradient.
    still, _ = step(held.graph, held, "freeze", FreezeOptions())
    assert equal(results(graph, held), results(still if name == "attention" else held.graph, held))
    assert not [p for p in check(graph) if p.severity == "error"]
    moved = trained(graph, held)
    want = results(moved, held)
    assert not near(want, results(held.graph, held), 1e-3)
    fused, report = step(moved, held, "fuse_lora", FuseLoraOptions(untie=True))
    assert near(results(fused, held), want, 0.05 if name == "odd" else 1e-4)  # it has a bfloat16 layer
    if not report.summary["skipped"] and not report.summary["untied"]:
        assert fused.weights.keys() == held.graph.weights.keys() and not any(n.adapters for n in fused)
        assert {k: w.trainable for k, w in fused.weights.items()} == {
            k: w.trainable for k, w in held.graph.weights.items()
        }


def test_formats_and_masks_hold_beneath_adapters() -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "quantize", FORMATS)
    graph, _ = step(graph, held, "prune", PruneOptions(0.5))
    after, _ = step(graph, held, "lora", LoraOptions(4))
    assert equal(results(after, held), results(graph, held))
    assert all(after[n.id].precision == n.precision and after[n.id].sparsity == n.sparsity for n in graph)


def test_only_adapters_train_and_biases_stay() -> None:
    held = case("bert")
    graph, report = step(held.graph, held, "lora", LoraOptions(4))
    own = {x for _, a in adapted(graph) for x in (a.a, a.b)}
    assert {k for k, w in graph.weights.items() if w.role == "parameter" and w.trainable} == own
    total = sum(w.elements for w in held.graph.weights.values() if w.role == "parameter")
    size = sum(graph.weights[x].elements for x in own)
    assert report.summary["added"] == report.summary["trainable"] == size
    assert report.summary["parameters"] == total + size
    module = held.build(graph).train()
    live = parameters_of(module)
    sum(r.sum() for r in run_with_gradient(module, held)).backward()
    assert {k for k, t in live.items() if t.grad is not None} == own
    assert all("bias" in graph[n.id].weights for n, _ in adapted(graph) if "bias" in held.graph[n.id].weights)


def run_with_gradient(module: nn.Module, held: Case) -> list[torch.Tensor]:
    found = module(**held.example)
    return [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor) and t.requires_grad]


def test_equal_seeds_draw_equal_matrices_and_b_is_zero() -> None:
    held = case("bert")
    one, other, third = (step(held.graph, held, "lora", LoraOptions(4), s)[0] for s in (1, 1, 2))
    assert one == other != third
    for node, adapter in adapted(one):
        a, b = (held.store.get(one.weights[x].key or "").array for x in (adapter.a, adapter.b))
        inputs = a.shape[1]
        assert not b.any() and 0 < np.abs(a).max() <= inputs**-0.5 and abs(a.std() - (inputs * 3) ** -0.5) < 0.05, (
            node.id
        )


def test_ranks_by_layer_and_layers_without() -> None:
    held = case("bert")
    rules = (Rank(Select("regex", ("query",)), 3), Rank(Select("name", ("classifier",)), 0))
    graph, report = step(held.graph, held, "lora", LoraOptions(5, ranks=rules))
    ranks = {n.id: a.rank for n, a in adapted(graph)}
    assert "classifier" not in ranks and {r for n, r in ranks.items() if "query" in n} == {3}
    assert {r for n, r in ranks.items() if "query" not in n} == {5}
    assert report.summary["ranks"] == {"r3": 2, "r5": len(ranks) - 2}
    with pytest.raises(PassError, match="given another rank"):
        step(held.graph, held, "lora", LoraOptions(5, ranks=(Rank(Select("type", ("norm",)), 2),)))


def test_another_rank_draws_anew_and_another_alpha_does_not() -> None:
    held = case("bert")
    graph = trained(step(held.graph, held, "lora", LoraOptions(4, 4.0))[0], held)
    louder, _ = step(graph, held, "lora", LoraOptions(4, 8.0))
    assert all(louder.weights[x] == graph.weights[x] for _, a in adapted(graph) for x in (a.a, a.b))
    assert {a.scaling for _, a in adapted(louder)} == {2.0}
    wider, report = step(graph, held, "lora", LoraOptions(6))
    assert {r["values"] for r in report.rows} == {"new"} and equal(results(wider, held), results(held.graph, held))
    none, report = step(graph, held, "lora", LoraOptions(0))
    assert none == held.graph and report.summary["removed"] == len(list(adapted(graph)))


def test_the_head_trains_whole() -> None:
    held = case("bert")
    graph, report = step(held.graph, held, "lora", LoraOptions(4, train_head=True))
    assert report.summary["head"] == "classifier" and not graph["classifier"].adapters
    assert graph.weights["classifier.weight"].trainable and graph.weights["classifier.bias"].trainable
    with pytest.raises(PassError, match="shares a weight"):
        step(case("gpt2").graph, case("gpt2"), "lora", LoraOptions(4, train_head=True))


def test_functions_and_calls_of_one_module() -> None:
    twice = case("twice")
    one = next(n for n in twice.graph if n.op == "linear")
    graph, _ = step(twice.graph, twice, "lora", LoraOptions(2, select=Select("name", (one.id,))))
    names = {a.a for n, a in adapted(graph) if n.target == one.target}
    assert len(names) == 1 and sum(n.target == one.target for n, _ in adapted(graph)) > 1
    assert equal(results(graph, twice), results(twice.graph, twice))


def linear_function() -> tuple[Graph, Case]:
    """A Linear as a function over stored weights."""
    from espalier.model.trace.trace import trace

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(5, 4))
            self.shift = nn.Parameter(torch.randn(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(nn.functional.linear(x, self.kernel, self.shift))

    torch.manual_seed(0)
    model, example = Plain().eval(), {"x": torch.randn(3, 4)}
    store = WeightStore(Path(tempfile.mkdtemp(prefix="espalier-tests-")))
    found = trace(model, example, store)
    return found.graph, Case("plain", model, example, store, found, {})


def test_a_linear_that_is_a_function() -> None:
    graph, held = linear_function()
    node = next(n for n in graph if n.op == "linear")
    assert node.call == "call_function"
    after, _ = step(graph, held, "lora", LoraOptions(2))
    assert equal(results(after, held), results(graph, held))
    moved = trained(after, held)
    quantised, _ = step(moved, held, "quantize", FORMATS)
    assert not near(results(quantised, held), results(moved, held), 1e-4)
    fused, _ = step(moved, held, "fuse_lora", FuseLoraOptions())
    assert near(results(fused, held), results(moved, held)) and fused.weights.keys() == graph.weights.keys()


def test_dropout_acts_in_training_only() -> None:
    held = case("mlp")
    graph = trained(step(held.graph, held, "lora", LoraOptions(2, dropout=0.5))[0], held)
    module = held.build(graph)
    assert equal(run(module, held.example), run(module, held.example))
    module.train()
    assert not equal(run(module, held.example), run(module, held.example))


def test_half_precision_models_keep_adapters_in_float() -> None:
    held = case("mlp")
    half = {k: replace(w, key=held.store.hold(to_numpy(to_torch(held.store.get(w.key or "")).bfloat16())),
                       dtype="bfloat16") for k, w in held.graph.weights.items()}  # fmt: skip
    example = {k: v.bfloat16() for k, v in held.example.items()}
    base = held.graph.with_weights(half)
    graph = trained(step(base, held, "lora", LoraOptions(2))[0], held)
    got = run(held.build(graph), example)
    assert {t.dtype for t in got} == {torch.bfloat16}
    assert {graph.weights[a.a].dtype for _, a in adapted(graph)} == {"float32"}
    fused, _ = step(graph, held, "fuse_lora", FuseLoraOptions())
    assert {w.dtype for w in fused.weights.values()} == {"bfloat16"}
    assert near([t.float() for t in run(held.build(fused), example)], [t.float() for t in got], 0.05)


def test_a_model_without_weights_can_be_planned() -> None:
    held = case("mlp")
    hollow = held.graph.with_weights({k: replace(w, key=None) for k, w in held.graph.weights.items()})
    graph, report = step(hollow, held, "lora", LoraOptions(2))
    assert report.summary["added"] > 0 and not [p for p in check(graph) if p.severity == "error"]
    with pytest.raises(PassError, match="without weights"):
        step(graph, held, "fuse_lora", FuseLoraOptions())


# -- fusing


@pytest.mark.slow
def test_zeros_of_a_mask_stay_zero() -> None:
    held = case("bert")
    pruned, _ = step(held.graph, held, "prune", PruneOptions(0.5))
    moved = trained(step(pruned, held, "lora", LoraOptions(4))[0], held)
    fused, report = step(moved, held, "fuse_lora", FuseLoraOptions())
    assert all(r["masked"] for r in report.rows)
    node = next(n for n in fused if "weight" in n.sparsity)
    held_mask = unpack_mask(to_torch(held.store.get(node.sparsity["weight"].mask or "")), node.ports["weight"].shape)
    leaf = held.build(fused).get_submodule(node.target)
    assert bool((leaf.tensor("weight")[~held_mask] == 0).all())


def test_formats_round_the_sum() -> None:
    held = case("mlp")
    graph = trained(step(step(held.graph, held, "quantize", FORMATS)[0], held, "lora", LoraOptions(2))[0], held)
    fused, report = step(graph, held, "fuse_lora", FuseLoraOptions())
    assert all(r["rounded"] for r in report.rows)
    node, adapter = next(adapted(graph))
    w, a, b = (
        to_torch(held.store.get(graph.weights[k].key or "")) for k in (node.weights["weight"], adapter.a, adapter.b)
    )
    want = straight_through(Integer(6, 4), w + adapter.scaling * b @ a)
    got = held.build(fused).get_submodule(node.target).tensor("weight")
    assert torch.allclose(got, want, atol=2**-4 + 1e-6) and float((got != want).float().mean()) < 0.05


def test_a_tied_weight_is_not_fused_behind_the_others_back() -> None:
    held = case("gpt2")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2, select=Select("name", ("lm_head",))))
    graph = trained(graph, held)
    with pytest.raises(PassError, match="shares its weight with"):
        step(graph, held, "fuse_lora", FuseLoraOptions())
    fused, report = step(graph, held, "fuse_lora", FuseLoraOptions(untie=True))
    assert report.summary["untied"] == 1 and near(results(fused, held), results(graph, held))
    assert fused["lm_head"].weights["weight"] != held.graph["lm_head"].weights["weight"]


def test_some_adapters_fused_leave_the_rest_frozen() -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2))
    some, _ = step(graph, held, "fuse_lora", FuseLoraOptions(Select("regex", ("query",))))
    assert {n.id for n, _ in adapted(some)} == {n.id for n, _ in adapted(graph) if "query" not in n.id}
    assert not some.weights["classifier.weight"].trainable and some.weights["classifier.weight"].rests


def test_what_adapters_cannot_follow_is_refused() -> None:
    held = case("image")
    graph = everywhere(held)
    _, report = (
        step(graph, held, "fold_batch_norm", FoldBatchNormOptions())
        if any(n.op == "batch_norm" for n in graph)
        else (graph, None)
    )
    if report is not None:
        assert all("adapter" in r["skipped"] for r in report.rows if r["layer"] in {n.id for n, _ in adapted(graph)})
    with pytest.raises(PassError, match="no adapters"):
        step(held.graph, held, "fuse_lora", FuseLoraOptions())


# -- freezing


def test_freezing_and_letting_train_again() -> None:
    held = case("bert")
    frozen, report = step(held.graph, held, "freeze", FreezeOptions(Select("module", ("bert.embeddings",))))
    names = {k for k, w in frozen.weights.items() if not w.trainable and held.graph.weights[k].trainable}
    assert names and all(k.startswith("bert.embeddings") for k in names)
    assert report.summary["elements"] == sum(frozen.weights[k].elements for k in names)
    biases, _ = step(held.graph, held, "freeze", FreezeOptions(part="biases"))
    assert {k.rpartition(".")[2] for k, w in biases.weights.items() if not w.trainable and w.role == "parameter"} == {
        "bias"
    }
    back, _ = step(frozen, held, "unfreeze", FreezeOptions())
    assert back == held.graph


@pytest.mark.slow
def test_what_is_let_train_beside_adapters_goes_on() -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2, select=Select("regex", ("query",))))
    graph, _ = step(graph, held, "unfreeze", FreezeOptions(Select("type", ("norm",))))
    norm = next(n.weights["weight"] for n in graph if n.op == "layer_norm")
    assert graph.weights[norm].trainable
    graph, _ = step(graph, held, "lora", LoraOptions(2, select=Select("regex", ("key",))))
    assert graph.weights[norm].trainable and not graph.weights["classifier.weight"].trainable
    graph, _ = step(graph, held, "freeze", FreezeOptions(Select("name", ("classifier",))))
    fused, _ = step(graph, held, "fuse_lora", FuseLoraOptions())
    assert not fused.weights["classifier.weight"].trainable and fused.weights[norm].trainable


def test_the_report_counts_each_parameter_once() -> None:
    held = case("gpt2")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2))
    _, report = step(graph, held, "trainable", TrainableOptions())
    total = sum(w.elements for w in graph.weights.values() if w.role == "parameter")
    assert report.summary["parameters"] == total == report.summary["trainable"] + report.summary["frozen"]
    assert report.summary["adapters"] == report.summary["trainable"]
    tops = [r for r in report.rows if r["level"] == 0]
    assert sum(r["parameters"] for r in tops) == total and abs(sum(r["share"] for r in tops) - 1) < 1e-9
    rows = {r["module"]: r for r in report.rows}
    for path, row in rows.items():
        inside = [r for p, r in rows.items() if p.rpartition(".")[0] == path]
        assert sum(r["parameters"] for r in inside) <= row["parameters"]
    _, before = step(held.graph, held, "trainable", TrainableOptions(1))
    assert before.summary["trainable"] == report.summary["without_adapters"]
    assert {r["level"] for r in before.rows} == {0}


# -- what it costs


def test_size_bits_and_products_are_counted() -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "quantize", FORMATS)
    after, _ = step(graph, held, "lora", LoraOptions(4))
    before_score, score = static_score(graph), static_score(after)
    added = sum(after.weights[x].elements for _, a in adapted(after) for x in (a.a, a.b))
    assert score.size_bytes == packed_size(after) > before_score.size_bytes + 4 * added
    elements = sum(w.elements for w in graph.weights.values() if w.role == "parameter")
    want = (before_score.weight_bits * elements + 32 * added) / (elements + added)
    assert score.weight_bits == pytest.approx(want)
    node = after["classifier"]
    sizes = one_sample(after)
    inputs, outputs = node.ports["data_in"].elements(sizes), node.ports["data_out"].elements(sizes)
    assert adapter_macs(node, sizes) == (inputs * 4, outputs * 4)
    more = node_bitops(node, sizes) - node_bitops(graph["classifier"], sizes)
    assert more == inputs * 4 * 32 * 8 + outputs * 4 * 32 * 32
    cost = {r["node"]: r for r in step(after, held, "cost", NoOptions())[1].rows}
    plain = {r["node"]: r for r in step(graph, held, "cost", NoOptions())[1].rows}
    assert cost["classifier"]["macs"] == plain["classifier"]["macs"] + inputs * 4 + outputs * 4


# -- training


@cache
def digits() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


def trained_digits(*before: Step) -> tuple[Graph, Graph, float]:
    """The graph before and after a short training, and the accuracy of the end."""
    graph, context = digits().project.base, Context(digits().store)
    for each in before:
        graph = run_step(graph, each, context).graph
    options = FinetuneOptions("demo:digits", max_steps=30, learning_rate=1e-2, train_limit=512, keep="last")
    done = run_step(graph, Step("finetune", options), context)
    return graph, done.graph, done.report.summary["validation_accuracy"]


@pytest.mark.slow
def test_training_moves_adapters_alone() -> None:
    before, after, accuracy = trained_digits(Step("lora", LoraOptions(4)))
    changed = {k for k in before.weights if before.weights[k].key != after.weights[k].key}
    assert changed == {x for _, a in adapted(before) for x in (a.a, a.b)} and accuracy > 0.9
    fused = run_step(after, Step("fuse_lora", FuseLoraOptions()), Context(digits().store)).graph
    x = {"image": torch.rand(4, *after.placeholders[0].ports["data_out"].sizes(after.symbols)[1:])}
    x = {after.placeholders[0].target: x["image"]}
    assert near(run(build(fused, digits().store), x), run(build(after, digits().store), x), 1e-4)


def test_quantised_layers_train_through_adapters_without_rounding_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(LINEARS, {"weight": ScaledInteger(4)})
    kept: list[int] = []
    fresh = Effective._computed

    def counted(self: Effective, x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        return fresh(self, x)

    monkeypatch.setattr(Effective, "_computed", counted)
    before, after, accuracy = trained_digits(Step("quantize", QuantizeOptions((rule,))), Step("lora", LoraOptions(4)))
    layers = sum("weight" in n.precision for n in before)
    assert accuracy > 0.9 and len(kept) <= 2 * layers  # once a device and mode, not once a step
    names = {n.weights["weight"] for n in before if "weight" in n.precision}
    assert all(before.weights[k].key == after.weights[k].key for k in names)


# -- files


def test_projects_and_packed_files_keep_adapters(tmp_path: Path) -> None:
    held = case("bert")
    graph, _ = step(held.graph, held, "quantize", FORMATS)
    graph = trained(step(graph, held, "lora", LoraOptions(3, 5.0, 0.1, True))[0], held)
    info = SourceInfo("config:bert", "bert")
    save_project(Project(info, held.graph, Recipe(), graph), held.store, tmp_path / "p.espalier")
    again = load_project(tmp_path / "p.espalier", WeightStore(tmp_path / "w"))
    assert again.graph == graph
    export(Project(info, graph, Recipe(), graph), held.store, "packed", tmp_path / "m.packed.safetensors")
    assert (tmp_path / "m.packed.safetensors").stat().st_size == static_score(graph).size_bytes
    opened = open_any(str(tmp_path / "m.packed.safetensors"), tmp_path / "work", origin=Origin.TYPED)
    assert near(run(build(opened.project.graph, opened.store), held.example), results(graph, held))
    assert {n.id: n.adapters for n in opened.project.graph} == {n.id: n.adapters for n in graph}


def test_a_folder_beside_its_adapters(tmp_path: Path) -> None:
    spec = ("config:bert?num_hidden_layers=1&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=100"
            "&task=sequence-classification")  # fmt: skip
    opened = open_any(spec, tmp_path / "work", seed=1, origin=Origin.TYPED)
    done = run_step(opened.project.graph, Step("lora", LoraOptions(2)), Context(opened.store))
    project = replace(opened.project, graph=done.graph)
    found = export(project, opened.store, "safetensors", tmp_path / "out")
    assert (tmp_path / "out" / "adapter" / "adapter_config.json").is_file() and any("adapter" in n for n in found.notes)
    assert sum("adapter" in Path(f).parent.name for f in found.files) == 2
    own = Project(SourceInfo("file.pt2", "own"), done.graph, Recipe(), done.graph)
    export(own, opened.store, "safetensors", tmp_path / "own")
    module = load_folder(tmp_path / "own")
    assert sum(isinstance(m, LowRank) for m in module.modules()) == len(list(adapted(done.graph)))


# -- recipes


@pytest.mark.slow
def test_the_form_of_the_labs() -> None:
    recipe = load_recipe({"insert_lora_adapter_transform_pass": {"rank": 6, "alpha": 1.0, "dropout": 0.5},
                          "fuse_lora_weights_transform_pass": {}})  # fmt: skip
    assert [s.pass_name for s in recipe.steps] == ["lora", "fuse_lora"]
    assert recipe.steps[0].options == LoraOptions(6, 1.0, 0.5)
    held = case("bert")
    graph = held.graph
    for each in recipe.steps:
        graph, _ = step(graph, held, each.pass_name, each.options)
    assert graph == held.graph  # B is 0, so nothing was added


@pytest.mark.parametrize("wrong", [{"rank": -1}, {"alpha": float("nan")}, {"dropout": 1.0}, {"alpha": -2.0}])
def test_wrong_options_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionsError):
        LoraOptions(**wrong)  # type: ignore[arg-type]


def test_a_scale_given_for_a_format_stays() -> None:
    held = case("mlp")
    graph, _ = step(held.graph, held, "lora", LoraOptions(2))
    node = next(n for n, _ in adapted(graph))
    given = Tensor(np.full((node.ports["weight"].sizes({})[0], 1), 0.1, np.float32), "float32")
    from espalier.model.graph.meta import Weight

    scale = Weight(held.store.hold(given), given.shape, "float32", "buffer", False)
    chosen = replace(node, precision={"weight": Precision(ScaledInteger(8), "scale")})
    fused, _ = step(graph.with_weights({"scale": scale}).replace(chosen), held, "fuse_lora", FuseLoraOptions())
    assert fused[node.id].precision["weight"].scale == "scale" and "scale" in fused.weights


def test_only_layers_with_a_matrix_can_have_one() -> None:
    held = case("bert")
    with pytest.raises(EspalierError, match="can be given an adapter"):
        step(held.graph, held, "lora", LoraOptions(2, select=Select("type", ("norm",))))
