"""Rotations: matrices are orthogonal, results stay the same, and what cannot be rotated is named with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build, parameters_of
from espalier.passes.base import Context, Report
from espalier.passes.recovery.hadamard import hadamard, random_rotation
from espalier.passes.recovery.residual import stream_of
from espalier.passes.transform.rotate import RotateOptions, rotate
from tests.passes.export.models import made

LLAMAS = ("llama", "tied", "odd", "qwen3", "biased")


def opened(kind: str, home: Path, **more: Any) -> Opened:
    return open_any(str(made(kind, home / "model", **more)), home / "work")


def rotated(found: Opened, seed: int = 3) -> tuple[Graph, Report]:
    return rotate(found.project.graph, RotateOptions(), Context(found.store, seed=seed))


def logits(graph: Graph, found: Opened) -> Tensor:
    ids = torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        return build(graph, found.store)(**{n.target: inputs[n.target] for n in graph.placeholders})["logits"]


# -- matrices


@pytest.mark.parametrize("size", [1, 2, 12, 20, 24, 28, 36, 60, 96, 108, 128, 140, 576, 768, 896])
def test_hadamard_matrices_are_what_they_are_called(size: int) -> None:
    matrix = hadamard(size)
    assert matrix is not None and matrix.abs().eq(1).all()
    assert torch.equal(matrix @ matrix.T, size * torch.eye(size, dtype=torch.float64))


@pytest.mark.parametrize("size", [3, 6, 10, 50, 92])
def test_other_sizes_are_rotated_at_random(size: int) -> None:
    """No matrix exists for sizes that 4 does not divide; none of order 92 is known by these constructions."""
    assert hadamard(size) is None
    matrix, kind = random_rotation(size, 0)
    assert kind == "orthogonal"
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64))


def test_signs_follow_the_seed() -> None:
    first, second, again = (random_rotation(64, seed)[0] for seed in (1, 2, 1))
    assert torch.equal(first, again) and not torch.equal(first, second)
    torch.testing.assert_close(first.abs(), torch.full((64, 64), 0.125, dtype=torch.float64))


# -- models


@pytest.mark.slow
@pytest.mark.parametrize("kind", LLAMAS)
def test_results_stay_the_same(kind: str, tmp_path: Path) -> None:
    """Gains away from 1, biases, sizes that are no power of two, and an output layer that shares the embedding."""
    found = opened(kind, tmp_path)
    before = found.project.graph
    graph, report = rotated(found)
    assert float((logits(graph, found) - logits(before, found)).abs().max()) < 1e-4
    assert report.summary["float_difference"] < 1e-5
    assert report.summary["untied"] == (kind == "tied")
    assert report.summary["matrix"] == "hadamard" and report.summary["gains"] == 3
    moved = parameters_of(build(graph, found.store))
    held = parameters_of(build(before, found.store))
    assert all(moved[g].eq(1).all() for g in stream_of(before).gains)
    rows = {r["node"] for r in report.rows}
    for node in (graph[i] for i in rows):
        name = node.weights["weight"]
        assert not torch.equal(moved[name], held[before[node.id].weights["weight"]]), name
    other = [n for n in held if "k_norm" in n or "q_norm" in n]
    assert all(torch.equal(moved[n], held[n]) for n in other)


@pytest.mark.slow
def test_an_outlier_is_spread_over_all_channels(tmp_path: Path) -> None:
    """One channel of the stream a hundred times as large: weights of 4 bits by channel lose less when rotated."""
    found = opened("llama", tmp_path)
    graph = found.project.graph
    weight = graph.weights[stream_of(graph).embedding]
    from espalier.model.torch.tensors import to_numpy, to_torch

    readers = [graph[i] for i in stream_of(graph).readers]
    values = {n.weights["weight"]: to_torch(found.store.get(graph.weights[n.weights["weight"]].key or "")).clone()
              for n in readers}  # fmt: skip
    for value in values.values():
        value[:, 5] *= 100
    held = {k: replace(graph.weights[k], key=found.store.hold(to_numpy(v))) for k, v in values.items()}
    spiked = graph.with_weights(held)
    project = replace(found.project, graph=spiked)
    turned, report = rotated(replace(found, project=project))
    assert weight.shape[1] == report.summary["channels"]
    assert all(r["peak"] < 0.8 * r["peak_before"] for r in report.rows if graph[r["node"]] in readers)
    names = {n.id for n in readers}

    def error(g: Graph) -> float:
        fmt = Precision(ScaledElement("int4", "channel"))
        rounded = g.replace(*(replace(n, precision={"weight": fmt}) for n in g if n.id in names))
        return float((logits(rounded, found) - logits(g, found)).square().mean())

    assert error(turned) < 0.5 * error(spiked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "why"),
    [("neox", "subtracts a mean over channels"), ("gpt2", "added to the stream and is no Linear"),
     ("t5", "a result of the model"), ("bert", "added to the stream and is no Linear")],
)  # fmt: skip
def test_other_architectures_are_refused_with_the_reason(kind: str, why: str, tmp_path: Path) -> None:
    found = opened(kind, tmp_path)
    with pytest.raises(PassError, match=why) as caught:
        rotated(found)
    assert "RMSNorm" in caught.value.hint and caught.value.node in found.project.graph.nodes


@pytest.mark.slow
def test_choices_that_a_rotation_would_break_are_named(tmp_path: Path) -> None:
    found = opened("llama", tmp_path)
    graph = found.project.graph
    node = next(n for n in graph if n.target.endswith("q_proj"))
    fixed = graph.replace(replace(node, precision={"weight": Precision(ScaledElement("int4"), "scale")}))
    with pytest.raises(PassError, match="has a fixed scale; rotate before"):
        rotate(fixed, RotateOptions(), Context(found.store))
    own = graph.replace(replace(node, precision={"weight": Precision(ScaledElement("int4"))}))
    assert rotate(own, RotateOptions(), Context(found.store))[0][node.id].precision, "formats stay"
    with pytest.raises(PassError, match="recorded from a run"):
        rotate(replace(graph, runs="module"), RotateOptions(), Context(found.store))
