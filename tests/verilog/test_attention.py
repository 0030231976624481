"""Transformer blocks whole: what the hardware computes is the model's own function, and every beat of it is right."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel, Precision
from espalier.model.opening import Opened, open_any
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build as build_module
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower, unbuffered
from espalier.verilog.proof.simulate import build, run
from tests.folders import kept_folder
from tests.verilog.checks import needs_icarus

BLOCKS = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, heads=2, shared=2, causal=False, width=16):
        super().__init__()
        self.heads, self.shared, self.causal = heads, shared, causal
        held = width // heads * shared
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, held), nn.Linear(width, held)
        self.out, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 32), nn.Linear(32, width)
        self.first, self.second, self.head = nn.LayerNorm(width), nn.RMSNorm(width), nn.Linear(width, 3)

    def forward(self, x, mask=None):
        b, s, d = x.shape
        size = d // self.heads
        q = self.query(x).view(b, s, self.heads, size).transpose(1, 2)
        k = self.key(x).view(b, s, self.shared, size).transpose(1, 2)
        v = self.value(x).view(b, s, self.shared, size).transpose(1, 2)
        if mask is not None:
            mask = mask[:, None, None, :].bool().expand(b, 1, s, s)
        a = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.shared != self.heads)
        x = self.first(x + self.out(a.transpose(1, 2).reshape(b, s, d)))
        return self.head(self.second(x + self.down(torch.relu(self.up(x))))[:, 0])

def masked():
    torch.manual_seed(0)
    return Block().eval(), {"x": torch.randn(2, 6, 16), "mask": torch.ones(2, 6, dtype=torch.long)}

def grouped():
    torch.manual_seed(1)
    return Block(heads=4, causal=True).eval(), {"x": torch.randn(2, 6, 16)}
"""


@cache
def opened(name: str) -> Opened:
    """A block, traced once a process: tests change its graph only by copies."""
    folder = kept_folder()
    path = folder / "blocks.py"
    path.write_text(BLOCKS)
    return open_any(f"{path}:{name}", folder, origin=Origin.TYPED)


def quantised(graph: Graph, store: WeightStore, more: int = 0) -> Graph:
    """Formats of 8 to 10 bits, or finer ones."""

    def form(width: int, frac: int) -> Precision:
        return Precision(Integer(width + more, frac + more))

    graph, _ = decompose_attention(graph, DecomposeOptions(), Context(store))
    wanted = {
        "linear": {"data_in": form(8, 4), "weight": form(8, 6), "bias": form(12, 8)},
        "matmul": {"data_in": form(8, 4), "weight": form(8, 4)},
        "softmax": {"data_in": form(8, 4)},
        "add": {"data_in": form(10, 5)},
    }
    norm = {"data_in": form(10, 5), "weight": form(8, 5), "bias": form(8, 5), "data_out": form(8, 4)}
    nodes = {n.id: replace(n, precision=wanted.get(n.op, norm if "norm" in n.op else {})) for n in graph}
    for node in graph:
        if node.op == "matmul" and node.id.endswith("context"):
            chances = Precision(Integer(8 + more, 8 + more, signed=False))
            nodes[node.id] = replace(node, precision={"data_in": chances, "weight": form(8, 4)})
    return replace(graph, nodes={k: replace(n, precision={p: f for p, f in n.precision.items() if p in n.ports})
                                 for k, n in nodes.items()})  # fmt: skip


def inputs(name: str) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(3)
    found = {"x": torch.randn(5, 6, 16, generator=rng)}
    if name == "masked":
        found["mask"] = (torch.rand(5, 6, generator=rng) < 0.7).long()
        found["mask"][:, 0] = 1
    return found


@pytest.mark.parametrize("name", ["masked", "grouped"])
def test_exact_mode_is_the_model(name: str) -> None:
    """With fine formats the hardware's function is the float model's, masks and shared heads with it."""
    found = opened(name)
    graph = quantised(found.project.base, found.store, more=6)
    design = unbuffered(graph, found.store, EmitOptions(sizes={"seq": 6}))[0]
    given = inputs(name)
    got = IntegerModel(graph, found.store, design, found.callables)(**given)
    with torch.no_grad():
        want = build_module(found.project.base, found.store, found.callables)(**given)
    torch.testing.assert_close(got.float(), want, atol=0.01, rtol=0)


@pytest.mark.sampled(0.5)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(("name", "par"), [("masked", 1), ("grouped", 2)])
def test_every_beat_of_a_block(tmp_path: Path, name: str, par: int) -> None:
    found = opened(name)
    graph = quantised(found.project.base, found.store)
    wider = [n for n in graph if n.op in ("linear", "matmul") and n.id != "head"]
    rows = 1 + (name == "grouped")
    graph = graph.replace(*(replace(n, parallel=Parallel(par, par, rows)) for n in wider))
    design = lower(graph, found.store, EmitOptions(sizes={"seq": 6}))
    codes = Host(graph, found.store, design, found.callables)(**inputs(name))
    built = build(design, len(codes[0]), tmp_path / "builds", "icarus")
    for stall in (0, 3):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)


def test_a_softmax_needs_a_format() -> None:
    found = opened("masked")
    graph = quantised(found.project.base, found.store)
    context = next(n for n in graph if n.id.endswith("context"))
    graph = graph.replace(replace(context, precision={"weight": context.precision["weight"]}))
    with pytest.raises(EmitError, match=r"data_out of .*probabilities has no format"):
        unbuffered(graph, found.store, EmitOptions(sizes={"seq": 6}))


def test_the_scale_goes_into_the_product() -> None:
    """1/√8 is no power of two: the sums are multiplied before they are rounded."""
    found = opened("masked")
    design = unbuffered(quantised(found.project.base, found.store), found.store, EmitOptions(sizes={"seq": 6}))[0]
    scores = next(i for i in design.instances if i.name.endswith("scores"))
    assert scores.parameters()["MUL"] == round(8**-0.5 * 2**13)
    assert not any(i.node.endswith("_scaled") for i in design.instances)
