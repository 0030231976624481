"""Edits of the graph against models that torch and transformers make so in the first place."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.document.codec import decode, encode
from espalier.model.errors import EspalierError, GraphError, OptionsError, PassError
from espalier.model.graph.check import check
from espalier.passes.edits.base import EDITS
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.transform.edit_graph import EditGraphOptions


class Net(nn.Module):
    """Two heads on 24 channels of odd sizes, tied in their second layer."""

    def __init__(self, act: type[nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.up = nn.Linear(7, 24)
        self.act = act()
        self.norm = nn.LayerNorm(24)
        self.drop = nn.Dropout(0.25)
        self.mix = nn.Linear(24, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.act(self.up(x)))
        return self.head(self.drop(self.mix(h)) + h)


def made(module: nn.Module | None = None) -> es.Model:
    """A traced model with a free batch and length."""
    torch.manual_seed(1)
    return es.trace(module or Net(), torch.randn(2, 5, 7))


def edited(*edits: dict[str, Any], module: nn.Module | None = None) -> tuple[es.Model, nn.Module]:
    """The model after the edits, and the module that they were made on."""
    torch.manual_seed(1)
    net = (module or Net()).eval()
    return es.trace(net, torch.randn(2, 5, 7)).edit_graph(list(edits)), net  # type: ignore[attr-defined]


def close(model: es.Model, net: nn.Module, tolerance: float = 1e-6) -> None:
    """Both give the same at other sizes than those of the example."""
    x = torch.randn(3, 11, 7)
    assert not check(model.project.graph)
    with torch.no_grad():
        torch.testing.assert_close(model.to_torch()(x), net(x), atol=tolerance, rtol=tolerance)


def test_replace_an_activation() -> None:
    model, net = edited({"replace": {"node": "act", "op": "relu"}})
    net.act = nn.ReLU()
    close(model, net)


def test_replace_a_norm_keeps_its_weight() -> None:
    net = Net()
    nn.init.uniform_(net.norm.weight, 0.5, 2)
    model, net = edited({"replace": {"node": "norm", "op": "RMSNorm"}}, module=net)
    other = nn.RMSNorm(24)
    other.weight = net.norm.weight  # type: ignore[union-attr,assignment]
    net.norm = other
    close(model, net)


def test_low_rank_is_the_best_approximation() -> None:
    model, net = edited({"replace": {"node": "mix", "op": "low_rank", "rank": 5}})
    u, s, vt = torch.linalg.svd(net.mix.weight.detach())  # type: ignore[arg-type,union-attr]
    net.mix.weight = nn.Parameter(u[:, :5] @ torch.diag(s[:5]) @ vt[:5])  # type: ignore[union-attr]
    close(model, net, 1e-5)
    sizes = [model.project.graph.weights[n].shape for n in model.project.graph.weights if "mix" in n]
    assert sorted(sizes) == [(5, 24), (24,), (24, 5)]
    full, net = edited({"replace": {"node": "mix", "op": "low_rank", "rank": 24}})
    close(full, net, 1e-5)


def test_bypass_and_an_identity_change_what_they_say() -> None:
    model, net = edited({"bypass": {"node": "mix"}}, {"bypass": {"node": "drop"}})
    net.mix = nn.Identity()
    close(model, net)
    assert {"mix", "drop"}.isdisjoint(model.project.graph.nodes)
    assert not [n for n in model.project.graph.weights if n.startswith("mix")]
    same, net = edited({"insert_after": {"node": "act", "op": "linear", "init": "identity"}})
    close(same, net)
    none, net = edited({"insert_after": {"node": "mix", "op": "linear", "init": "zero"}})
    nn.init.zeros_(net.mix.weight), nn.init.zeros_(net.mix.bias)  # type: ignore[arg-type,union-attr]
    close(none, net)


def test_insert_on_one_edge_alone() -> None:
    """The sum takes the norm's result as it was, `mix` takes what was inserted."""
    model, net = edited({"insert_after": {"node": "norm", "op": "tanh", "user": "mix"}})
    net.mix = nn.Sequential(nn.Tanh(), net.mix)
    close(model, net)


@pytest.mark.slow
def test_new_weights_follow_the_seed() -> None:
    edit = {"insert_after": {"node": "act", "op": "linear", "attrs": {"bias": False}}}
    key = "act_linear.weight"
    one, two, other = (made().edit_graph(edits=[edit], seed=s).project.graph.weights[key].key for s in (4, 4, 5))  # type: ignore[attr-defined]
    assert one == two != other
    torch.manual_seed(4)
    want = nn.Linear(24, 24, bias=False).weight.detach()
    model = made().edit_graph(edits=[edit], seed=4)  # type: ignore[attr-defined]
    assert torch.equal(dict(model.to_torch().named_parameters())[key], want)


