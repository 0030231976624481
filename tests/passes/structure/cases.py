"""Models of random architecture, with weights that are nowhere zero, and what a masked model gives."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.graph.graph import Graph
from espalier.model.store.weights import Tensor as Stored
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from tests.model.zoo import Case, case, run


def shaken(held: Case, seed: int = 0) -> Graph:
    """The graph of a case with random biases and norms too, so that nothing is zero or one by chance."""
    rng = np.random.default_rng(seed)
    weights = dict(held.graph.weights)
    for name, weight in weights.items():
        if weight.key is None or weight.dtype != "float32" or weight.role == "constant" or "position_id" in name:
            continue
        values = held.store.get(weight.key).array + rng.normal(0, 0.2, weight.shape).astype(np.float32)
        values = np.abs(values) + 0.1 if name.endswith("running_var") else values
        weights[name] = replace(weight, key=held.store.hold(Stored(values.astype(np.float32), "float32")))
    return replace(held.graph, weights=weights)


def differ(one: Graph, other: Graph, held: Case) -> float:
    """The largest difference of results at several sizes, of the largest value."""
    first, second = held.build(one), held.build(other)
    worst = 0.0
    for batch, length in held.sizes:
        inputs = held.fresh(batch, length)
        for a, b in zip(run(first, inputs), run(second, inputs), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            if a.is_floating_point() and a.numel():
                worst = max(worst, float((a - b).abs().max() / a.abs().max().clamp(min=1e-6)))
    return worst


# -- random architectures


class Feed(nn.Module):
    """A feed-forward: plain, gated by a half of one layer, or gated by a layer of its own; a norm inside or not."""

    def __init__(self, width: int, rng: random.Random) -> None:
        super().__init__()
        hidden, self.kind = 2 * rng.randint(2, 6), rng.choice(("plain", "glu", "chunk", "gated", "slice", "cat"))
        double = self.kind in ("glu", "chunk", "slice")
        self.one = nn.Linear(width, hidden * (2 if double else 1), bias=rng.random() < 0.7)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden * (2 if self.kind == "cat" else 1), width)
        self.hidden = hidden
        self.act = rng.choice((torch.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid))

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        if self.kind == "glu":
            y = F.glu(y, -1)
        elif self.kind == "chunk":
            a, b = y.chunk(2, -1)
            y = self.act(a) * b
        elif self.kind == "slice":
            y = self.act(y[..., : self.hidden]) * y[..., self.hidden :]
        elif self.kind == "gated":
            y = self.act(y) * self.up(x)
        elif self.kind == "cat":
            y = torch.cat([self.act(y), self.up(x)], -1)
        else:
            y = self.act(y)
        return self.down(y)


class Attend(nn.Module):
    """Attention: separate or joint projections in three layouts, groups of queries, fused or written out."""

    def __init__(self, width: int, rng: random.Random) -> None:
        super().__init__()
        self.groups, self.size = rng.randint(1, 3), rng.choice((2, 3, 4))
        self.kind = rng.choice(("apart", "split", "headwise", "unflatten"))
        self.more = rng.randint(1, 2) if self.kind == "apart" else 1
        self.heads, self.eager = self.groups * self.more, rng.random() < 0.5
        full, part = self.heads * self.size, self.groups * self.size
        self.query, self.key, self.value = (nn.Linear(width, n) for n in (full, part, part))
        self.joint = nn.Linear(width, 3 * full)
        self.out = nn.Linear(full, width, bias=rng.random() < 0.7)

    def _heads(self, x: Tensor, count: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], count, self.size).transpose(1, 2)

    def _joint(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.joint(x)
        if self.kind == "split":
            return tuple(self._heads(p, self.heads) for p in y.split(self.heads * self.size, -1))
        if self.kind == "headwise":
            return y.view(x.shape[0], x.shape[1], self.heads, 3 * self.size).transpose(1, 2).chunk(3, -1)
        parts = y.unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
        return parts[0], parts[1], parts[2]

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "apart":
            q, k, v = self._heads(self.query(x), self.heads), self.key(x), self.value(x)
            k, v = (self._heads(t, self.groups).repeat_interleave(self.more, 1) for t in (k, v))
        else:
            q, k, v = self._joint(x)
        if self.eager:
            y = torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], self.heads * self.size))


class Text(nn.Module):
    """A random stack of residual attentions and feed-forwards over an embedding."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        width = rng.choice((4, 6, 8))
        self.embed = nn.Embedding(13, width)
        self.parts = nn.ModuleList(rng.choice((Feed, Attend))(width, rng) for _ in range(rng.randint(1, 4)))
        self.norms = nn.ModuleList(rng.choice((nn.LayerNorm, nn.RMSNorm, nn.Identity))(width) for _ in self.parts)
        self.before = rng.random() < 0.5
        self.pool, self.head = nn.Linear(width, 5), nn.Linear(5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for part, norm in zip(self.parts, self.norms, strict=True):
            x = x + part(norm(x)) if self.before else norm(x + part(x))
        return self.head(torch.tanh(self.pool(x[:, 0])))


class Layer(nn.Module):
    """A pre-norm layer: what it takes, and what its branches add to it."""

    def __init__(self, width: int, rng: random.Random) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.RMSNorm(width)])
        self.attention, self.feed = Attend(width, rng), Feed(width, rng)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


