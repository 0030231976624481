"""Emulation of nodes: models scored with hardware functions equal the RTL exactly."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.app.features.hardware.state.score_comparison import scored_verdict
from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import quantisable
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.torch.emulators import in_float
from espalier.model.trust import Origin
from espalier.passes.analysis import hardware_scored
from espalier.passes.analysis.hardware_scored import Results, compare_scored
from espalier.passes.base import Context
from espalier.passes.running.observing import tap
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from espalier.passes.transform.hardware_functions import HardwareFunctionsOptions, hardware_functions
from espalier.verilog.design.host_part import constants
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import IntegerModel
from espalier.verilog.lowering.fusing import RmsNorm, fused
from espalier.verilog.lowering.lower import unbuffered
from tests.verilog.generic_models import NAMES, written

# Bits by op and port; the fractions follow from the largest value of a run in float.
BITS: dict[str, dict[str, int]] = {
    **{op: {"data_in": 8, "weight": 8, "bias": 14} for op in ("linear", "conv2d", "addmm")},
    "cat": {"data_in": 11, "data_out": 11}, "matmul": {"data_in": 8, "weight": 8}, "softmax": {"data_in": 9},
    **{op: {"data_in": 12, "data_out": 9} for op in ("gelu", "silu", "leaky_relu")},
    "layer_norm": {"data_in": 11, "weight": 9, "bias": 9, "data_out": 10},
    "batch_norm": {"data_in": 12, "data_out": 11}, "adaptive_avg_pool2d": {"data_in": 9, "data_out": 10},
}  # fmt: skip


def quantised(found: Opened, name: str) -> Graph:
    """The network with formats for what hardware needs, as a person would choose them by op."""
    graph = found.project.base
    if any(n.op == "scaled_dot_product_attention" for n in graph):
        graph, _ = decompose_attention(graph, DecomposeOptions(), Context(found.store))
    known = constants(graph)
    wanted = {n.id: {p: w for p, w in _bits(n, graph, known, name).items() if p in quantisable(n)} for n in graph}
    for last, steps in fused(graph, {"tanh": 0, "pow": 0, "rsqrt": 0}, known).items():  # the results of fused steps
        wanted |= {n: {} for n in steps.nodes}
        wanted[last] = {"data_out": 10}
        if isinstance(steps, RmsNorm):
            wanted[steps.first] = {**wanted[steps.first], "data_in": 11}
    most: dict[tuple[str, str], float] = {}

    def see(node: str, port: str, value: torch.Tensor) -> None:
        finite = value[value.abs() < 1e4].abs()
        most[node, port] = max(most.get((node, port), 0.0), float(finite.max()) if finite.numel() else 1.0)

    ports = {n: tuple(p for p in {*w, "data_in", "data_out"}) for n, w in wanted.items()}
    with torch.no_grad():
        tap(build(graph, found.store, found.callables), graph, ports, see)(found.loaded.example)  # type: ignore[union-attr]
    for node in graph:
        for port, held in node.weights.items():
            key = graph.weights[held].key
            if port in wanted[node.id] and key is not None:
                from espalier.model.torch.tensors import to_torch

                most[node.id, port] = float(to_torch(found.store.get(key)).abs().max())
    formats = {
        n: {p: Precision(Integer(w, w - 1 - math.ceil(math.log2(max(most.get((n, p), 1.0), 1e-3) * 1.01))))
            for p, w in chosen.items()}
        for n, chosen in wanted.items() if chosen
    }  # fmt: skip
    return graph.replace(*(replace(graph.nodes[n], precision=f) for n, f in formats.items()))


def _bits(node: Node, graph: Graph, known: frozenset[str], name: str) -> dict[str, int]:
    if node.id in known or node.op not in BITS:
        streams = [r for r in node.inputs if r.node not in known]
        residual = node.op == "add" and len(streams) == 2 and "mask" not in "".join(r.node for r in streams)
        return {"data_in": 11} if residual and len(node.ports["data_out"].shape) == 3 else {}
    if node.id.endswith("c_fc"):  # in front of GELU in steps, which reads it four times
        return {**BITS[node.op], "data_out": 11}
    return {**BITS[node.op], "data_out": 9} if (node.op, name) == ("softmax", "cnn") else BITS[node.op]


def inputs(found: Opened, seed: int) -> dict[str, Any]:
    """Other values than the formats were chosen with, of the example's sizes."""
    rng = torch.Generator().manual_seed(seed)
    example = found.loaded.example  # type: ignore[union-attr]
    return {
        k: torch.randn(v.shape, generator=rng) if v.is_floating_point() else v.reshape(-1)[
            torch.randint(0, v.numel(), v.shape, generator=rng)]
        for k, v in example.items()
    }  # fmt: skip


