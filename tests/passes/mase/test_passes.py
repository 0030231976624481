"""Passes written for MASE run unchanged, and what they do to torch.fx comes back as our graph."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.document.recipe import Step
from espalier.model.errors import GraphError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.meta import Precision
from espalier.model.registry import PASSES
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, StepResult, run_step
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.mase.adapter import MaseOptions
from espalier.passes.mase.lending import lend
from espalier.passes.mase.loan import Loan
from espalier.passes.plugins.plugins import load_plugin
from espalier.passes.recipes.config import load_recipe
from espalier.passes.transform.prune import prune

FILE = Path(__file__).with_name("student_passes.py")
QUERY = "bert_encoder_layer_0_attention_self_query"


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load_plugin(FILE)


def inputs(batch: int, length: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch * 100 + length)
    ids = torch.randint(0, 100, (batch, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Context]:
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(BertConfig(**sizes, vocab_size=100, num_labels=2)).eval()
    store = WeightStore(tmp_path_factory.mktemp("tensors"))
    return trace(model, inputs(2, 8), store).graph, Context(store)


@pytest.fixture
def graph(traced: tuple[Graph, Context]) -> Graph:
    return traced[0]


@pytest.fixture
def context(traced: tuple[Graph, Context]) -> Iterator[Context]:
    before = {k: w.key for k, w in traced[0].weights.items()}
    yield traced[1]
    # No pass may have written into the base's weights.
    store = traced[1].store
    assert {k: store.get(key or "").key() for k, key in before.items()} == before, (
        "a pass wrote into the base's weights"
    )


def run(name: str, graph: Graph, context: Context, **args: Any) -> StepResult:
    done = run_step(graph, Step(name, MaseOptions(args)), context)
    assert not [p for p in check(done.graph) if p.severity == "error"]
    assert graph_from_json(graph_to_json(done.graph)) == done.graph
    return done


def logits(graph: Graph, context: Context, batch: int = 3, length: int = 11) -> torch.Tensor:
    with torch.no_grad():
        return build(graph, context.store)(**inputs(batch, length))["logits"]


@pytest.mark.slow
def test_an_analysis_leaves_the_graph_itself(graph: Graph, context: Context) -> None:
    done = run("count_dropout_analysis_pass", graph, context)
    assert done.graph is graph
    assert done.report.summary == {"dropout_count": 4}
    assert PASSES.get("count_dropout_analysis_pass").kind == "analysis"


@pytest.mark.slow
def test_removing_agrees_with_our_own_pass(graph: Graph, context: Context) -> None:
    after = run("remove_dropout_transform_pass", graph, context).graph
    ours = run_step(graph, Step("remove_dropout", PASSES.get("remove_dropout").options()), context).graph
    inside = [n for n in after if n.op == "scaled_dot_product_attention"]  # MASE counts layers only
    assert inside and all(n.attrs == {"dropout_p": 0.1} for n in inside)
    assert after.replace(*(replace(n, attrs={}) for n in inside)) == ours
    assert torch.equal(logits(after, context), logits(graph, context))


@pytest.mark.slow
def test_erasing_a_used_node_names_its_users(graph: Graph, context: Context) -> None:
    with pytest.raises(GraphError, match=f"careless_transform_pass erases .* still used by {QUERY}") as caught:
        run("careless_transform_pass", graph, context)
    assert caught.value.node == "bert_embeddings_dropout"


def test_an_analysis_may_not_change_the_graph(graph: Graph, context: Context) -> None:
    with pytest.raises(PassError, match="changed the graph"):
        run("false_analysis_pass", graph, context)


def test_inserted_nodes_of_all_kinds(graph: Graph, context: Context) -> None:
    torch.manual_seed(1)
    after = run("insert_transform_pass", graph, context, slope=0.25).graph
    delta = after.delta(graph)
    assert [after[n].op for n in delta.added if after[n].call == "call_module"] == ["linear"]
    assert after["leaky_relu"].args == (Ref("bert_embeddings_dropout"), 0.25)
    assert after["flatten"].ports["data_out"].shape == ("batch", "seq", 32)
    assert after[QUERY].args == (Ref("flatten"),)
    assert after.weights["scale.by"].elements == 32 and after.weights["more.weight"].elements == 1024
    value = {k: torch.from_numpy(context.store.get(w.key or "").array) for k, w in after.weights.items()}
    for batch, length in ((2, 8), (5, 3)):  # free sizes stay free
        built = build(after, context.store)
        seen: dict[str, torch.Tensor] = {}
        built.get_submodule("bert.embeddings.dropout").register_forward_hook(
            lambda m, i, o, seen=seen: seen.update(before=o)
        )
        built.get_submodule("bert.encoder.layer.0.attention.self.query").register_forward_pre_hook(
            lambda m, i, seen=seen: seen.update(after=i[0])
        )
        built(**inputs(batch, length))
        scaled = torch.nn.functional.leaky_relu(seen["before"], 0.25).abs() * value["scale.by"]
        expected = torch.nn.functional.linear(scaled, value["more.weight"], value["more.bias"])
        torch.testing.assert_close(seen["after"], expected)


def test_weights_changed_in_place_become_new_tensors(graph: Graph, context: Context) -> None:
    done = run("double_transform_pass", graph, context)
    assert done.graph.nodes == graph.nodes
    assert done.report.summary["linear"] == 8
    assert done.report.summary["norm"] == 3.0 and "2 × 2" in done.report.summary["matrix"]
    name = graph[QUERY].weights["weight"]
    old, new = (context.store.get(g.weights[name].key or "").array for g in (graph, done.graph))
    assert (new == 2 * old).all()


def test_exchanged_modules_and_parameters(graph: Graph, context: Context) -> None:
    chosen = {"weight": Precision(Integer(8, 6)), "data_in": Precision(Integer(8, 4))}
    base, _ = prune(graph.replace(replace(graph[QUERY], precision=chosen)), PruneOptions(0.5), context)
    after = run("exchange_transform_pass", base, context).graph
    changed = {k for k in graph.weights if after.weights[k].key != base.weights[k].key}
    assert changed == {graph[QUERY].weights["weight"], "bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert not context.store.get(after.weights[graph[QUERY].weights["weight"]].key or "").array.any()
    assert after[QUERY].precision == chosen and after[QUERY].sparsity == base[QUERY].sparsity


def test_choices_survive_an_edit_elsewhere(graph: Graph, context: Context) -> None:
    chosen = {
        "weight": Precision(Integer(8, 6)),
        "data_in": Precision(Integer(8, 4)),
        "data_out": Precision(Integer(8, 4)),
    }
    base, _ = prune(graph.replace(replace(graph[QUERY], precision=chosen)), PruneOptions(0.5), context)
    after = run("remove_dropout_transform_pass", base, context).graph
    assert after[QUERY].precision == chosen and after[QUERY].sparsity == base[QUERY].sparsity
    assert torch.equal(logits(after, context), logits(base, context))


def test_formats_and_masks_do_not_show_but_hold(graph: Graph, context: Context) -> None:
    chosen = dict.fromkeys(("data_in", "weight", "data_out"), Precision(Integer(6, 3)))
    base, _ = prune(graph.replace(replace(graph[QUERY], precision=chosen)), PruneOptions(0.5), context)
    lent = Loan(lend(base, context), context)
    assert not [n for n in lent.mg.nodes if "effective" in str(n.target)]
    assert type(lent.mg.modules["bert.encoder.layer.0.attention.self.query"]) is torch.nn.Linear
    with torch.no_grad():
        assert torch.equal(lent.mg.model(**inputs(2, 8))["logits"], logits(base, context, 2, 8))
        twin = copy.deepcopy(lent.mg.model)
        twin.get_submodule("classifier").bias.add_(1)
        torch.testing.assert_close(twin(**inputs(2, 8))["logits"], logits(base, context, 2, 8) + 1)


def test_shapes_behind_a_change_are_found_again(graph: Graph, context: Context) -> None:
    after = run("widen_transform_pass", graph, context).graph
    assert after["cat"].ports["data_out"].shape == ("batch", 4)
    assert logits(after, context).shape == (3, 4)


def test_freezing_is_taken_over(graph: Graph, context: Context) -> None:
    after = run("freeze_transform_pass", graph, context).graph
    frozen = {k for k, w in after.weights.items() if not w.trainable and w.role == "parameter"}
    assert frozen == {k for k in graph.weights if "embeddings" in k and graph.weights[k].role == "parameter"}
    assert after.nodes == graph.nodes


def test_metadata_is_as_mase_knows_it(graph: Graph, context: Context) -> None:
    fmt = Precision(Integer(8, 4))
    base = graph.replace(replace(graph[QUERY], precision={"data_in": fmt}))
    found = run("metadata_analysis_pass", base, context).report
    assert found.summary["args"]["data_in_0"] == {
        "shape": [2, 8, 32],
        "torch_dtype": "torch.float32",
        "type": "fixed",
        "precision": [8, 4],
    }
    assert found.summary["args"]["weight"]["shape"] == [32, 32]
    assert found.summary["results"]["data_out_0"]["precision"] == [32]
    assert {"name": QUERY, "type": "module_related_func", "op": "linear"} in found.rows


def test_an_error_is_one_message_with_its_line(graph: Graph, context: Context) -> None:
    with pytest.raises(PassError) as caught:
        run("broken_transform_pass", graph, context, layers=7)
    line = next(i for i, text in enumerate(FILE.read_text().splitlines(), 1) if "no layer" in text)
    assert (
        caught.value.message
        == f"broken_transform_pass raised ValueError: no layer 7 (line {line} of student_passes.py)."
    )


def test_what_only_their_tool_has_says_so(graph: Graph, context: Context) -> None:
    with pytest.raises(PassError, match=r"chop\.passes\.raise_granularity_transform_pass is not available"):
        run("unavailable_transform_pass", graph, context)
    assert not [name for name in sys.modules if name.split(".")[0] == "chop"]


def test_a_pass_must_return_outputs(graph: Graph, context: Context) -> None:
    with pytest.raises(PassError, match="must return"):
        run("silent_transform_pass", graph, context)


def test_the_callers_options_are_not_altered(graph: Graph, context: Context) -> None:
    options = MaseOptions({"a": 1})
    run_step(graph, Step("mutating_analysis_pass", options), context)
    assert options.args == {"a": 1}


def test_recipes_name_them(graph: Graph, context: Context) -> None:
    recipe = load_recipe({"steps": [{"pass": "insert_transform_pass", "options": {"args": {"slope": 0.5}}}]})
    assert recipe.steps[0].options == MaseOptions({"slope": 0.5})
    after = run_step(graph, recipe.steps[0], context).graph
    assert after["leaky_relu"].args[1] == 0.5


def test_an_equal_argument_of_another_type_is_a_change(graph: Graph, context: Context) -> None:
    before = run("count_dropout_analysis_pass", graph, context).graph
    after = run("literal_transform_pass", before, context).graph
    (name,) = after.delta(graph).changed
    assert graph[name].args[1] == 1 and after[name].args[1] is True


def test_adapters_stay_beside_what_a_pass_changes(graph: Graph, context: Context) -> None:
    adapted = run_step(graph, Step("lora", LoraOptions(2)), context).graph
    doubled = run("double_transform_pass", adapted, context).graph
    plain = run("double_transform_pass", graph, context).graph
    assert {n.id: n.adapters for n in doubled} == {n.id: n.adapters for n in adapted}
    assert torch.allclose(logits(doubled, context), logits(plain, context), atol=1e-6)
    assert run("count_dropout_analysis_pass", adapted, context).graph is adapted
    removed = run("remove_dropout_transform_pass", adapted, context).graph
    assert sum(bool(n.adapters) for n in removed) == sum(bool(n.adapters) for n in adapted)
