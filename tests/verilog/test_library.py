"""Networks of torch's own layers: attention with samples on the second axis, encoders, residual blocks, a ViT."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from espalier.model.errors import EmitError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build as build_module
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from espalier.verilog.design.netlist import Design
from espalier.verilog.design.options import EmitOptions
from espalier.verilog.emulation.integer_model import Host, IntegerModel
from espalier.verilog.lowering.lower import lower, unbuffered
from espalier.verilog.proof.simulate import build, run
from tests.folders import kept_folder
from tests.verilog.checks import needs_icarus

MODELS = """
import torch
from torch import nn
import torch.nn.functional as F

class Attention(nn.Module):
    def __init__(self, weights=False, first=True):
        super().__init__()
        self.weights = weights
        self.a = nn.MultiheadAttention(16, 2, batch_first=first)
        self.n, self.o = nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x):
        y = self.a(x, x, x, need_weights=self.weights)[0]
        return self.o(self.n(x + y)[:, 0])

class Encoder(nn.Module):
    def __init__(self, layers=1, **more):
        super().__init__()
        self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, **more), layers,
                                       enable_nested_tensor=False)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        return self.o(self.e(x).mean(1))

class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.TransformerEncoderLayer(16, 2, 24), nn.Linear(16, 3)

    def forward(self, x):
        y = self.e(x.transpose(0, 1))
        both = torch.cat([y, torch.relu(y)], 0)
        return self.o(y.mean(0)), y, torch.softmax(both, 0).sum(0), both.amax((0, 2))

class Residual(nn.Module):
    def __init__(self, step=1, out=4):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(4, out, 3, step, 1, bias=False), nn.BatchNorm2d(out)
        self.c2, self.b2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        same = step == 1
        self.d = nn.Identity() if same else nn.Sequential(nn.Conv2d(4, out, 1, step, bias=False), nn.BatchNorm2d(out))
        self.f = nn.Linear(out, 3)

    def forward(self, x):
        y = F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + self.d(x))
        return self.f(torch.flatten(F.adaptive_avg_pool2d(y, 1), 1))

class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.a = nn.Conv2d(1, 16, 4, 4), nn.MultiheadAttention(16, 2, batch_first=True)
        self.c, self.at = nn.Parameter(torch.randn(1, 1, 16)), nn.Parameter(torch.randn(1, 5, 16))
        self.n1, self.n2, self.h = nn.LayerNorm(16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.m = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.c.expand(x.shape[0], -1, -1), x], 1) + self.at
        y = self.n1(x)
        x = x + self.a(y, y, y, need_weights=False)[0]
        return self.h((x + self.m(self.n2(x)))[:, 0])

def made(model, *sizes):
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.3)
            m.running_var.uniform_(0.5, 2)
    return model.eval(), {"x": torch.randn(2, *sizes)}

def attention(): return made(Attention(), 6, 16)
def weights(): return made(Attention(True), 6, 16)
def mixed(): return made(Attention(first=False), 6, 16)
def encoder(): return made(Encoder(), 6, 16)
def gelu(): return made(Encoder(2, activation="gelu", norm_first=True), 6, 16)
def sequence(): return made(Sequence(), 6, 16)
def residual(): return made(Residual(), 4, 6, 6)
def down(): return made(Residual(2, 8), 4, 6, 6)
def vit(): return made(ViT(), 1, 8, 8)
"""
NAMES = ("attention", "weights", "encoder", "gelu", "sequence", "residual", "down", "vit")


def formats(node: Node, more: int) -> dict[str, Precision]:
    """8 bits for what is multiplied, 10 where branches meet; `more` bits for each."""

    def own(width: int, frac: int) -> Precision:
        return Precision(Integer(width + more, frac + more))

    product = {"data_in": own(8, 5), "weight": own(8, 5)}
    layer = {"data_in": own(8, 5), "weight": own(8, 7), "bias": own(12, 8)}
    norm = {"data_in": own(10, 6), "weight": own(8, 5), "bias": own(8, 5), "data_out": own(9, 5)}
    chosen = {
        "linear": layer, "conv2d": layer, "matmul": product, "bmm": product, "gelu": {"data_in": own(8, 5)},
        "softmax": {"data_in": own(9, 5), "data_out": own(9, 8)}, "layer_norm": norm, "batch_norm2d": norm,
        **{op: {"data_in": own(10, 6)} for op in ("add", "cat", "mean", "adaptive_avg_pool2d")},
    }.get(node.op, {})  # fmt: skip
    return {p: f for p, f in chosen.items() if p in node.ports}


@cache
def source(name: str) -> Opened:
    """A model, traced once a process: tests change its graph only by copies."""
    folder = kept_folder()
    path = folder / "made.py"
    path.write_text(MODELS)
    return open_any(f"{path}:{name}", folder / "store", seed=0, origin=Origin.TYPED)


def opened(name: str, more: int) -> tuple[Opened, Graph]:
    """A model with formats, its attention in parts."""
    found = source(name)
    graph = found.project.base
    if any(n.op == "scaled_dot_product_attention" for n in graph):
        graph, _ = decompose_attention(graph, DecomposeOptions(), Context(found.store))
    return found, graph.replace(*(replace(n, precision=formats(n, more)) for n in graph if formats(n, more)))


def given(graph: Graph) -> dict[str, torch.Tensor]:
    sizes = graph.nodes["x"].ports["data_out"].sizes({**graph.symbols, "batch": 3})
    return {"x": torch.randn(sizes, generator=torch.Generator().manual_seed(3))}


def tensors(value: object) -> tuple[torch.Tensor, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (torch.as_tensor(value),)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_exact_mode_is_the_model(name: str) -> None:
    found, graph = opened(name, more=6)
    design, inputs = unbuffered(graph, found.store, EmitOptions())[0], given(graph)
    got = tensors(IntegerModel(graph, found.store, design)(**inputs))
    with torch.no_grad():
        want = tensors(build_module(found.project.base, found.store)(**inputs))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.float(), b, atol=0.004, rtol=0)


def test_attention_over_samples_is_told() -> None:
    """Such a layer takes the first axis for the sequence; what comes there are the samples."""
    found, graph = opened("mixed", more=0)
    with pytest.raises(EmitError, match="along the batch axis"):
        lower(graph, found.store, EmitOptions())


def simulated(folder: Path, name: str) -> Design:
    """Equal in every beat, whether anybody pauses or not."""
    found, graph = opened(name, more=0)
    design = lower(graph, found.store, EmitOptions())
    codes = Host(graph, found.store, design)(**given(graph))
    built = build(design, len(codes[0]), folder / "builds", "icarus")
    for stall in (0, 3):
        done = run(design, built, codes, stall, limit=1_000_000)
        assert not done.stuck and not done.mismatches, (stall, done.mismatches)
    return design


@pytest.mark.sampled(0.34)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_beat(tmp_path: Path, name: str) -> None:
    simulated(tmp_path, name)
