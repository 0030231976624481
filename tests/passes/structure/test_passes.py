"""Structured pruning as a user has it: options, counts, scores, messages, and what lies beside the weights."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from espalier.model.data.base import Split
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, OptionsError, PassError
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, NoOptions, Report, run_step
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export.checkpoint import same_architecture
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.structure.blocks import chains
from espalier.passes.structure.layers import influence
from espalier.passes.structure.masks import kept_elements
from espalier.passes.structure.scores import Amount, fewest, scores
from espalier.passes.structure.sets import structure_of
from espalier.passes.transform.learn_scales import LearnScalesOptions
from espalier.passes.transform.remove_layers import RemoveLayersOptions
from espalier.passes.transform.remove_pruned import RemovePrunedOptions
from espalier.passes.transform.replace_linear import ReplaceLinearOptions
from tests.model.zoo import Case, case, run
from tests.passes.structure.cases import Attend, Text, differ, named, shaken


def do(held: Case, graph: Graph, name: str, options: Any, seed: int = 0) -> tuple[Graph, Report]:
    found = run_step(graph, Step(name, options, seed), Context(held.store, seed, callables=held.traced.callables))
    return found.graph, found.report


def prune(held: Case, graph: Graph, *args: Any, **more: Any) -> tuple[Graph, Report]:
    return do(held, graph, "prune_structured", PruneStructuredOptions(*args, **more))


def remove(held: Case, graph: Graph) -> tuple[Graph, Report]:
    return do(held, graph, "remove_pruned", RemovePrunedOptions())


# -- amounts


class _Named:
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("amount", "left"),
    [(Amount(0.5), (5, 2)), (Amount(0.0), (10, 4)), (Amount(1.0), (1, 1)), (Amount(0.25), (8, 3)),
     (Amount(0.0, 3), (7, 1)), (Amount(0.5, multiple=4), (8, 4)), (Amount(1.0, multiple=8), (8, 4))],
)  # fmt: skip
def test_amounts_are_exact(amount: Amount, left: tuple[int, int]) -> None:
    """round(ratio·n) go, half to even; one unit stays; what stays is raised to the multiple, as far as there are."""
    sets: list[Any] = [_Named(10), _Named(4)]
    worth = {s: np.arange(s.size, dtype=float) for s in sets}
    found = fewest(worth, {s: np.zeros(s.size, bool) for s in sets}, amount)
    assert tuple(int((~found[s]).sum()) for s in sets) == left
    assert all(not np.any(found[s][1:] > found[s][:-1]) for s in sets)  # the least worth first, ties by number


def test_of_all_sets_together_the_least_worth_go() -> None:
    one, other = _Named(4), _Named(4)
    worth: Any = {one: np.array([1.0, 1, 1, 1]), other: np.array([0.1, 0.1, 0.1, 9.7])}
    none: Any = {one: np.zeros(4, bool), other: np.zeros(4, bool)}
    found: Any = fewest(worth, none, Amount(3 / 8, scope="global"))
    assert found[one].sum() == 0 and found[other].tolist() == [True] * 3 + [False]
    again: Any = fewest(
        {k: v * (1 if k is one else 100) for k, v in worth.items()}, none, Amount(3 / 8, scope="global")
    )
    assert again[other].tolist() == found[other].tolist()  # each set over its mean: a scale of weights is no worth


def test_pruned_units_count_as_gone() -> None:
    held = case("bert")
    once, _ = prune(held, shaken(held), "neurons", 0.5)
    twice, report = prune(held, once, "neurons", 0.5)
    assert twice == once and report.summary["gone"] == 32
    more, _ = prune(held, once, "neurons", 0.75)
    rows = kept_elements(more.nodes["bert_pooler_dense"], "bias", (16,), held.store)
    before = kept_elements(once.nodes["bert_pooler_dense"], "bias", (16,), held.store)
    assert rows is not None and before is not None and not (rows & ~before).any() and rows.sum() == 4


# -- masks


def test_masks_cover_rows_biases_columns_and_norms() -> None:
    held = case("image")
    graph, report = prune(held, shaken(held), "channels", 0.5, select=Select("name", ("norm",)))
    assert {r["node"] for r in report.rows} == {"stem"}
    module = build(graph, held.store)
    seen: dict[str, torch.Tensor] = {}
    module.get_submodule("norm").register_forward_hook(lambda m, i, o: seen.update(norm=o))
    run(module, held.fresh(2, 1))
    assert (seen["norm"].abs().amax((0, 2, 3)) == 0).sum() == 2  # one of 2 groups of 2 channels


AFTER = (PruneOptions(0.3), PruneOptions(0.7), PruneOptions(0.0), PruneOptions(0.6, scope="global"),
         PruneOptions(pattern="n:m"))  # fmt: skip


@pytest.mark.parametrize("options", AFTER)
def test_structures_stay_when_elements_are_pruned_after_them(options: PruneOptions) -> None:
    held = case("bert")
    before, _ = prune(held, shaken(held), "heads", 0.5)
    after, _ = do(held, before, "prune", options)
    for node in (n for n in before if "weight" in n.sparsity):
        now, shape = after.nodes[node.id].sparsity, node.ports["weight"].sizes({})
        old, new = (kept_elements(g.nodes[node.id], "weight", shape, held.store) for g in (before, after))
        assert old is not None and new is not None and not (new & ~old).any()
        assert now["weight"].pattern == f"heads+{options.pattern}" and now.get("bias") == node.sparsity.get("bias")
        if options.scope == "local" and options.pattern == "element":
            assert now["weight"].zeros == max(round(options.sparsity * old.size), int((~old).sum()))
    back, _ = do(held, after, "prune", PruneOptions(0.0))
    masks = ({n.id: s.mask for n in g if (s := n.sparsity.get("weight"))} for g in (before, back))
    assert next(masks) == next(masks)
    smaller, report = remove(held, after)
    assert sum(r["removed"] for r in report.rows if r["kind"] == "heads") == 2
    assert differ(after, smaller, held) < 2e-5


def test_a_mask_is_named_after_its_structure_and_joins_others() -> None:
    held = case("bert")
    graph, _ = do(held, shaken(held), "prune", PruneOptions(0.3))
    graph, _ = prune(held, graph, "heads", 0.5)
    graph, _ = prune(held, graph, "width", 0.5)
    query = graph.nodes["bert_encoder_layer_0_attention_self_query"].sparsity
    assert query["weight"].pattern == "element+heads+width" and query["bias"].pattern == "heads"
    kept = kept_elements(graph.nodes["bert_encoder_layer_0_attention_self_query"], "weight", (16, 16), held.store)
    assert kept is not None and kept.sum() <= 64 and query["weight"].zeros == 256 - kept.sum()


def test_training_under_the_masks_keeps_the_zeros() -> None:
    held = case("bert")
    graph, _ = prune(held, shaken(held), "heads", 0.5)
    module = build(graph, held.store)
    before = run(module, held.fresh(2, 7))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module(**held.fresh(2, 7))["logits"].square().sum().backward()
    optimizer.step()
    trained = read_back(module, graph, held.store)
    small, report = remove(held, trained)
    assert report.summary["removed"] == 2 and differ(trained, small, held) < 2e-5
    assert not torch.allclose(run(held.build(small), held.fresh(2, 7))[0], before[0])


@pytest.mark.slow
def test_groups_that_share_a_key_are_the_heads_and_their_queries_are_apart() -> None:
    held = named(f"text-{next(i for i in range(99) if _grouped(i))}")
    structure = structure_of(held.graph)
    heads = next(s for s in structure.sets if s.kind == "heads" and any(q.kind == "queries" and
                 {m.weight for m in q.members} < {m.weight for m in s.members} for q in structure.sets))  # fmt: skip
    assert len({m.weight for m in heads.members if m.role == "rows" and m.port == "weight"}) == 3  # query, key, value


def _grouped(seed: int) -> bool:
    parts = [p for p in Text(seed).parts if isinstance(p, Attend) and p.kind == "apart"]
    return any(p.groups > 1 and p.more > 1 for p in parts)


# -- scores


def test_l1_and_l2_sum_over_all_that_goes_with_a_unit() -> None:
    held = case("mlp")
    graph = shaken(held)
    tensors = {k: held.store.get(w.key or "").float32() for k, w in graph.weights.items()}
    first, bias, second = tensors["first.weight"], tensors["first.bias"], tensors["second.weight"]
    worth = {"l1": np.abs(first).sum(1) + np.abs(bias) + np.abs(second).sum(0),
             "l2": (first**2).sum(1) + bias**2 + (second**2).sum(0)}  # fmt: skip
    for how, values in worth.items():
        after, _ = prune(held, graph, "neurons", 0.5, score=how)
        kept = kept_elements(after.nodes["first"], "bias", (6,), held.store)
        assert kept is not None and set(np.flatnonzero(~kept)) == set(np.argsort(values)[:3])


def test_random_units_hang_on_the_seed() -> None:
    held = case("bert")
    graph = shaken(held)
    options = PruneStructuredOptions("neurons", 0.5, score="random")
    found = [do(held, graph, "prune_structured", options, seed)[0] for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


DATA = {"data": "demo:digits", "limit": 48, "batch_size": 16}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Context]:
    opened = open_source("demo:digits", tmp_path_factory.mktemp("digits"))
    return opened.project.graph, Context(opened.store, callables=opened.callables)


def test_taylor_is_the_derivative_by_a_gate(digits: tuple[Graph, Context]) -> None:
    """The sum of g·w over a channel's readers, against a gate that shuts the channel before them."""
    graph, context = digits
    structure = structure_of(graph)
    free = [s for s in structure.sets if s.kind == "channels" and not s.blocked][:1]
    split = load_split(EvaluateOptions(split="train", **DATA), context)
    found = scores(structure, free, "taylor", split, 48, context)[free[0]]
    reader = next(m.node for m in free[0].members if m.role == "columns")
    module = build(graph, context.store)
    gate = torch.ones(free[0].size, requires_grad=True)
    layer = module.get_submodule(graph.nodes[reader].target)
    layer.register_forward_pre_hook(lambda m, args: (args[0] * gate.reshape(1, -1, 1, 1),))
    inputs, labels = next(batches(split, graph, 48))
    torch.nn.functional.cross_entropy(run_loss(module, inputs), labels).backward()
    assert gate.grad is not None
    assert np.allclose(found, gate.grad.abs().numpy(), rtol=1e-3, atol=1e-6)


