"""Small models of many kinds, traced once a process, with fresh inputs of other sizes."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.export import ExportedProgram

from espalier.model.graph.graph import Graph
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.capture import Captured
from espalier.model.trace.capture import capture as export
from espalier.model.trace.trace import Traced, trace

Inputs = dict[str, Any]
_TEXT = {"vocab_size": 61, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "intermediate_size": 24, "max_position_embeddings": 40}  # fmt: skip
_CLASSES, _CAUSAL, _IMAGES = ({"task": t} for t in ("sequence-classification", "causal-lm", "image-classification"))
_BERT = _TEXT | _CLASSES


class Mlp(nn.Module):
    """Two Linears with a ReLU and a dropout between."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(self.act(self.first(x))))


class Functions(nn.Module):
    """What the predecessor's tracer refuses: torch.exp, x.sum(), methods and operators."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.exp(x * self.scale) + self.shift
        return (y / y.sum(-1, keepdim=True)).clamp(min=0.01) - x.mean() + x.sum() * 2**-10


class InPlace(nn.Module):
    """Writes into values that are read again: functions, modules, views, slices."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.norm = nn.Hardtanh(-0.1, 0.1, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        z = self.act(y)
        w = x * 2
        w.add_(y).mul_(0.5)
        v = w + z
        self.norm(v)
        u = v * 3
        u[:, 0] = 1
        u[:, 1] = w[:, 2].double()
        u[0].copy_(w[0, 0])
        u.view(-1)[-1] = 7
        return u + w + y


class InPlaceInput(nn.Module):
    """Writes into its own input, and counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x += 1
        return self.layer(x)


class Tied(nn.Module):
    """Embedding and head share their weight; the head's weight is used once more by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = torch.tanh(self.mix(self.embed(ids)))
        return self.head(x) + x @ self.head.weight.t() * 0.1 + self.mix.bias.sum()


class Twice(nn.Module):
    """One module called twice, and another whose name is that of a second call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.layer_1 = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer_1(torch.relu(self.layer(x))))


class NoGrad(nn.Module):
    """A part without gradient, which torch.export wraps in a subgraph."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(4, 4)
        self.live = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = self.frozen(x)
            z = torch.sin(y) + x.sum()
        return self.live(y) * z


class SelfAttention(nn.Module):
    """nn.MultiheadAttention, whose weights are used by functions."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


class Image(nn.Module):
    """Convolutions, batch norm, pooling, a transposed convolution, an in-place residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.deep = nn.Conv2d(4, 4, 3, padding="same", groups=2, padding_mode="reflect")
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.flat = nn.Flatten()
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(4, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.act(self.norm(self.stem(image)))
        y = self.up(self.pool(self.deep(x)))
        y += x
        return self.head(self.drop(self.flat(F.adaptive_avg_pool2d(self.act(y), 1))))


class Many(nn.Module):
    """Nested results, functions with several results, an input that is not needed, constants."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.steps = torch.arange(3.0)

    def forward(self, x: Tensor, spare: Tensor) -> dict[str, Any]:
        a, b = self.layer(x).chunk(2, dim=-1)
        values, indices = (a * self.steps).topk(2)
        first, *rest = torch.unbind(b, dim=-1)
        length = torch.zeros(x.shape[0], x.size(1) * 2)
        return {"values": values, "pair": (indices, first), "length": length, "rest": rest[1] + torch.tensor(2.0)}


class Recurrent(nn.Module):
    """An LSTM: one function with a list of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0][:, -1])


class Odd(nn.Module):
    """A bfloat16 layer, a weight without elements, a frozen one, one that is never used, a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.brief = nn.Linear(4, 4).bfloat16()
        self.empty = nn.Parameter(torch.zeros(0, 4))
        self.frozen = nn.Parameter(torch.randn(4), requires_grad=False)
        self.unused = nn.Linear(50, 50)
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.brief(x.bfloat16()).float() * self.frozen * self.gain
        return torch.cat([y, self.empty + y[:0]])


class Branches(nn.Module):
    """torch.cond: a function over subgraphs, and pooling that gives two results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.pool = nn.MaxPool1d(2, return_indices=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (self.layer(x),))
        values, places = self.pool(y[:, None])
        return values * 2, places


