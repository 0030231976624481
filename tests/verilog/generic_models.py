"""Six models of several families in formats of 8 to 12 bits, for tests of the hardware functions."""

from __future__ import annotations

from pathlib import Path

MODELS = """
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


class Gelu(nn.Module):  # GPT-2's, in steps
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


def gpt2():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=37, n_positions=12, n_embd=24, n_layer=1, n_head=3, attn_implementation="eager")
    return GPT2LMHeadModel(config).eval(), {"input_ids": torch.randint(0, 37, (2, 10))}


def llama():
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=41, hidden_size=24, intermediate_size=36, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16)
    return LlamaForCausalLM(config).eval(), {"input_ids": torch.randint(0, 41, (2, 9))}


def encoder():
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(20, 4, 28, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
    return layer.eval(), {"src": torch.randn(3, 7, 20)}


class ViT(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.2)
        self.places = nn.Parameter(torch.randn(1, 10, width) * 0.2)
        self.one, self.two, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, width))
        self.head, self.heads = nn.Linear(width, 5), heads

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        q, k, v = self.qkv(self.one(x)).chunk(3, -1)
        cut = lambda t: t.reshape(t.shape[0], 10, self.heads, -1).transpose(1, 2)
        scores = cut(q) @ cut(k).transpose(-1, -2) * (x.shape[-1] // self.heads) ** -0.5
        mixed = (scores.softmax(-1) @ cut(v)).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        x = x + self.mlp(self.two(x))
        return self.head(self.last(x)[:, 0])


def vit():
    torch.manual_seed(3)
    return ViT().eval(), {"image": torch.randn(2, 3, 12, 12)}


def cnn():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(6, 9, 3), nn.BatchNorm2d(9), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(9, 4), nn.Softmax(-1))
    with torch.no_grad():
        for _ in range(3):
            net.train()(torch.randn(16, 1, 10, 10))
    return net.eval(), {"input": torch.randn(2, 1, 10, 10)}


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(11, 18), nn.LayerNorm(18), nn.Linear(18, 18)
        self.act, self.leak, self.three = nn.GELU(), nn.LeakyReLU(0.07), nn.Linear(18, 6)

    def forward(self, x):
        x = self.act(self.norm(self.one(x)))
        return self.three(self.leak(self.two(x)) + x)


def mlp():
    torch.manual_seed(5)
    return MLP().eval(), {"x": torch.randn(4, 11)}
"""

NAMES = ("gpt2", "llama", "encoder", "vit", "cnn", "mlp")


def written(folder: Path) -> Path:
    """The file with the six factories."""
    path = folder / "foreign_blocks.py"
    path.write_text(MODELS)
    return path
