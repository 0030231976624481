"""Watching ports: what is told is what flowed, before the port's own format."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.opening import open_any
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.observing import observe
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize

WANTED = ("data_in", "data_out")


Told = dict[tuple[str, str], list[Tensor]]


def keep(told: Told, node: str, leaf: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
    """A forward hook."""
    told.setdefault((node, "data_in"), []).append(args[0])
    told.setdefault((node, "data_out"), []).append(result)


def seen(spec: str, formats: bool, work: Path) -> tuple[Told, Told]:
    """(told by observe, told by hooks on the built module's leaves), Linear layers alone."""
    opened = open_any(spec, work, origin=Origin.TYPED)
    graph, store = opened.project.graph, opened.store
    context = Context(store, reading=opened.project.source.reading)
    if formats:
        rule = Rule(Select("type", ("linear",)), dict.fromkeys(("data_in", "data_out"), Integer(6, 3)))
        graph, _ = quantize(graph, QuantizeOptions((rule,)), context)
    linears = [n for n in graph if n.op == "linear"]
    split = load_split(EvaluateOptions(data=spec, limit=20), context)
    told: Told = {}
    observe(
        graph, split, 8, {n.id: WANTED for n in linears}, lambda *a: told.setdefault(a[:2], []).append(a[2]), context
    )
    hooked: Told = {}
    module = build(graph, store)
    for node in linears:
        leaf = module.get_submodule(node.target)
        leaf.register_forward_hook(partial(keep, hooked, node.id))
    with torch.no_grad():
        for batch, _ in split.batches(8):
            module(**{n.target: torch.from_numpy(batch[n.target]) for n in graph.placeholders if n.target in batch})
    return told, hooked


@pytest.mark.slow
def test_tells_what_flows_through_float_ports(tmp_path: Path) -> None:
    told, hooked = seen("demo:reviews", formats=False, work=tmp_path)
    assert told.keys() == hooked.keys() and len(told) > 10
    for key, tensors in told.items():
        assert len(tensors) == 3
        assert all(torch.equal(a, b) for a, b in zip(tensors, hooked[key], strict=True)), key


def test_tells_inputs_before_their_format_and_results_before_theirs(tmp_path: Path) -> None:
    told, hooked = seen("demo:digits-mlp", formats=True, work=tmp_path)
    changed = False
    for (node, port), tensors in told.items():
        for mine, theirs in zip(tensors, hooked[node, port], strict=True):
            if port == "data_in":
                assert torch.equal(straight_through(Integer(6, 3), mine), theirs)
                changed |= not torch.equal(mine, theirs)
            else:
                assert torch.equal(mine, theirs)
    assert changed
