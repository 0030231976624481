"""Segments of a graph, run one after the other, compute what the whole graph computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.passes.recovery.walk import Stop, walk
from espalier.passes.streaming.batch_walk import walk_batches
from espalier.passes.streaming.segments import Segment, parameter_bytes, segments_of
from espalier.passes.streaming.states import Flow


class Residual(nn.Module):
    """Blocks x + f(x·m), with a mask m that depends on no parameter, and two results of the last one."""

    def __init__(self, widths: tuple[int, ...], size: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(3, size)
        self.ups = nn.ModuleList(nn.Linear(size, w) for w in widths)
        self.downs = nn.ModuleList(nn.Linear(w, size) for w in widths)
        self.last = nn.Linear(size, 2, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        scale = (mask.sum(-1, keepdim=True) + 1).to(x.dtype)
        y = self.first(x)
        for up, down in zip(self.ups, self.downs, strict=True):
            y = y + down(torch.relu(up(y * scale)))
        return self.last(y), y


def traced(module: nn.Module, folder: Path, **example: Any) -> tuple[Graph, WeightStore]:
    store = WeightStore(folder)
    return trace(module.eval(), example, store).graph, store


def example() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"x": torch.randn(5, 3, generator=generator), "mask": torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1], [1, 1]])}


def run_parts(segments: list[Segment], graph: Graph, store: WeightStore, inputs: dict[str, Tensor]) -> Any:
    value: Any = None
    for segment in segments:
        part = segment.part(graph)
        given = inputs | ({segment.before: value} if segment.before else {})
        names = {n.target for n in part.placeholders}
        value = build(part, store)(**{k: v for k, v in given.items() if k in names})
    return value


@pytest.mark.slow
def test_parts_compute_what_the_whole_computes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph, store = traced(Residual((9, 30, 5)), tmp_path, **example())
    segments = segments_of(graph)
    assert len(segments) >= 3 and segments[0].before is None and segments[-1].after is None
    inputs = {"x": torch.randn(7, 3), "mask": torch.randint(0, 2, (7, 2))}
    with torch.no_grad():
        whole, parts = build(graph, store)(**inputs), run_parts(segments, graph, store, inputs)
    assert len(whole) == len(parts) == 2 and all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
    sizes = [parameter_bytes(s.nodes, graph) for s in segments]
    assert sum(sizes) == sum(w.elements * 4 for w in graph.weights.values() if w.role == "parameter")
    assert max(sizes) == 4 * (6 * 30 + 30 + 30 * 6 + 6)  # the widest block alone; smaller neighbours are joined


def test_bound_nodes_stay_together(tmp_path: Path) -> None:
    graph, _ = traced(Residual((9, 30, 5)), tmp_path, **example())
    bond = {"first", "downs_1"}
    of = {node: i for i, s in enumerate(segments_of(graph, [bond])) for node in s.nodes}
    assert len({of[n] for n in bond}) == 1
    free = {node: i for i, s in enumerate(segments_of(graph)) for node in s.nodes}
    assert len({free[n] for n in bond}) == 2


def test_a_model_without_cuts_is_refused(tmp_path: Path) -> None:
    graph, _ = traced(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), tmp_path, input=torch.randn(2, 3))
    with pytest.raises(PassError, match="cannot be streamed"):
        segments_of(graph)


def test_visits_see_the_inputs_of_the_walk_in_memory(tmp_path: Path) -> None:
    """Layers that a visit changes are seen changed by later ones."""
    torch.manual_seed(0)
    graph, store = traced(Residual((9, 5)), tmp_path, **example())
    samples = [{"x": torch.randn(n, 3), "mask": torch.randint(0, 2, (n, 2))} for n in (4, 7)]
    ids = [n.id for n in graph if n.op == "linear"]
    seen: list[list[Tensor]] = []
    for walks in (walk, walk_batches):
        module, inputs = build(graph, store), list[Tensor]()

        def visit(stop: Stop, module: Any = module, inputs: list[Tensor] = inputs) -> None:
            inputs += [x.clone() for x in stop.inputs()]
            assert [len(y) for _, y in stop.pairs()] == [4, 7]
            module.get_submodule(stop.node.target).weight.mul_(0.5)

        if walks is walk:
            walk(module, graph, samples, ids, visit)
        else:
            walk_batches(module, graph, Flow(samples), ids, visit)
        seen.append(inputs)
    assert len(seen[0]) == 2 * len(ids) == len(seen[1])
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))