def test_classes_are_added_and_dropped() -> None:
    for count in (2, 6):
        model, net = edited({"set_attr": {"node": "head", "name": "out_features", "value": count}})
        x = torch.randn(3, 4, 7)
        got, want = model.to_torch()(x), net(x)
        assert got.shape == (3, 4, count)
        torch.testing.assert_close(got[..., :3], want[..., :count], atol=1e-6, rtol=1e-6)
        assert not got[..., 3:].any(), "rows that are new are zero"
        assert model.project.graph["head"].ports["data_out"].shape[-1] == count


def test_attributes_rewiring_and_outputs() -> None:
    model, _ = edited({"set_attr": {"node": "drop", "name": "p", "value": 0.5}},
                      {"set_attr": {"node": "norm", "name": "eps", "value": 0.1}})  # fmt: skip
    assert model.project.graph["drop"].attrs["p"] == 0.5
    model, net = edited({"rewire": {"node": "mix", "source": "act"}}, {"add_output": {"node": "act", "name": "probe"}})
    x = torch.randn(3, 4, 7)
    act = net.act(net.up(x))  # type: ignore[operator]
    first, probe = model.to_torch()(x)
    torch.testing.assert_close(probe, act)
    torch.testing.assert_close(first, net.head(net.mix(act) + net.norm(act)))  # type: ignore[operator]
    model.edit_graph(edits=[{"remove_output": {"name": model.project.graph.output_names[0]}}])  # type: ignore[attr-defined]
    assert set(model.project.graph.nodes) == {"x", "up", "act", "output"}


def test_convolutions_with_a_stride_change_all_that_follows() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(5, 2)).eval()  # fmt: skip
    model = es.trace(net, torch.randn(2, 3, 9, 9))
    model.edit_graph(edits=[{"set_attr": {"node": "0", "name": "stride", "value": [2, 2]}},  # type: ignore[attr-defined]
                            {"insert_after": {"node": "1", "op": "conv2d", "attrs": {"kernel_size": 3, "padding": 1},
                                              "init": "identity"}}])  # fmt: skip
    net[0].stride = (2, 2)  # type: ignore[union-attr,assignment]
    x = torch.randn(4, 3, 9, 9)
    torch.testing.assert_close(model.to_torch()(x), net(x), atol=1e-5, rtol=1e-5)
    assert model.project.graph["2"].ports["data_out"].shape[2:] == (5, 5)


@pytest.mark.slow
def test_activations_of_a_transformer_as_transformers_makes_them() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=36, num_attention_heads=3, intermediate_size=50, num_hidden_layers=3,
                                     vocab_size=64, max_position_embeddings=64)  # fmt: skip
    torch.manual_seed(0)
    bert = transformers.BertModel(config, add_pooling_layer=False).eval()
    ids = {"input_ids": torch.randint(0, 64, (2, 9)), "attention_mask": torch.ones(2, 9, dtype=torch.long)}
    model = es.trace(bert, ids)
    acts = [n.id for n in model.project.graph if n.op == "gelu"]
    assert len(acts) == 3
    model.edit_graph(edits=[{"replace": {"select": {"by": "type", "values": ["gelu"]}, "op": "silu"}}])  # type: ignore[attr-defined]
    config.hidden_act = "silu"
    other = transformers.BertModel(config, add_pooling_layer=False).eval()
    other.load_state_dict(bert.state_dict())
    ids = {"input_ids": torch.randint(0, 64, (3, 21)), "attention_mask": torch.ones(3, 21, dtype=torch.long)}
    with torch.no_grad():
        got, want = model.to_torch()(**ids), other(**ids)
    torch.testing.assert_close(got["last_hidden_state"], want["last_hidden_state"], atol=1e-5, rtol=1e-5)