class Choosy(nn.Module):
    """Control flow that depends on the data: torch.export refuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.drop(torch.relu(self.first(x)))
        if float(y.detach().sum()) > -1:
            y = torch.matmul(y, y.transpose(-1, -2)) @ y
        return self.second(y)


def _own(cls: type[nn.Module], **example: Tensor) -> Callable[[], tuple[nn.Module, Inputs]]:
    def make() -> tuple[nn.Module, Inputs]:
        torch.manual_seed(3)
        return cls().eval(), {k: v.clone() for k, v in example.items()}

    return make


def _config(kind: str, values: Inputs, *inputs: str) -> Callable[[], tuple[nn.Module, Inputs]]:
    query = "&".join(f"{k}={v}".replace(" ", "") for k, v in values.items())

    def make() -> tuple[nn.Module, Inputs]:
        loaded = load_source(f"config:{kind}?{query}", inputs, seed=3)
        return loaded.model, loaded.example

    return make


_R = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
_SEQ = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
_DISTILBERT = {"vocab_size": 61, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24} | _CLASSES
_GPT2 = {"vocab_size": 61, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40} | _CAUSAL
_GQA = _TEXT | _CAUSAL | {"num_key_value_heads": 1}
_T5 = {"vocab_size": 61, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "task": "seq2seq-lm"}
_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
        "image_size": 16, "patch_size": 4} | _IMAGES  # fmt: skip
_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"} | _IMAGES
_SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2],
         "window_size": 4} | _IMAGES  # fmt: skip

MODELS: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "mlp": _own(Mlp, x=_R),
    "functions": _own(Functions, x=_R),
    "in-place": _own(InPlace, x=_R),
    "in-place-input": _own(InPlaceInput, x=_R),
    "tied": _own(Tied, ids=torch.arange(6).reshape(2, 3)),
    "twice": _own(Twice, x=_R),
    "no-grad": _own(NoGrad, x=_R),
    "attention": _own(SelfAttention, x=_SEQ),
    "image": _own(Image, image=torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))),
    "many": _own(Many, x=_SEQ[..., :6], spare=_R),
    "recurrent": _own(Recurrent, x=_SEQ[..., :4]),
    "odd": _own(Odd, x=_R),
    "branches": _own(Branches, x=_R),
    "choosy": _own(Choosy, x=_R),
    "bert": _config("bert", _BERT),
    "bert-ids": _config("bert", _BERT, "input_ids"),
    "bert-labels": _config("bert", _BERT, "input_ids", "attention_mask", "labels"),
    "bert-eager": _config("bert", _BERT | {"attn_implementation": "eager"}),
    "roberta": _config("roberta", _BERT | {"pad_token_id": 1}),
    "distilbert": _config("distilbert", _DISTILBERT),
    "gpt2": _config("gpt2", _GPT2, "input_ids", "attention_mask", "labels"),
    "llama": _config("llama", _GQA, "input_ids", "labels"),
    "mixtral": _config("mixtral", _GQA | {"num_local_experts": 2}, "input_ids"),
    "t5": _config("t5", _T5),
    "vit": _config("vit", _VIT),
    "resnet": _config("resnet", _RESNET),
    "swin": _config("swin", _SWIN),
}
SLOW = ("roberta", "distilbert", "t5", "swin", "mixtral", "resnet", "vit", "llama")
SHARE = 0.4  # of the slow ones, for each run of the tests: the same in all files, so that the others are never traced
OWN = tuple(n for n, make in MODELS.items() if "_own" in make.__qualname__)


def slow(name: str) -> Any:
    """A parameter for a model that takes seconds."""
    return pytest.param(name, marks=[pytest.mark.slow, pytest.mark.sampled(SHARE, by=name)])


@dataclass
class Case:
    """A model with its trace; `original` is never trained or written to. `state`: its state before the trace.

    `program`: what torch exported for the trace, None where it could not.
    """

    name: str
    original: nn.Module
    example: Inputs
    store: WeightStore
    traced: Traced
    state: Inputs
    sizes: tuple[tuple[int, int], ...] = field(default=((2, 16), (1, 7), (3, 11)))
    program: ExportedProgram | None = None

    @property
    def graph(self) -> Graph:
        return self.traced.graph

    def build(self, graph: Graph | None = None) -> nn.Module:
        return build(graph or self.graph, self.store, self.traced.callables)

    def fresh(self, batch: int, length: int, seed: int = 0) -> Inputs:
        return fresh(self.example, batch, length, seed)

    def expected(self, inputs: Inputs) -> list[Tensor]:
        return run(copy.deepcopy(self.original), inputs)


def run(module: nn.Module, inputs: Inputs) -> list[Tensor]:
    """Results without gradient; attention modules off the fused kernel that only inference has."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            return tensors(module(**copied(inputs)))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def same(got: list[Tensor], want: list[Tensor]) -> bool:
    """Equal bit for bit, NaNs and dtypes included."""
    bits = [(a.dtype, b.dtype, a.shape, b.shape, torch.equal(a, b)) for a, b in zip(got, want, strict=True)]
    return all(a == b and c == d and e for a, b, c, d, e in bits)


def copied(inputs: Inputs) -> Inputs:
    return {k: v.clone() if isinstance(v, Tensor) else v for k, v in inputs.items()}


def tensors(result: Any) -> list[Tensor]:
    """All result tensors in order."""
    plain = dict(result.items()) if hasattr(result, "items") else result
    return [t for t in pytree.tree_leaves(plain) if isinstance(t, Tensor)]


def fresh(example: Inputs, batch: int, length: int, seed: int = 0) -> Inputs:
    """Random inputs like `example` at another batch size and, where there is one, another length."""
    generator = torch.Generator().manual_seed(seed)
    return {k: _fresh(k, v, batch, length, generator) for k, v in example.items()}


def _fresh(name: str, value: Any, batch: int, length: int, generator: torch.Generator) -> Any:
    if not isinstance(value, Tensor):
        return value
    shape = [batch, *value.shape[1:]]
    if value.dim() == 3 or (value.dim() == 2 and not value.is_floating_point()):
        shape[1] = length - 3 if name.startswith("decoder") else length
    if value.is_floating_point():
        return torch.randn(shape, generator=generator).to(value.dtype)
    if "mask" in name:
        mask = torch.ones(shape, dtype=value.dtype)
        mask[-1, -2:] = 0
        return mask
    return torch.randint(0, max(int(value.max()), 1) + 1, shape, generator=generator)


@cache
def case(name: str) -> Case:
    """The traced model `name`, once a process."""
    model, example = MODELS[name]()
    store = WeightStore(Path(tempfile.gettempdir()) / "espalier-tests-zoo-unwritten")
    state, kept = copied(model.state_dict()), list[ExportedProgram]()

    def capture(model: nn.Module, kwargs: Inputs) -> Captured:
        captured = export(model, kwargs)
        kept.append(captured.program)
        return captured

    with mock.patch("espalier.model.trace.trace.capture", capture):
        traced = trace(model, example, store)
    return Case(name, model, copied(example), store, traced, state, program=kept[-1] if kept else None)
