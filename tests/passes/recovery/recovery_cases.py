"""What the tests of recovery passes share: the demos, opened once, with formats on their layers."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.batches import batches
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.tasks.scores import logits_of
from espalier.passes.transform.quantize import quantize


@cache
def demo(name: str) -> tuple[Opened, Context]:
    """A demo, opened once a process."""
    opened = open_any(name, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    return opened, Context(opened.store, reading=opened.project.source.reading)


def with_format(graph: Graph, context: Context, ops: tuple[str, ...], **formats: Format) -> Graph:
    """The graph with formats on the ports of all nodes of `ops`."""
    rule = Rule(Select("type", ops), dict(formats))
    return quantize(graph, QuantizeOptions((rule,)), context)[0]


def logits(graph: Graph, name: str, limit: int = 200) -> Tensor:
    """The class scores of a demo's graph on held-out samples."""
    opened, context = demo(name)
    module = build(graph, opened.store, opened.callables)
    split = load_split(EvaluateOptions(data=name, split="test", limit=limit), context)
    with torch.no_grad():
        return torch.cat([logits_of(module(**inputs), graph) for inputs, _ in batches(split, graph, 64)])


def distance(graph: Graph, name: str) -> float:
    """Mean squared error of held-out logits against the float model's."""
    return float((logits(graph, name) - logits(demo(name)[0].project.graph, name)).square().mean())
