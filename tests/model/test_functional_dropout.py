"""Dropout inside functions: off in evaluation, bit for bit, and on in training with the model's own probability."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import drop_rate
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import Traced, trace
from espalier.model.trace.training import ATTENTION, training_calls
from espalier.passes.analysis.count_dropout import count_dropout
from espalier.passes.base import Context, NoOptions
from espalier.passes.transform.remove_dropout import remove_dropout
from tests.model.zoo import case, run, same

STORE = WeightStore(Path("unwritten"))


class Model(nn.Module):
    """A Linear, then a function that is told the mode."""

    def __init__(self, function: Callable[[Tensor, bool], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x), self.training)


def traced(function: Callable[[Tensor, bool], Tensor]) -> tuple[Model, Traced]:
    model = Model(function).eval()
    return model, trace(model, {"x": torch.randn(2, 6, 8)}, STORE)


def attention(x: Tensor, training: bool) -> Tensor:
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.4 if training else 0.0)


def eager(x: Tensor, training: bool) -> Tensor:
    return F.dropout(torch.softmax(x, -1), 0.4, training) @ x.transpose(1, 2)


def channels(x: Tensor, training: bool) -> Tensor:
    return F.dropout1d(x, p=0.4, training=training)


def alpha(x: Tensor, training: bool) -> Tensor:
    return F.alpha_dropout(x, training=training, p=0.4)


def native(x: Tensor, training: bool) -> Tensor:
    return torch.dropout(x, 0.4, training)


@pytest.mark.parametrize("function", [attention, eager, channels, alpha, native])
def test_training_drops_as_the_model_does(function: Callable[[Tensor, bool], Tensor]) -> None:
    """The same random numbers give the same results in training, and evaluation is exact."""
    model, found = traced(function)
    assert not found.problems
    built = build(graph_from_json(graph_to_json(found.graph)), STORE)
    for batch, length in ((2, 6), (3, 9)):
        inputs = {"x": torch.randn(batch, length, 8)}
        assert same(run(built, inputs), run(model, inputs))
        torch.manual_seed(5)
        want = run(model.train(), inputs)
        torch.manual_seed(5)
        got = run(built.train(), inputs)
        torch.testing.assert_close(got[0], want[0])
        assert not same(got, run(built.eval(), inputs))
        model.eval()


@pytest.mark.parametrize("function", [attention, eager, channels, alpha, native])
def test_it_is_counted_and_removed(function: Callable[[Tensor, bool], Tensor]) -> None:
    _, found = traced(function)
    (node,) = [n for n in found.graph if drop_rate(n)]
    assert drop_rate(node) == 0.4
    report = count_dropout(found.graph, NoOptions(), Context(STORE))[1]
    inside = node.op != "dropout"
    assert report.summary == {"dropout_count": int(not inside), "in_functions": int(inside)}
    assert report.rows[0]["p"] == 0.4
    after, report = remove_dropout(found.graph, NoOptions(), Context(STORE))
    assert report.rows[0]["node"] == node.id and not [n for n in after if drop_rate(n)]
    inputs = {"x": torch.randn(2, 6, 8)}
    assert same(run(build(after, STORE).train(), inputs), run(build(found.graph, STORE), inputs))


def rates(graph: Graph, op: str) -> list[float | None]:
    return [drop_rate(n) for n in graph if n.op == op and n.call == "call_function"]


def test_models_of_hugging_face_and_torch() -> None:
    assert rates(case("bert").graph, "scaled_dot_product_attention") == [0.1, 0.1]
    assert rates(case("bert-eager").graph, "dropout") == [0.1, 0.1]
    assert rates(case("gpt2").graph, "scaled_dot_product_attention") == [0.1, 0.1]
    assert rates(case("attention").graph, "scaled_dot_product_attention") == [0.1]
    for name in ("bert", "bert-eager", "gpt2", "attention"):
        assert not case(name).traced.problems


def test_a_recurrent_network_drops_between_its_layers() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(8, 8, num_layers=2, dropout=0.4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.cell(x)[0]

    model, inputs = Deep().eval(), {"x": torch.randn(2, 6, 8)}
    found = trace(model, inputs, STORE)
    assert [drop_rate(n) for n in found.graph if n.op == "lstm"] == [0.4]
    built = build(found.graph, STORE)
    torch.testing.assert_close(run(built, inputs)[0], run(model, inputs)[0])
    torch.manual_seed(5)
    want = run(model.train(), inputs)
    torch.manual_seed(5)
    torch.testing.assert_close(run(built.train(), inputs)[0], want[0])


@pytest.mark.slow
def test_weights_of_an_attention_drop_where_they_are_asked_for() -> None:
    """nn.MultiheadAttention calls dropout only in training when its weights are wanted: the graph gets the node."""

    class Asked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, dropout=0.4, batch_first=True)
            self.quiet = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y, seen = self.inner(x, x, x)
            return self.quiet(y, y, y)[0] + self.inner(y, x, x, need_weights=True)[0] + seen.sum()

    model, inputs = Asked().eval(), {"x": torch.randn(2, 6, 8)}
    found = trace(model, inputs, STORE)
    assert not found.problems and rates(found.graph, "dropout") == [0.4, 0.4]
    built = build(graph_from_json(graph_to_json(found.graph)), STORE)
    for inputs in ({"x": torch.randn(2, 6, 8)}, {"x": torch.randn(3, 9, 8)}):
        assert same(run(built.eval(), inputs), run(model.eval(), inputs))
        torch.manual_seed(5)
        want = run(model.train(), inputs)
        torch.manual_seed(5)
        torch.testing.assert_close(run(built.train(), inputs)[0], want[0])
    removed = remove_dropout(found.graph, NoOptions(), Context(STORE))[0]
    assert len(removed) == len(found.graph) - 2


# -- what cannot be had is told


def test_a_function_that_only_training_calls_is_told() -> None:
    _, found = traced(lambda x, training: F.dropout(x, 0.4) if training else x)
    (problem,) = found.problems
    assert "drops values in training" in problem.message and problem.severity == "warning"


def test_random_depth_is_told() -> None:
    _, found = traced(lambda x, training: x * torch.bernoulli(torch.full((2, 1, 1), 0.5)) if training else x)
    (problem,) = found.problems
    assert "drops values in training" in problem.message


def test_a_model_that_refuses_training_is_told() -> None:
    def refuse(x: Tensor, training: bool) -> Tensor:
        if training:
            raise RuntimeError("for inference only")
        return F.dropout(x, 0.4, training)

    _, found = traced(refuse)
    (problem,) = found.problems
    assert problem.node == "dropout" and "for inference only" in problem.message


def test_dropout_that_never_rests_is_told() -> None:
    _, found = traced(lambda x, training: F.dropout(x, 0.4))
    (problem,) = found.problems
    assert problem.node == "dropout" and "in evaluation too" in problem.message
    _, quiet = traced(lambda x, training: F.dropout(x, 0.0, training))
    assert not quiet.problems


def test_a_file_cannot_tell_and_says_so() -> None:
    held = case("attention")
    assert held.program is not None
    found = trace(held.program.module(), held.example, STORE, held.program)
    (problem,) = found.problems
    assert problem.node == "scaled_dot_product_attention" and "exported for evaluation" in problem.message


def test_values_decide_in_training() -> None:
    """A model that looks at its values in training only is run with values; its buffers stay as they are."""

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            if self.training and float(y.sum()) > 1e9:
                return x
            return F.dropout(y, 0.4, self.training)

    model = Looking().eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    found = trace(model, {"x": torch.randn(4, 8)}, STORE)
    assert rates(found.graph, "dropout") == [0.4] and not found.problems
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


class Attends(nn.Module):
    """Linears and attentions of several shapes: equal heads, shared keys, a broadcast batch, three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 24, bias=False)
        self.outer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        rate = 0.3 if self.training else 0.0
        q, k, v = self.inner(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        equal = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        shared = F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], dropout_p=rate, enable_gqa=True)
        spread = F.scaled_dot_product_attention(q, k[:1], v[:1], dropout_p=rate)
        flat = F.scaled_dot_product_attention(q[:, 0], k[:, 0], v[:, 0], dropout_p=rate)
        assert equal.shape == shared.shape == spread.shape == q.shape and flat.shape == q[:, 0].shape
        joined = (equal + shared + spread).transpose(1, 2).flatten(2)
        return F.dropout(self.outer(joined), 0.1, self.training)


def test_without_values_the_same_calls_are_heard_as_with_them() -> None:
    model, example = Attends().eval(), {"x": torch.randn(3, 5, 8)}
    assert training_calls(model, example) == training_calls(model, example, values=True)
    assert [c.op for c in training_calls(model, example)] == [ATTENTION] * 4 + ["dropout"]
