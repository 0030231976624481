"""Capturing models: the rebuilt graph computes what the original does, bit for bit, at other sizes too."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.errors import GraphError, TraceError
from espalier.model.graph.check import check
from espalier.model.graph.graph import sort
from espalier.model.graph.ops import kind
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.passes.analysis.count_dropout import count_dropout
from espalier.passes.base import Context, NoOptions
from tests.model.zoo import MODELS, OWN, SLOW, case, copied, run, same, slow, tensors

EXPORTED = [n for n in MODELS if n != "choosy"]


def each(*names: str) -> pytest.MarkDecorator:
    marked = [slow(n) if n in SLOW else n for n in names or MODELS]
    return pytest.mark.parametrize("name", marked)


@each()
def test_outputs_are_equal_bit_for_bit_at_other_sizes(name: str) -> None:
    held = case(name)
    built = held.build()
    for seed, (batch, length) in enumerate(held.sizes):
        inputs = held.fresh(batch, length, seed)
        want = held.expected(inputs)
        assert want and same(run(built, inputs), want), (batch, length)


@each()
def test_results_keep_their_names(name: str) -> None:
    held = case(name)
    inputs = held.fresh(2, 9)
    with torch.no_grad():
        want, got = copy.deepcopy(held.original)(**copied(inputs)), held.build()(**copied(inputs))
    if isinstance(want, Tensor):
        assert isinstance(got, Tensor)
    elif isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
    elif name != "many":  # nested results get names with dots
        assert list(got) == [k for k, v in want.items() if isinstance(v, Tensor)]


@each()
def test_the_graph_is_legal_and_in_order(name: str) -> None:
    graph = case(name).graph
    assert not [p for p in check(graph) if p.severity == "error"]
    assert list(sort(graph.nodes)) == list(graph.nodes)
    users = graph.users()
    assert all(users[n.id] or n.call in ("output", "placeholder") for n in graph if graph.runs == "graph")
    assert set(graph.weights) == {w for n in graph for w in n.weights.values()}


@each()
def test_tracing_leaves_the_model_alone(name: str) -> None:
    held = case(name)
    now = held.original.state_dict()
    assert list(held.state) == list(now) and all(torch.equal(held.state[k], v) for k, v in now.items())
    assert not any(m.training or m._forward_hooks or m._forward_pre_hooks for m in held.original.modules())


@each(*EXPORTED)
def test_leaf_modules_that_run_are_one_node_a_call(name: str) -> None:
    held, calls = case(name), Counter[str]()
    model = copy.deepcopy(held.original)
    for path, module in model.named_modules():
        if type(module) in (nn.Linear, nn.Conv2d, nn.LayerNorm, nn.BatchNorm2d, nn.Embedding, nn.Dropout):
            module.register_forward_hook(lambda *_, path=path: calls.update([path]))
    run(model, held.example)
    assert not calls - Counter(n.target for n in held.graph if n.call == "call_module")


@each(*EXPORTED)
def test_free_sizes_are_named(name: str) -> None:
    held = case(name)
    assert held.graph.symbols.get("batch") == next(iter(held.example.values())).shape[0]
    places = [place for group in held.traced.dynamic.values() for place in group]
    shapes = {f"{k}[{i}]" for k, v in held.example.items() if isinstance(v, Tensor) for i in range(v.dim())}
    assert {*places, *held.traced.fixed} == shapes and len(places) + len(held.traced.fixed) == len(shapes)
    for node in held.graph.placeholders:
        if "data_out" in node.ports:
            value = held.example[node.target]
            assert node.ports["data_out"].sizes(held.graph.symbols) == tuple(value.shape)
            assert str(value.dtype) == f"torch.{node.ports['data_out'].dtype}"


# -- what the labs look at


def test_the_inputs_decide_the_topology() -> None:
    plain, masked, labelled = (case(n).graph for n in ("bert-ids", "bert", "bert-labels"))
    assert [n.target for n in plain.placeholders] == ["input_ids"]
    assert [n.target for n in labelled.placeholders] == ["input_ids", "attention_mask", "labels"]
    assert len(plain) < len(masked) < len(labelled)
    assert plain.output_names == masked.output_names == ("logits",)
    assert labelled.output_names == ("loss", "logits")
    assert sum(n.op == "cross_entropy" for n in labelled) == 1
    assert all(n.op != "cross_entropy" for n in masked)
    assert any("attention_mask" in n.module_path for n in masked)


def test_bert_has_six_dropouts_and_the_labs_kinds() -> None:
    held = case("bert")
    report = count_dropout(held.graph, NoOptions(), Context(held.store))[1]
    assert report.summary["dropout_count"] == 6
    kinds = {n.op: kind(n) for n in held.graph}
    assert kinds["linear"] == kinds["dropout"] == kinds["layer_norm"] == kinds["embedding"] == "module_related_func"
    assert kinds["add"] == "builtin_func" and kinds["placeholder"] == "placeholder"
    assert kinds["sym_size"] == "implicit_func" and kinds["output"] == "output"
    assert kind(case("image").graph["norm"]) == "module"
    counts = Counter(n.op for n in held.graph)
    assert counts["linear"] == 14 and counts["layer_norm"] == 5 and counts["embedding"] == 3
    assert counts["scaled_dot_product_attention"] == 2
    assert Counter(n.op for n in case("bert-eager").graph)["matmul"] == 4


def test_nodes_know_where_they_come_from() -> None:
    graph = case("bert").graph
    query = next(n for n in graph if n.target == "bert.encoder.layer.0.attention.self.query")
    assert query.op == "linear" and query.module_path == query.target
    assert "modeling_bert.py:" in query.source
    assert query.weights == {"weight": f"{query.target}.weight", "bias": f"{query.target}.bias"}
    assert query.ports["data_in"].shape == ("batch", "seq", 16) and query.ports["weight"].shape == (16, 16)
    assert "zoo.py:" in case("functions").graph["exp"].source


def test_gpt2s_conv1d_is_a_linear() -> None:
    graph = case("gpt2").graph
    attention = next(n for n in graph if n.target.endswith("h.0.attn.c_attn"))
    assert attention.op == "linear" and attention.attrs["class"] == "Conv1D"
    assert attention.ports["weight"].shape == (16, 48)  # stored transposed


def test_masks_are_numbers_of_real_choices() -> None:
    """An attention mask with holes changes the result, so it is not traced away."""
    held = case("bert")
    inputs = held.fresh(2, 8)
    full = inputs | {"attention_mask": torch.ones_like(inputs["attention_mask"])}
    built = held.build()
    assert not same(run(built, inputs), run(built, full))


# -- weights


def test_weights_are_the_models_own() -> None:
    held = case("bert")
    state = dict(held.original.named_parameters())
    found = {k: w for k, w in held.graph.weights.items() if w.role == "parameter"}
    assert set(found) == set(state)
    for name, weight in found.items():
        assert weight.key is not None and weight.shape == tuple(state[name].shape) and weight.trainable
        assert torch.equal(torch.from_numpy(held.store.get(weight.key).array), state[name].detach())


def test_tied_weights_share_one_name() -> None:
    graph = case("tied").graph
    assert graph["embed"].weights["weight"] == graph["head"].weights["weight"] == "embed.weight"
    assert "head.weight" not in graph.weights
    gpt2 = case("gpt2").graph
    assert next(n for n in gpt2 if n.target == "lm_head").weights["weight"] == "transformer.wte.weight"


def test_odd_weights() -> None:
    weights = case("odd").graph.weights
    assert weights["brief.weight"].dtype == "bfloat16" and weights["brief.weight"].float_bits == 16
    assert weights["empty"].shape == (0, 4) and weights["empty"].elements == 0
    assert not weights["frozen"].trainable and weights["gain"].shape == ()
    assert not [n for n in weights if n.startswith("unused")]
    assert case("image").graph.weights["norm.running_mean"].role == "buffer"
    assert {w.role for w in case("many").graph.weights.values()} == {"parameter", "constant"}


def test_a_module_called_twice_is_two_nodes() -> None:
    nodes = [n for n in case("twice").graph if n.target == "layer"]
    assert len(nodes) == 2 and nodes[0].weights == nodes[1].weights
    assert nodes[0].id != nodes[1].id != "layer_1"
    assert [n.module_path for n in nodes] == ["layer", "layer@1"]


@pytest.mark.slow
def test_without_weights_the_graph_is_there_but_cannot_run() -> None:
    loaded = load_source("config:bert?hidden_size=512&num_hidden_layers=1&num_attention_heads=8&weights=none")
    store = WeightStore(Path("unwritten"))
    traced = trace(loaded.model, loaded.example, store)
    assert len(traced.graph) > 30 and all(w.key is None for w in traced.graph.weights.values())
    with pytest.raises(GraphError, match="without weights"):
        build(traced.graph, store)


# -- what cannot be taken apart


def test_branches_are_opaque_and_run() -> None:
    held = case("branches")
    (node,) = [n for n in held.graph if n.call == "opaque"]
    assert [(p.node, p.severity) for p in held.traced.problems] == [(node.id, "warning")]
    assert list(held.traced.callables) == [node.target]
    with pytest.raises(GraphError, match="its function is not loaded") as caught:
        build(held.graph, held.store)
    assert caught.value.node == node.id


def test_what_torch_cannot_export_is_recorded() -> None:
    held = case("choosy")
    assert held.graph.runs == "module"
    assert [n.target for n in held.graph if n.call == "call_module"] == ["first", "drop", "second"]
    (problem,) = held.traced.problems
    assert problem.severity == "warning" and "recorded from one run" in problem.message
    assert held.traced.fixed == ("x[0]", "x[1]") and not held.traced.dynamic
    with pytest.raises(GraphError, match="own code"):
        build(held.graph, held.store)


def test_what_does_not_even_run_is_refused() -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("out of order")

    with pytest.raises(TraceError, match="RuntimeError: out of order"):
        trace(Broken(), {"x": torch.zeros(2, 2)}, WeightStore(Path("unwritten")))


def test_lost_writes_are_told() -> None:
    texts = [p.message for p in case("in-place-input").traced.problems]
    assert len(texts) == 2 and all("writes into" in t for t in texts)
    assert "calls" in texts[0] and " x;" in texts[1]
    assert len(tensors(case("in-place-input").build()(x=torch.zeros(2, 4)))) == 1


def test_fixed_sizes_are_told() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(3, 4) + torch.arange(4) * int(x.shape[0])

    traced = trace(Fixed(), {"x": torch.zeros(3, 4)}, WeightStore(Path("unwritten")))
    assert traced.fixed == ("x[0]", "x[1]") and not traced.graph.symbols


class Sized(nn.Module):
    """A Linear, then a function that looks at the sizes."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize(
    ("function", "free"),
    [
        (lambda x: x * float(x.shape[0]) ** 0.5, {"seq"}),
        (lambda x: x / float(x.numel()) ** 0.5, set()),
        (lambda x: x * math.sqrt(x.shape[0] * x.shape[1] + 1), set()),
        (lambda x: x * x.shape[0] ** 0.5, {"batch", "seq"}),
        (lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1], 4).flatten(0, 1), {"batch", "seq"}),
    ],
)
def test_sizes_that_become_numbers_are_fixed(function: Callable[[Tensor], Tensor], free: set[str]) -> None:
    """torch.export calls them free when only their product is a number."""
    store, model = WeightStore(Path("unwritten")), Sized(function).eval()
    traced = trace(model, {"x": torch.randn(4, 6, 4)}, store)
    assert set(traced.dynamic) == free == set(traced.graph.symbols)
    built = build(traced.graph, store)
    for batch, length in ((4, 6), (2, 6), (8, 9)):
        sizes = (batch if "batch" in free else 4, length if "seq" in free else 6, 4)
        inputs = {"x": torch.randn(sizes)}
        assert same(run(built, inputs), run(model, inputs)), sizes


def test_a_branch_on_a_size_is_reported() -> None:
    model = Sized(lambda x: x * 2 if x.shape[0] > 4 else x)
    traced = trace(model, {"x": torch.randn(6, 4)}, WeightStore(Path("unwritten")))
    (problem,) = traced.problems
    assert problem.severity == "warning" and "batch > 4" in problem.message and "test_trace.py" in problem.message


@pytest.mark.parametrize("name", OWN)
def test_equal_models_give_equal_graphs(name: str) -> None:
    model, example = MODELS[name]()
    again = trace(model, example, WeightStore(Path("unwritten")))
    assert again.graph == case(name).graph
