"""Pipelines: cuts against enumeration, the bubble by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.plan import make_plan
from tests.passes.sharding import cases
from tests.passes.sharding.cases import device

OPTIONS = ShardPlanOptions(batch_size=8, stages=2, micro_batches=4)


class Chain(nn.Module):
    """Layers of different widths, one after the other, of which each waits for the one before."""

    def __init__(self) -> None:
        super().__init__()
        widths = (8, 64, 16, 32, 8, 8)
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Turned(nn.Module):
    """Layers that all read the same angles, which depend on no input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.register_buffer("angles", torch.arange(8.0))

    def forward(self, x: Tensor) -> Tensor:
        turns = torch.cos(self.angles)
        for layer in self.layers:
            x = layer(x) * turns
        return x


@pytest.fixture(scope="module")
def chain() -> Graph:
    """Its graph."""
    cases.EXAMPLES[Chain] = {"x": torch.zeros(4, 8)}
    return cases.graph_of(Chain)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_slowest_stage_is_as_quick_as_any_cut_allows(chain: Graph, stages: int) -> None:
    """Every way to cut ten nodes into stages, with links that cost nothing."""
    mesh = Mesh((stages,))
    on = replace(device(mesh), latency=(0.0,), rate=(1e30,))
    plan = make_plan(chain, mesh, on, replace(OPTIONS, stages=stages), compare=False)
    spent = [s for n, s in plan.node_seconds.items()]
    best = min(
        max(sum(spent[a:b]) for a, b in itertools.pairwise([0, *cut, len(spent)]))
        for cut in itertools.combinations(range(1, len(spent)), stages - 1)
    )
    assert max(s.seconds for s in plan.stages) == pytest.approx(best, rel=1e-9)
    assert [n for s in plan.stages for n in s.nodes] == list(plan.strategies)
    m, p = 4, stages
    assert plan.bubble / plan.seconds == pytest.approx((p - 1) / (m + p - 1))
    assert plan.seconds == pytest.approx((m + p - 1) * best, rel=1e-9)


def test_angles_of_positions_cross_for_nothing() -> None:
    """A tensor that every rank can make does not prevent a cut."""
    cases.EXAMPLES[Turned] = {"x": torch.zeros(4, 8)}
    mesh = Mesh((2,))
    plan = make_plan(cases.graph_of(Turned), mesh, device(mesh), OPTIONS, compare=False)
    assert [len([n for n in s.nodes if n.startswith("layers")]) for s in plan.stages] == [2, 2]


def test_what_is_sent_counts(chain: Graph) -> None:
    """A cut hands on the batch of its narrow place: 2 × 8 floats, and in training their gradients."""
    mesh = Mesh((2,))
    plan = make_plan(chain, mesh, device(mesh, rate=1e4), OPTIONS, compare=False)
    assert plan.stages[0].sent == 2 * 8 * 4
    training = make_plan(chain, mesh, device(mesh, rate=1e4), replace(OPTIONS, training=True), compare=False)
    assert training.stages[0].sent in (2 * 2 * 8 * 4, 2 * 2 * 16 * 4)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        (OPTIONS, (4,), "2 stages do not match"),
        (replace(OPTIONS, micro_batches=3), (2,), "3 micro-batches do not divide"),
        (replace(OPTIONS, stages=16), (16,), "into 10 stages at most"),
    ],
)
def test_what_does_not_divide(chain: Graph, options: ShardPlanOptions, shape: tuple[int, ...], message: str) -> None:
    """Stages, micro-batches, cuts."""
    with pytest.raises(OptionsError, match=message):
        make_plan(chain, Mesh(shape), device(Mesh(shape)), options)


def test_stages_that_do_not_fit(chain: Graph) -> None:
    """No cut leaves stages small enough."""
    with pytest.raises(OptionsError, match=r"No cut into 2 stages|needs at least"):
        make_plan(chain, Mesh((2,)), device(Mesh((2,)), memory=4000), OPTIONS)
