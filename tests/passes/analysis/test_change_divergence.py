"""What each row of a difference costs alone, against outputs computed with torch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.app.api.data import given
from espalier.model.document.recipe import Step
from espalier.model.errors import PassError
from espalier.passes.analysis import change_divergence as module
from espalier.passes.analysis import divergence as divergence_module
from espalier.passes.analysis.change_divergence import ChangeDivergenceOptions, RowDivergence
from espalier.passes.analysis.divergence import against
from espalier.passes.base import run_step
from espalier.passes.comparison.alone import changes_in, with_changes
from espalier.passes.comparison.diff import compare_graphs
from espalier.passes.running.splits import EvaluateOptions

Data = tuple[np.ndarray, np.ndarray]


class Net(nn.Module):
    """Two twins and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.act, self.head = nn.GELU(), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.act(layer(x))
        return self.head(x)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def data() -> Data:
    random = np.random.default_rng(0)
    return random.normal(size=(40, 6)).astype(np.float32), random.integers(0, 4, 40)


def traced(net: Net) -> es.Model:
    return es.trace(net, torch.randn(2, 6), name="Net")


def divergence(net: Net, other: Net, x: np.ndarray) -> float:
    """Mean of KL(softmax of `net` ‖ softmax of `other`) over the rows of x."""
    with torch.no_grad():
        p, q = (m(torch.from_numpy(x)).double().log_softmax(-1) for m in (net, other))
    return float((p.exp() * (p - q)).sum(-1).mean())


def changed(net: Net, change: Any) -> Net:
    other = Net().eval()
    other.load_state_dict(net.state_dict())
    with torch.no_grad():
        change(other)
    return other


def int4(weight: Tensor) -> None:
    """Symmetric, a scale for each output channel, as the format's definition says."""
    scale = weight.abs().amax(1, keepdim=True) / 7
    weight.copy_((weight / scale).round().clamp(-7, 7) * scale)


def pruned(weight: Tensor, count: int) -> None:
    weight.view(-1)[weight.abs().view(-1).argsort()[:count]] = 0


def test_rows_are_what_torch_gives(net: Net, data: Data) -> None:
    """The rounding of twins together, that of the head, and its mask: each alone, from the outputs of A."""
    a = traced(net)
    b = a.copy().quantize("linear", weight="scaled_integer(width=4, granularity=channel)").prune("head", sparsity=0.5)
    x, y = data
    report = b.change_divergence(data=(x, y))
    rows = {(r["row"], r["what"]): r for r in report.rows}
    twins = changed(net, lambda m: [int4(layer.weight) for layer in m.layers])
    head = changed(net, lambda m: int4(m.head.weight))
    mask = changed(net, lambda m: pruned(m.head.weight, 12))
    wanted = {("layers.*", "weight format"): twins, ("head", "weight format"): head, ("head", "weight sparsity"): mask}
    assert rows.keys() == wanted.keys()
    for key, other in wanted.items():
        assert rows[key]["kl"] == pytest.approx(divergence(net, other, x), rel=1e-4), key
        assert rows[key]["note"] == ""
    assert rows["layers.*", "weight format"]["nodes"] == 2
    assert report.n == 40 and report.baseline == "opened"
    module_b = b.to_torch()
    with torch.no_grad():
        p, q = (m(torch.from_numpy(x)).double().log_softmax(-1) for m in (net, module_b))
    assert report.together == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()), rel=1e-4)


def test_weights_of_another_file_are_taken_over(net: Net, data: Data, named: str) -> None:
    other = changed(net, lambda m: (m.layers[1].bias.mul_(3), m.head.weight.mul_(2.5)))
    d = es.diff(traced(net), traced(other), data=named)
    rows = {(g["label"], g["what"]): g for g in d.groups}
    bias = changed(net, lambda m: m.layers[1].bias.copy_(other.layers[1].bias))
    head = changed(net, lambda m: m.head.weight.copy_(other.head.weight))
    assert rows["layers.1", "bias values"]["kl"] == pytest.approx(divergence(net, bias, data[0]), rel=1e-4)
    assert rows["head", "weight values"]["kl"] == pytest.approx(divergence(net, head, data[0]), rel=1e-4)
    assert divergence(net, head, data[0]) != pytest.approx(divergence(head, net, data[0]), rel=1e-3), "a direction"


@pytest.fixture(scope="module")
def named(net: Net, data: Data) -> Iterator[str]:
    """The data under the name by which steps call them, as long as they are held."""
    m = traced(net)
    held = given(data, m.graph, m._context())
    yield held.spec
    del held


def test_structure_says_so_and_texts_cost_nothing(net: Net, data: Data) -> None:
    a = traced(net)
    b = a.copy().edit_graph([{"bypass": {"node": "layers_1"}}, {"note": {"node": "head", "text": "why"}}])
    b.quantize("head", weight="int8")
    rows = {(r["row"], r["what"]): r for r in b.change_divergence(data=data).rows}
    removed = next(r for (_, what), r in rows.items() if what == "removed")
    assert removed["kl"] is None and removed["note"] == "The structure differs."
    assert next(r for (_, what), r in rows.items() if what == "inputs")["kl"] is None
    assert rows["head", "note"]["kl"] == 0.0 and rows["head", "weight format"]["kl"] > 0


