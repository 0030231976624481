"""What models take, against what they run: each limit is legal and one token more is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.opening import open_source
from espalier.model.sources.limits import limits_of
from espalier.model.torch.build import build
from espalier.model.trust import Origin

SMALL = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1"
TASK = "task=sequence-classification"
SOURCES = {
    f"config:bert?{SMALL}&max_position_embeddings=64&{TASK}": (64, 30522),
    f"config:bert?{SMALL}&max_position_embeddings=32&vocab_size=90&{TASK}": (32, 90),
    f"config:roberta?{SMALL}&max_position_embeddings=66&vocab_size=99&{TASK}": (64, 99),  # begins at 2
    f"config:gpt2?n_layer=1&n_embd=16&n_head=2&n_positions=32&vocab_size=99&{TASK}": (32, 99),
    f"config:opt?num_hidden_layers=1&hidden_size=16&num_attention_heads=2&ffn_dim=16&max_position_embeddings=40&{TASK}":
        (40, 50272),
    "config:t5?num_layers=1&d_model=16&num_heads=2&d_ff=16&d_kv=8&vocab_size=99&task=seq2seq-lm": (None, 99),
    f"config:bloom?n_layer=1&hidden_size=16&n_head=2&vocab_size=99&{TASK}": (None, 99),
}  # fmt: skip
FOREIGN = '''
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way, self.tok, self.table = way, nn.Embedding(70, 8), nn.Embedding(20, 8)
        self.pos = nn.Parameter(torch.randn(1, 41, 8))
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("mask", torch.ones(48, 48))
        self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, ids):
        x, size = self.tok(ids), ids.size(1)
        if self.way == "shifted":
            x = x + self.table(torch.arange(1, size + 1))
        if self.way == "parameter":
            x = x + self.pos[:, :size]
        if self.way == "class_token":
            x = torch.cat([self.first.expand(ids.size(0), -1, -1), x], 1)
            x = x + self.pos[:, : x.size(1)]
        if self.way == "causal":
            x = (x @ x.transpose(1, 2)).masked_fill(self.mask[:size, :size] == 0, -1e9) @ x
        if self.way == "lstm":
            x = self.lstm(x)[0]
        return self.head(x.mean(1))

def of(way):
    return Net(way), {"ids": torch.randint(0, 70, (2, 12))}
''' + "".join(f"\ndef {w}():\n    return of('{w}')\n" for w in
              ("shifted", "parameter", "class_token", "causal", "lstm"))  # fmt: skip
OWN = {"shifted": 19, "parameter": 41, "class_token": 40, "causal": 48}


def runs(opened: Any, length: int) -> bool:
    module = build(opened.project.graph, opened.store)
    shape = {"batch": 2, "seq": length, "seq_decoder_input_ids": 4}
    inputs = {n.target: torch.full(n.out.sizes(shape), 2 if "ids" in n.target else 1)
              for n in opened.project.graph.placeholders if n.out is not None}  # fmt: skip
    try:
        with torch.no_grad():
            module(**inputs)
    except (RuntimeError, IndexError):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("spec", SOURCES)
def test_positions_and_vocabulary_of_transformers(spec: str, tmp_path: Path) -> None:
    opened = open_source(spec, tmp_path, origin=Origin.TYPED)
    limits = limits_of(opened.project.graph, opened.store)
    assert (limits.tokens, limits.vocabulary) == SOURCES[spec]
    source = opened.project.source.limits  # which knows the head and the architecture besides
    assert source is not None and source.architecture == spec.split("?")[0].removeprefix("config:")
    assert limits == replace(source, head="", problem="", architecture=None, start=None, ends=())
    assert not source.ends or source.head in ("causal-lm", "seq2seq-lm", ""), "a classifier ends no texts"
    most = limits.tokens or 200
    assert runs(opened, most) and runs(opened, most + 1) == (limits.tokens is None)


@pytest.mark.slow
@pytest.mark.parametrize("way", OWN)
def test_positions_of_models_of_the_users_own(way: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FOREIGN)
    opened = open_source(f"{tmp_path / 'net.py'}:{way}", tmp_path / "work", origin=Origin.TYPED)
    limits = limits_of(opened.project.graph, opened.store)
    assert (limits.tokens, limits.length, limits.vocabulary) == (OWN[way], None, 70)
    assert runs(opened, OWN[way]) and not runs(opened, OWN[way] + 1)


@pytest.mark.slow
def test_a_model_of_one_length_says_so(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FOREIGN)
    opened = open_source(f"{tmp_path / 'net.py'}:lstm", tmp_path / "work", origin=Origin.TYPED)
    limits = limits_of(opened.project.graph, opened.store)
    assert (limits.tokens, limits.length, limits.vocabulary) == (None, 12, 70)


@pytest.mark.slow
def test_computed_positions_have_the_configurations_context(tmp_path: Path) -> None:
    spec = f"config:llama?{SMALL}&num_key_value_heads=2&max_position_embeddings=96&vocab_size=99&{TASK}"
    limits = open_source(spec, tmp_path, origin=Origin.TYPED).project.source.limits
    assert limits is not None and (limits.tokens, limits.context) == (None, 96)


def test_images_say_channels_and_size(tmp_path: Path) -> None:
    assert open_source("demo:digits", tmp_path).project.source.limits.image == (1, 8, 8)  # type: ignore[union-attr]
