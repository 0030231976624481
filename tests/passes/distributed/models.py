"""Models as students write them, small enough for four processes on two cores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Writer(nn.Module):
    """A decoder with tied embeddings, a fused projection, its own attention and a width without a power of two."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = 6
        self.tokens = nn.Embedding(54, 36, padding_idx=0)
        self.places = nn.Parameter(torch.randn(1, 20, 36) * 0.1)
        self.qkv, self.out = nn.Linear(36, 108), nn.Linear(36, 36)
        self.up, self.down = nn.Linear(36, 88), nn.Linear(88, 36, bias=False)
        self.first, self.second = nn.LayerNorm(36), nn.LayerNorm(36)
        self.head = nn.Linear(36, 54, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """ids [batch, seq] → scores [batch, seq, 54]."""
        batch, length = ids.shape
        x = self.tokens(ids) + self.places[:, :length]
        order = torch.arange(length)
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in parts)
        scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~(order[None, :] <= order[:, None]), float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, -1))
        return self.head(x + self.down(F.gelu(self.up(self.second(x)))))


class Digits(nn.Module):
    """Convolutions, one of them with groups, and batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 20, 3, groups=2), nn.BatchNorm2d(20), nn.SiLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(80, 32), nn.ReLU(), nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, 3, 18, 18] → scores [batch, 10]."""
        return self.layers(x)


class Reader(nn.Module):
    """An LSTM, for which DTensor has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm, self.head = nn.Embedding(30, 16), nn.LSTM(16, 24, batch_first=True), nn.Linear(24, 6)

    def forward(self, ids: Tensor) -> Tensor:
        """ids [batch, seq] → scores [batch, 6]."""
        return self.head(self.lstm(self.tokens(ids))[0].mean(1))


def writer() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A Writer and an example."""
    torch.manual_seed(0)
    return Writer(), (torch.randint(1, 54, (4, 12)),)


def digits() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Digits and an example."""
    torch.manual_seed(1)
    return Digits(), (torch.randn(4, 3, 18, 18),)


def reader() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A Reader and an example."""
    torch.manual_seed(2)
    return Reader(), (torch.randint(0, 30, (4, 8)),)


def gpt2() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A GPT-2 of transformers and an example."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(3)
    config = GPT2Config(vocab_size=60, n_positions=32, n_embd=32, n_layer=2, n_head=4)
    return GPT2LMHeadModel(config).eval(), (torch.randint(0, 60, (4, 10)),)


def llama() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A Llama of transformers with grouped heads, and an example."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(4)
    config = LlamaConfig(vocab_size=60, hidden_size=32, intermediate_size=72, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2)  # fmt: skip
    return LlamaForCausalLM(config).eval(), (torch.randint(0, 60, (4, 10)),)