def test_an_operation_is_taken_over_where_it_fits(net: Net, data: Data) -> None:
    b = traced(net)
    node = next(n.id for n in b if n.op == "gelu")
    b.edit_graph([{"replace": {"node": node, "op": "relu"}}])
    (row,) = (r for r in b.change_divergence(data=data).rows if r["what"] == "op")
    with torch.no_grad():
        x = torch.from_numpy(data[0])
        after = net.head(net.act(net.layers[1](net.layers[0](x).relu())))
        p, q = net(x).double().log_softmax(-1), after.double().log_softmax(-1)
    assert row["kl"] == pytest.approx(float((p.exp() * (p - q)).sum(-1).mean()), rel=1e-4)


@pytest.mark.slow
def test_adapters_scales_and_swapped_sides(net: Net, named: str) -> None:
    """What A has and B lacks is taken away; tensors of B get a name of their own."""
    a = traced(net).quantize("linear", weight="scaled_integer(width=4, granularity=tensor)").calibrate(ports=["weight"])
    b = traced(net).lora("head", rank=2)
    for first, second in ((a, b), (b, a)):
        d = es.diff(first, second, data=named)
        assert all(isinstance(g["kl"], float) for g in d.groups), d.groups
    rows = {(g["label"], g["what"]): g["kl"] for g in es.diff(a, b, data=named).groups}
    assert rows["head", "adapter"] == pytest.approx(0, abs=1e-9), "B of a new adapter is 0"
    assert rows["head", "weight format"] > 0


def test_an_interrupted_run_goes_on_from_what_is_kept(net: Net, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    b = traced(net).quantize("linear", weight="int4")
    first = b.change_divergence(data=named)

    def refuse(self: object, *_: object) -> RowDivergence:
        raise AssertionError("measured again")

    monkeypatch.setattr(module._Measuring, "_walked", refuse)
    assert b.change_divergence(data=named).rows == first.rows


def test_a_later_job_of_the_worker_measures_nothing_again(
    net: Net, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each job brings graphs of its own through the pipe, and the worker's baseline is of the first one."""
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path / "cache"))  # not what another test has measured
    a = traced(net)
    b = (
        a.copy()
        .quantize("linear", weight="scaled_integer(width=3)")
        .edit_graph([{"note": {"node": "head", "text": "why"}}])
    )
    sent, context = pickle.dumps((a.graph, b.graph)), b._context()
    monkeypatch.setattr(divergence_module, "_CACHE", {})
    counts, firsts = list[int](), list[int]()
    walked, first = module._Measuring._walked, module._Measuring._first

    def count(self: Any, waiting: list[Any], groups: Any) -> Iterator[RowDivergence]:
        counts.append(len(waiting))
        firsts.extend(first(self, graph) for _, graph in waiting)
        yield from walked(self, waiting, groups)

    def run() -> tuple[Any, ...]:
        base, graph = pickle.loads(sent)
        step = Step("change_divergence", ChangeDivergenceOptions(data=named))
        return run_step(graph, step, replace(context, base=base)).report.rows

    against(pickle.loads(sent)[0], EvaluateOptions(data=named), context)  # an earlier job of the same worker
    monkeypatch.setattr(module._Measuring, "_walked", count)
    rows = run()
    order = list(a.graph.nodes)
    assert counts == [2] and firsts == [order.index("layers_0"), order.index("head")], "no run starts before its node"
    assert run() == rows and counts == [2]
    assert {r["what"] for r in rows} == {"weight format", "note"}


def test_notes_that_were_written_since_the_baseline_are_no_difference(net: Net, named: str) -> None:
    """What the worker holds computes the same, but may be of a job before the note was written."""
    options = ChangeDivergenceOptions(data=named)
    a, noted = traced(net), traced(net).edit_graph([{"note": {"node": "head", "text": "why"}}])
    context = replace(a._context(), base=noted.graph)
    held = against(a.graph, EvaluateOptions(data=named), context).graph
    assert against(noted.graph, options, context).graph is held, "they compute the same"
    graph = noted.copy().quantize("head", weight="int8").graph
    (row,) = run_step(graph, Step("change_divergence", options), context).report.rows
    assert row["what"] == "weight format" and row["kl"] > 0


def test_all_of_a_difference_taken_over_is_b(net: Net) -> None:
    a = traced(net)
    b = a.copy().quantize("linear", weight="int4", data_in="int8").prune("linear", sparsity=0.25)
    diff = compare_graphs(a.graph, b.graph)
    assert with_changes(a.graph, b.graph, diff.changes, diff.pairing.pairs).nodes == b.graph.nodes
    assert with_changes(a.graph, b.graph, (), diff.pairing.pairs) is a.graph
    groups = diff.groups(a.graph, b.graph)
    assert sum(len(changes_in(g, diff.changes)) for g in groups) == len(diff.changes), "each change is in one row"
    node = b.graph["head"]
    odd = b.graph.replace(replace(node, attrs={**node.attrs, "bias": 3}, precision={**node.precision}))
    assert (
        with_changes(a.graph, odd, compare_graphs(a.graph, odd).changes, diff.pairing.pairs)["head"].attrs["bias"] == 3
    )
    with pytest.raises(PassError, match="structure differs"):
        bypassed = a.copy().edit_graph([{"bypass": {"node": "layers_1"}}]).graph
        found = compare_graphs(a.graph, bypassed)
        with_changes(a.graph, bypassed, found.changes, found.pairing.pairs)