def compared(found: Opened, graph: Graph) -> dict[str, Any]:
    """The integer model beside the scored one, over several batches."""
    design = unbuffered(graph, found.store, EmitOptions())[0]
    context = Context(found.store, callables=found.callables, base=found.project.base)
    return compare_scored(graph, design, [(inputs(found, k), None) for k in range(6)], context)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_scored_is_what_hardware_computes(tmp_path: Path, name: str) -> None:
    found = open_any(f"{written(tmp_path)}:{name}", tmp_path, origin=Origin.TYPED)
    graph = quantised(found, name)
    plain = compared(found, graph)
    before = exact(found, graph)
    after, _ = hardware_functions(graph, HardwareFunctionsOptions(), Context(found.store))
    same = compared(found, after)
    assert plain["differing"], "the functions of hardware make a difference here"
    assert not same["differing"] and same["equal_argmax"] == 1.0
    assert all(torch.equal(a, b) for a, b in zip(before, exact(found, after), strict=True)), "the design is as before"


def exact(found: Opened, graph: Graph) -> list[torch.Tensor]:
    """What the design gives, in integers."""
    design = unbuffered(graph, found.store, EmitOptions())[0]
    result = IntegerModel(graph, found.store, design, found.callables)(**inputs(found, 9))
    return list(result.values()) if isinstance(result, dict) else [result]


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Opened, Graph]:
    folder = tmp_path_factory.mktemp("mlp")
    found = open_any(f"{written(folder)}:mlp", folder, origin=Origin.TYPED)
    graph = hardware_functions(quantised(found, "mlp"), HardwareFunctionsOptions(), Context(found.store))[0]
    return found, graph


def test_of_single_numbers_there_is_no_argmax(mlp: tuple[Opened, Graph]) -> None:
    ours, theirs = Results(), Results()
    for results, shift in ((ours, 0.0), (theirs, 0.5)):
        results.take(torch.tensor([[0.25], [0.5]]) + shift, mlp[1], 2)
    found = hardware_scored._difference(ours, theirs)
    assert found["differing"] == 2 and found["equal_argmax"] is None
    assert "argmax" not in scored_verdict({**found, "n": 2})[1]


def test_it_is_a_choice_that_is_saved_and_taken_back(mlp: tuple[Opened, Graph]) -> None:
    found, graph = mlp
    again = graph_from_json(json.loads(json.dumps(graph_to_json(graph))))
    assert again == graph and [n.id for n in again if n.arithmetic == "hardware"] == ["norm", "act", "leak"]
    options = HardwareFunctionsOptions(arithmetic="float")
    plain, report = hardware_functions(graph, options, Context(found.store))
    assert report.summary["nodes"] == 3 and not any(n.arithmetic == "hardware" for n in plain)


def test_gradients_are_those_of_the_float_functions(mlp: tuple[Opened, Graph]) -> None:
    found, graph = mlp
    x = inputs(found, 2)["x"]
    grads = []
    for each in (graph, in_float(graph)):
        module = build(each, found.store)
        module(x=x).sum().backward()
        grads.append(parameters_of(module)["three.weight"].grad)
        assert all(v.grad is not None for v in parameters_of(module).values() if v.requires_grad)
    torch.testing.assert_close(*grads, atol=0.2, rtol=0)  # their inputs differ by steps
    assert not torch.equal(*grads)


def test_trained_factors_of_a_norm_are_used_at_once(mlp: tuple[Opened, Graph]) -> None:
    """A module that trains computes with its present weights, as a graph with those weights does."""
    found, graph = mlp
    x = inputs(found, 2)["x"]
    module = build(graph, found.store)
    before = module(x=x)
    with torch.no_grad():
        parameters_of(module)["norm.weight"].mul_(0.5)
    after = module(x=x)
    fresh = build(read_back(module, graph, found.store), found.store)(x=x)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, fresh, rtol=0, atol=0)


def test_without_formats_it_computes_in_float(mlp: tuple[Opened, Graph]) -> None:
    found, graph = mlp
    bare = graph.replace(*(replace(n, precision={}) for n in graph))
    x = inputs(found, 2)["x"]
    torch.testing.assert_close(build(bare, found.store)(x=x), build(found.project.base, found.store)(x=x))
