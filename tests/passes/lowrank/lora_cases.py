"""What the tests of LoRA share: adapters with values in them, and a model's results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from espalier.model.document.recipe import Step
from espalier.model.graph.adapters import adapted
from espalier.model.graph.graph import Graph
from espalier.model.torch.tensors import to_numpy
from espalier.passes.base import Context, Report, run_step
from tests.model.zoo import Case, case, run


def step(graph: Graph, held: Case, name: str, options: Any, seed: int = 0) -> tuple[Graph, Report]:
    done = run_step(graph, Step(name, options, seed), Context(held.store, callables=held.traced.callables))
    return done.graph, done.report


def trained(graph: Graph, held: Case, seed: int = 0) -> Graph:
    """The graph as if its adapters had been trained: with random values in both matrices."""
    generator = torch.Generator().manual_seed(seed)
    fresh = {}
    for _, adapter in adapted(graph):
        for name in (adapter.a, adapter.b):
            value = torch.randn(graph.weights[name].shape, generator=generator) * 0.3
            fresh[name] = replace(graph.weights[name], key=held.store.hold(to_numpy(value)))
    return graph.with_weights(fresh)


def results(graph: Graph, held: Case) -> list[Tensor]:
    return run(held.build(graph), held.example)


def near(got: list[Tensor], want: list[Tensor], tolerance: float = 1e-5) -> bool:
    pairs = zip(got, want, strict=True)
    return all(bool((g - w).abs().max() <= tolerance * max(1.0, float(w.abs().max()))) for g, w in pairs)


def equal(got: list[Tensor], want: list[Tensor]) -> bool:
    return all(torch.equal(g, w) for g, w in zip(got, want, strict=True))


__all__ = ["Case", "case", "equal", "near", "results", "step", "trained"]