class Deep(nn.Module):
    """A stack of pre-norm layers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        self.embed = nn.Embedding(13, 6)
        self.layers = nn.ModuleList(Layer(6, rng) for _ in range(4))
        self.head = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class Picture(nn.Module):
    """A random convolutional net: groups, depthwise, batch and group norms, residuals, concatenations, flattening."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        width = 4 * rng.randint(1, 2)
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.kinds = [rng.choice(("plain", "groups", "depth", "dense", "squeeze")) for _ in range(rng.randint(1, 4))]
        self.parts, self.norms = nn.ModuleList(), nn.ModuleList()
        for kind in self.kinds:
            groups = {"groups": 2, "depth": width}.get(kind, 1)
            hidden = width if kind == "depth" else 2 * rng.randint(1, 4)
            self.parts.append(nn.ModuleList([nn.Conv2d(width, hidden, 3, padding=1, groups=groups),
                                             nn.Conv2d(hidden, width, 1, groups=groups if kind == "groups" else 1),
                                             nn.Conv2d(width + hidden, width, 1)]))  # fmt: skip
            self.norms.append(rng.choice((nn.BatchNorm2d(hidden), nn.GroupNorm(2 if hidden % 2 == 0 else 1, hidden),
                                          nn.Identity())))  # fmt: skip
        self.flat = rng.random() < 0.5
        self.head = nn.Linear(width * (16 if self.flat else 1), 3)

    def forward(self, image: Tensor) -> Tensor:
        x = torch.relu(self.stem(image))
        for kind, (one, two, three), norm in zip(self.kinds, self.parts, self.norms, strict=True):
            y = F.relu(norm(one(x)))
            if kind == "dense":
                x = three(torch.cat([x, y], 1))
            elif kind == "squeeze":
                x = x * torch.sigmoid(two(F.adaptive_avg_pool2d(y, 1)))
            else:
                x = x + two(y)
        x = F.max_pool2d(x, 2)
        return self.head(x.flatten(1) if self.flat else x.mean((2, 3)))


@cache
def made(kind: str, seed: int) -> Case:
    """A random model, traced."""
    torch.manual_seed(seed)
    model: nn.Module = {"text": Text, "deep": Deep, "picture": Picture}[kind](seed)
    example = {"image": torch.randn(2, 2, 8, 8)} if kind == "picture" else {"ids": torch.randint(0, 13, (2, 5))}
    model = model.eval()
    store = WeightStore(Path(tempfile.gettempdir()) / "espalier-tests-structure-unwritten")
    return Case(f"{kind}-{seed}", model, example, store, trace(model, example, store), {})


def named(name: str) -> Case:
    """A case of the zoo, or a random one: "text-3"."""
    kind, _, seed = name.partition("-")
    return made(kind, int(seed)) if kind in ("text", "deep", "picture") else case(name)