def run_loss(module: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    result = module(**inputs)
    return result["logits"] if isinstance(result, dict) else result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("score", ["taylor", "activation"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_scores_on_data_prune_and_remove(digits: tuple[Graph, Context], score: Any, scope: Any) -> None:
    graph, context = digits
    options = PruneStructuredOptions("channels", 0.3, score=score, scope=scope, **DATA)
    masked = run_step(graph, Step("prune_structured", options), context)
    small = run_step(masked.graph, Step("remove_pruned", RemovePrunedOptions()), context)
    assert masked.report.summary["gone"] > 0 == small.report.summary["nodes"]
    assert small.report.summary["removed"] == masked.report.summary["gone"]


# -- removal of what lies beside weights


@pytest.mark.slow
def test_formats_scales_and_other_masks_are_cut_with_the_weights() -> None:
    held = case("bert")
    rule = Rule(Select("type", ("linear",)), {"weight": ScaledInteger(8), "data_in": ScaledInteger(8)})
    graph, _ = do(held, shaken(held), "quantize", QuantizeOptions((rule,)))
    graph, _ = do(held, graph, "learn_scales", LearnScalesOptions(ports=("weight",)))
    graph, _ = do(held, graph, "prune", PruneOptions(0.4))
    graph, _ = prune(held, graph, "neurons", 0.5)
    graph, _ = prune(held, graph, "heads", 0.5)
    small, report = remove(held, graph)
    assert differ(graph, small, held) < 2e-5 and report.summary["removed"] > 30
    node = small.nodes["bert_encoder_layer_0_intermediate_dense"]
    assert small.weights[node.precision["weight"].scale or ""].shape == (12, 1)
    assert 0 < node.sparsity["weight"].zeros < 12 * 16 and "bias" not in node.sparsity


class Up(torch.nn.Module):
    """Transposed convolutions in groups: a module, and a function of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.up = torch.nn.Conv2d(2, 6, 3), torch.nn.ConvTranspose2d(6, 8, 3, groups=2)
        self.own, self.head = torch.nn.Parameter(torch.randn(8, 3, 3, 3)), torch.nn.Conv2d(6, 3, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        y = self.up(self.stem(image).relu()).relu()
        return self.head(F.conv_transpose2d(y, self.own, groups=2).relu()).mean((2, 3))


@pytest.mark.slow
def test_scales_of_groups_are_cut_with_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, example, store = Up().eval(), {"image": torch.randn(2, 2, 8, 8)}, WeightStore(tmp_path)
    held = Case("up", model, example, store, trace(model, example, store), {})
    rule = Rule(Select("type", ("conv_transpose2d",)), {"weight": ScaledInteger(8)})
    graph, _ = do(held, shaken(held), "quantize", QuantizeOptions((rule,)))
    graph, _ = do(held, graph, "learn_scales", LearnScalesOptions(ports=("weight",)))
    graph, _ = prune(held, graph, "channels", 0.5)
    small, report = remove(held, graph)
    assert report.summary["removed"] > 0 and differ(graph, small, held) < 2e-5
    layers = [n for n in small if n.op == "conv_transpose2d"]
    rows = {n.id: small.weights[n.precision["weight"].scale or ""].shape[0] for n in layers}
    assert rows == {n.id: n.ports["data_out"].shape[1] for n in layers} and min(rows.values()) < 6


def test_blocks_of_a_format_begin_anew_and_the_model_still_runs() -> None:
    held = case("bert")
    rule = Rule(Select("type", ("linear",)), {"weight": MXInt(8, 4), "data_in": MXInt(8, 4)})
    graph, _ = do(held, shaken(held), "quantize", QuantizeOptions((rule,)))
    graph, _ = prune(held, graph, "neurons", 0.5)
    assert differ(graph, remove(held, graph)[0], held) < 0.05


@pytest.mark.parametrize("name", ["bert", "gpt2", "image", "attention"])
def test_adapters_are_cut_with_their_layers(name: str) -> None:
    held = case(name)
    graph, _ = do(held, shaken(held), "lora", LoraOptions(2))
    graph, _ = prune(held, graph, "channels" if name == "image" else "heads", 0.5)
    small, report = remove(held, graph)
    assert report.summary["removed"] >= 1 and differ(graph, small, held) < 2e-5  # B is zero: only sizes can be wrong
    parameters = parameters_of(held.build(small))
    assert all(tuple(parameters[k].shape) == w.shape for k, w in small.weights.items() if k in parameters)


def test_a_model_without_weights_keeps_its_masks_and_asks_for_weights() -> None:
    held = case("bert")
    hollow = held.graph.with_weights({k: replace(w, key=None) for k, w in held.graph.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        prune(held, hollow, "heads", 0.5)


# -- layers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "deep-0", "deep-2"])
def test_masked_layers_are_removed_without_a_change(name: str) -> None:
    held = named(name)
    graph, report = prune(held, shaken(held), "layers", 0.5)
    small, removal = remove(held, graph)
    assert report.summary["gone"] >= 1 and removal.summary["nodes"] > 0
    assert differ(graph, small, held) < 2e-5
    assert removal.summary["parameters"] < removal.summary["parameters_before"]


def test_a_post_norm_layer_is_no_mask() -> None:
    held = case("bert")
    with pytest.raises(EspalierError, match="pure residual branch") as caught:
        prune(held, held.graph, "layers", 0.5)
    assert "Remove layers" in caught.value.hint


@pytest.mark.slow
def test_layers_are_passed_by() -> None:
    """As the model runs whose own list of layers is shorter."""
    held = named("deep-0")
    after, report = do(held, held.graph, "remove_layers", RemoveLayersOptions(numbers=(0, 2)))
    assert report.summary == {"layers": 4, "removed": 2, "nodes": len(held.graph) - len(after)}
    original: Any = copy.deepcopy(held.original)
    del original.layers[2], original.layers[0]
    inputs = held.fresh(3, 6)
    assert torch.equal(run(held.build(after), inputs)[0], run(original, inputs)[0])


@pytest.mark.slow
def test_layers_go_evenly_spread_or_last_and_one_stays() -> None:
    held = named("deep-0")
    for pick, ratio, want in (
        ("spread", 0.5, [1, 3]),
        ("last", 0.5, [2, 3]),
        ("last", 1.0, [1, 2, 3]),
        ("spread", 0, []),
    ):
        options = RemoveLayersOptions(ratio=ratio, pick=pick)  # type: ignore[arg-type]
        after, report = do(held, held.graph, "remove_layers", options)
        assert [i for i, r in enumerate(report.rows) if r["removed"]] == want
        run(held.build(after), held.fresh(2, 5))


def test_layers_of_a_post_norm_model_are_passed_by() -> None:
    held = case("bert")
    after, _ = do(held, shaken(held), "remove_layers", RemoveLayersOptions(numbers=(0,)))
    assert not any(".layer.0." in name for name in after.weights)
    run(held.build(after), held.fresh(2, 7))
    with pytest.raises(EspalierError, match="no repeated residual layers"):  # one is no stack
        do(held, after, "remove_layers", RemoveLayersOptions())


def test_a_layer_that_does_not_exist_is_named() -> None:
    held = case("bert")
    with pytest.raises(EspalierError, match="has no layer 7") as caught:
        do(held, held.graph, "remove_layers", RemoveLayersOptions(numbers=(7,)))
    assert "0, 1" in caught.value.hint


@pytest.mark.slow
def test_a_layer_that_does_nothing_has_no_influence() -> None:
    """A pre-norm layer whose branches end in zeros hands on what it takes."""
    held = named("deep-1")
    graph, _ = prune(held, shaken(held), "layers", 0.5, score="random")
    blocks = list(chains(graph)[0].blocks)
    split = Split({"ids": held.fresh(4, 9)["ids"].numpy()}, np.zeros(4, np.int64))
    worth = influence(graph, blocks, split, 2, Context(held.store))
    assert [w < 1e-6 for w in worth] == [bool(graph.nodes[b.branches[0]].sparsity) for b in blocks]
    assert sum(w < 1e-6 for w in worth) == 2


# -- identity


def test_square_linears_become_identities() -> None:
    held = case("bert")
    graph = shaken(held)
    after, report = do(held, graph, "replace_linear", ReplaceLinearOptions(Select("regex", ("attention",))))
    assert report.summary["replaced"] == 8 and report.summary["parameters_gone"] == 8 * 272
    assert all(n.op == "identity" for n in after if "attention_self_query" in n.id)
    run(held.build(after), held.fresh(2, 5))


def test_a_linear_that_is_not_square_is_named() -> None:
    held = case("mlp")
    with pytest.raises(EspalierError, match=r"first \(4 → 6\)") as caught:
        do(held, held.graph, "replace_linear", ReplaceLinearOptions(Select("name", ("first",))))
    assert caught.value.node == "first"


def test_one_of_two_calls_of_a_layer_becomes_an_identity() -> None:
    held = case("twice")
    graph = shaken(held)
    after, _ = do(held, graph, "replace_linear", ReplaceLinearOptions(Select("name", ("layer_2",))))
    module, inputs = held.build(after), held.fresh(2, 1)
    original = held.build(graph)
    want = original.layer_1(torch.relu(original.layer(inputs["x"])))
    assert torch.equal(run(module, inputs)[0], want)


# -- what is told


@pytest.mark.parametrize(
    ("name", "what", "text", "node"),
    [("image", "neurons", "output prevents the removal", "output"), ("mlp", "heads", "has no attention heads", None),
     ("bert", "channels", "has no channels", None), ("attention", "width", "x prevents the removal", "x"),
     ("choosy", "neurons", "runs its own code", None), ("mlp", "layers", "no repeated residual layers", None)],
)  # fmt: skip
def test_what_prevents_a_removal_is_named(name: str, what: Any, text: str, node: str | None) -> None:
    held = case(name)
    with pytest.raises(EspalierError, match=text) as caught:
        prune(held, held.graph, what, 0.5)
    assert caught.value.hint and caught.value.node == node


def test_data_is_asked_for_and_bad_options_are_refused() -> None:
    held = case("mlp")
    with pytest.raises(PassError, match="needs data"):
        prune(held, held.graph, "neurons", 0.5, score="taylor")
    with pytest.raises(OptionsError):
        PruneStructuredOptions("neurons", 1.5)
    with pytest.raises(OptionsError):
        RemoveLayersOptions(ratio=-1)


def test_nothing_masked_is_nothing_removed() -> None:
    held = case("bert")
    after, report = remove(held, held.graph)
    assert after is held.graph and report.summary["removed"] == 0
    assert "no unit is fully masked. Prune structures first." in report.summary["warning"]
    _, report = do(held, held.graph, "remove_pruned", RemovePrunedOptions(Select("type", ("linear",))))
    assert report.summary["warning"].endswith("or select all.")


def test_units_that_something_holds_stay_and_are_told() -> None:
    held = case("mlp")
    graph, _ = do(held, shaken(held), "prune", PruneOptions(1.0))
    small, report = remove(held, graph)
    notes = {(r["node"], r["units"]): r["note"] for r in report.rows}
    assert notes["first", 6] == "one stays" and notes["first", 4].startswith("kept: x: ")
    assert small.weights["second.weight"].shape == (3, 1)
    assert differ(graph, small, held) < 2e-5


def test_a_smaller_model_is_of_another_architecture() -> None:
    for name in ("bert", "attention"):
        held = case(name)
        graph, _ = prune(held, held.graph, "heads", 0.5)
        assert same_architecture(held.graph, graph)
        assert not same_architecture(held.graph, remove(held, graph)[0])


def test_the_report_of_structure() -> None:
    held = case("bert")
    graph, _ = prune(held, held.graph, "heads", 0.5)
    report = do(held, graph, "structure", NoOptions())[1]
    heads = [r for r in report.rows if r["kind"] == "heads"]
    assert [(r["units"], r["masked"]) for r in heads] == [(2, 1), (2, 1)]
    assert heads[0]["members"] == "self.query, self.key, self.value rows; output.dense columns"
    assert next(r for r in report.rows if r["node"] == "classifier")["blocked"].startswith(
        "output: it is an output of the model"
    )
    assert report.summary["heads"] == 4 and report.summary["layers"] == 2