WRONG: list[tuple[dict[str, Any], type[EspalierError], str]] = [
    ({"bypass": {"node": "up"}}, GraphError, "nothing can stand for its result"),
    ({"replace": {"node": "act", "op": "nonsense"}}, GraphError, "no module"),
    ({"replace": {"node": "mix", "op": "low_rank", "rank": 99}}, GraphError, "rank is 99"),
    ({"replace": {"node": "norm", "op": "low_rank", "rank": 2}}, GraphError, "no Linear"),
    (
        {"insert_after": {"node": "act", "op": "linear", "attrs": {"out_features": 9}}},
        GraphError,
        "cannot run after the edit",
    ),
    ({"insert_after": {"node": "act", "op": "linear", "attrs": {"features": 9}}}, GraphError, "no attribute"),
    ({"insert_after": {"node": "act", "op": "relu", "init": "zero"}}, GraphError, "no zero initialisation"),
    ({"insert_after": {"node": "act", "op": "relu", "user": "head"}}, GraphError, "does not take"),
    ({"set_attr": {"node": "drop", "name": "p", "value": 7}}, GraphError, "cannot have p = 7"),
    ({"set_attr": {"node": "up", "name": "in_features", "value": 7}}, GraphError, "sizes its weights"),
    ({"set_attr": {"node": "up", "name": "out_features", "value": 5}}, GraphError, "cannot run after the edit"),
    ({"set_attr": {"node": "head", "name": "out_features", "value": 0}}, GraphError, "out_features is 0"),
    (
        {"set_attr": {"node": "head", "name": "out_features", "value": 10**12}},
        GraphError,
        "out_features is 1000000000000",
    ),
    ({"insert_after": {"node": "mix", "op": "linear", "attrs": {"out_features": 10**12}}}, GraphError, "would have"),
    ({"insert_after": {"node": "mix", "op": "relu", "attrs": {"inplace": True}}}, GraphError, "no attribute 'inplace'"),
    (
        {"insert_after": {"node": "mix", "op": "linear", "attrs": {"device": "cuda"}}},
        GraphError,
        "no attribute 'device'",
    ),
    ({"insert_after": {"node": "act", "op": "dropout", "attrs": {"p": {}}}}, GraphError, "p cannot be {}"),
    ({"set_attr": {"node": "drop", "name": "p", "value": {"ref": [3]}}}, GraphError, "p cannot be"),
    ({"insert_after": {"node": "mix", "op": "Conv1D"}}, GraphError, "cannot be made"),
    ({"rewire": {"node": "up", "source": "mix"}}, GraphError, "cycle"),
    ({"rewire": {"node": "head", "source": "up", "port": "data_out"}}, GraphError, "takes nothing at"),
    ({"rewire": {"node": "head", "source": "x"}}, GraphError, "cannot run after the edit"),
    ({"remove_output": {"name": "nonsense"}}, GraphError, "no output"),
    ({"add_output": {"node": "output"}}, PassError, "."),
    ({"bypass": {"node": "nonsense"}}, PassError, "matches no node"),
    ({"bypass": {}}, OptionsError, "names no node"),
    ({"bypass": {"nod": "act"}}, OptionsError, "is not an option"),
    ({"nonsense": {"node": "act"}}, OptionsError, "no graph edit"),
    ({"bypass": {"node": "act"}, "replace": {}}, OptionsError, "a table with one key"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "kind", "text"), WRONG, ids=lambda v: json.dumps(v) if isinstance(v, dict) else "")
def test_what_cannot_be_is_refused_and_changes_nothing(edit: dict[str, Any], kind: type[EspalierError], text: str,
                                                       caplog: pytest.LogCaptureFixture) -> None:  # fmt: skip
    model = made()
    graph = model.project.graph
    with pytest.raises(kind, match=text) as caught:
        model.edit_graph([edit])  # type: ignore[attr-defined]
    assert caught.value.hint and model.project.graph is graph
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING], "torch's own traceback is not logged"


def test_sizes_in_messages_have_our_names() -> None:
    with pytest.raises(GraphError) as caught:
        made().edit_graph(edits=[{"rewire": {"node": "head", "source": "x"}}])  # type: ignore[attr-defined]
    assert "batch" in caught.value.message and caught.value.node == "head"


def test_a_recorded_model_says_why() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.one(x) if x.sum() > 0 else x

    model = es.trace(Branching(), torch.ones(2, 4))
    assert model.project.graph.runs == "module"
    with pytest.raises(PassError, match="recorded"):
        model.edit_graph(edits=[{"bypass": {"node": "one"}}])  # type: ignore[attr-defined]


def test_recipes_projects_and_undo(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("""
[[steps]]
pass = "edit_graph"
options.edits = [{replace = {node = "act", op = "relu"}}, {insert_after = {node = "mix", op = "layer_norm"}}]

[[steps]]
pass = "quantize"
options.rules = [{select = {by = "type", values = ["linear"]}, formats = {weight = "int8"}}]
""")
    recipe = load_recipe(tmp_path / "r.toml")
    assert load_recipe(recipe_to_dict(recipe)) == recipe
    options = recipe.steps[0].options
    assert decode(EditGraphOptions, encode(options)) == options
    model = made()
    before = model.project.graph
    model.edit_graph(edits=encode(options)["edits"]).quantize("linear", weight="int8")  # type: ignore[attr-defined]
    model.save(tmp_path / "m.espalier")
    again = es.open(tmp_path / "m.espalier")
    assert again.project.recipe == model.project.recipe
    x = torch.randn(3, 4, 7)
    assert torch.equal(again.to_torch()(x), model.to_torch()(x))
    model.undo(), model.undo()
    assert model.project.graph is before


def test_every_operation_is_described() -> None:
    for tag, kind in EDITS.items():
        assert kind.tag == tag and kind.title and kind.__doc__
        assert isinstance(kind(node="act").describe(), str)


def test_a_class_that_torch_keeps_elsewhere_is_made() -> None:
    """The allow-list has names that are no attributes of torch.nn."""
    model, net = edited({"insert_after": {"node": "act", "op": "NonDynamicallyQuantizableLinear", "init": "zero"}})
    net.act = nn.Sequential(net.act, nn.Linear(24, 24))
    nn.init.zeros_(net.act[1].weight), nn.init.zeros_(net.act[1].bias)  # type: ignore[index,arg-type,union-attr]
    close(model, net)
