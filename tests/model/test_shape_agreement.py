"""A recovered module gives what the exported program gives, or it stays functions; shapes are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import TensorMeta
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.shape_check import differences
from espalier.model.trace import module_recovery
from espalier.model.trace.trace import Traced, trace
from espalier.model.trust import Origin
from tests.model.zoo import MODELS, SLOW, case, slow

X = {"x": torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))}


class Pooled(nn.Module):
    """Writes into a tensor that is looked at through a view, then pools and drops: XLM's sequence summary."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.head = nn.LayerNorm(8), nn.Dropout(0.1), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, 8) → (batch, 2)."""
        h = self.norm(x)
        h[:, 0] *= 2
        return self.head(self.drop(h[:, 0]))


def hooked(hook: Callable[[Any, Any, Tensor], Tensor], before: bool = False) -> nn.Module:
    """A Linear whose result a hook of its owner changes, between two others."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4))
    if before:
        model[1].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    model[1].register_forward_hook(hook)
    return Named(model)


class Named(nn.Module):
    """Gives a Sequential's input a name."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Whatever the inner one gives."""
        return self.inner(x)


def checked(model: nn.Module, tmp_path: Path) -> Traced:
    """The trace of a model, whose graph gives the model's own values at two sizes."""
    store = WeightStore(tmp_path)
    traced = trace(model.eval(), X, store)
    built = build(traced.graph, store, traced.callables)
    with torch.no_grad():
        for x in (X["x"], torch.randn(2, 7, 8)):
            assert torch.equal(built(x=x), model(x=x))
    return traced


@pytest.mark.slow
def test_views_that_torch_makes_again_are_not_the_module_that_uses_them(tmp_path: Path) -> None:
    traced = checked(Pooled(), tmp_path)
    drop = next(n for n in traced.graph if n.op == "dropout")
    assert drop.call == "call_module" and drop.ports["data_in"].shape == drop.ports["data_out"].shape == ("batch", 8)
    source = traced.graph.nodes[drop.inputs[0].node]
    assert source.op == "select" and source.module_path == ""


@pytest.mark.parametrize(
    "model",
    [hooked(lambda m, a, y: y[:, 0]), hooked(lambda m, a, y: y * 2), hooked(lambda m, a, y: y.relu(), before=True)],
    ids=["pooled", "scaled", "before and after"],
)
def test_a_module_with_hooks_is_what_the_hooks_make_of_it(model: nn.Module, tmp_path: Path) -> None:
    traced = checked(model, tmp_path)
    assert [n.call for n in traced.graph if n.op == "linear"] == ["call_module", "call_function", "call_module"]
    assert not [p for p in traced.problems if p.severity == "error"]


def test_a_hook_that_looks_only_changes_nothing(tmp_path: Path) -> None:
    traced = checked(hooked(lambda m, a, y: y), tmp_path)
    assert [n.call for n in traced.graph if n.op == "linear"] == ["call_module"] * 3


def test_a_call_that_was_raised_wrongly_stays_as_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without both guards the comparison reports it: an error at its node, and the values are right."""
    monkeypatch.setattr(module_recovery, "_is_altered", lambda module: False)
    traced = checked(hooked(lambda m, a, y: y[:, 0]), tmp_path)
    (problem,) = [p for p in traced.problems if p.severity == "error"]
    assert problem.node and traced.graph[problem.node].op == "select"
    assert "gives 3 × 5 × 8, not 3 × 8" in problem.message and "as exported" in problem.message


def small() -> Graph:
    """x (2, 3) → relu → transpose → output."""
    x, y = TensorMeta(("batch", 3), "float32"), TensorMeta((3, "batch"), "float32")
    nodes = [
        Node("x", "placeholder", "placeholder", "x", ports={"data_out": x}),
        Node("r", "relu", "call_function", "aten.relu.default", (Ref("x"),), ports={"data_in": x, "data_out": x}),
        Node("t", "t", "call_function", "aten.t.default", (Ref("r"),), ports={"data_in": x, "data_out": y}),
        Node("output", "output", "output", "output", (Ref("t"),)),
    ]
    return Graph({n.id: n for n in nodes}, structure="tensor", symbols={"batch": 2})


def test_a_difference_is_told_where_it_begins() -> None:
    """Nodes behind the wrong one run on what its ports tell, and are right."""
    graph = small()
    assert differences(graph) == []
    other, turned = TensorMeta((4, 3), "float32"), TensorMeta((3, 4), "float32")
    relu = replace(graph["r"], ports={**graph["r"].ports, "data_out": other})
    wrong = graph.replace(relu, replace(graph["t"], ports={"data_in": other, "data_out": turned}))
    assert [(d.node, d.clause) for d in differences(wrong)] == [("r", "gives 2 × 3, not 4 × 3")]


def test_what_keeps_its_shape_is_checked() -> None:
    """An activation that changes shapes is no legal graph; equal sizes written in two ways are."""
    graph = small()
    changed = {**graph["r"].ports, "data_out": TensorMeta((3,), "float32")}
    (problem,) = [p for p in check(graph.replace(replace(graph["r"], ports=changed))) if p.severity == "error"]
    assert problem.node == "r" and "keeps the shape" in problem.message
    same = {**graph["r"].ports, "data_out": TensorMeta((2, 3), "float32")}
    assert not check(graph.replace(replace(graph["r"], ports=same)))


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in MODELS])
def test_the_zoo_agrees(name: str) -> None:
    """No shape of any model differs from its exported program's; those with no way out are recorded."""
    held = case(name)
    assert not [p for p in held.traced.problems if p.severity == "error"]
    assert differences(held.traced.graph) == [] or held.traced.graph.runs == "module"


@pytest.mark.slow
def test_a_summary_of_xlm_is_captured(tmp_path: Path) -> None:
    """Its logits are (batch, 2), bit for bit."""
    from espalier.model.opening import open_source
    from espalier.passes.verify import verify

    spec = "config:xlm?emb_dim=64&n_layers=2&n_heads=2&vocab_size=100&task=sequence-classification"
    opened = open_source(spec, tmp_path, origin=Origin.TYPED)
    graph = opened.project.base
    assert graph[graph.output.inputs[0].node].ports["data_out"].shape == ("batch", 2)
    found = verify(opened)
    assert found.max_abs_diff == 0.0 and not found.faults
