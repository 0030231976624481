"""What a design says of the parts of a model that it leaves out, and what it takes in that once came from the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from espalier.app.cli import main
from tests.verilog.checks import needs_icarus

Capture = pytest.CaptureFixture[str]
MODELS = """
import math
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.output = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.output(self.lstm(x)[0])


class Causal(nn.Module):
    def __init__(self, added):
        super().__init__()
        self.qkv, self.out, self.added = nn.Linear(8, 24), nn.Linear(8, 8), added
        self.register_buffer("tril", torch.tril(torch.ones(5, 5)))
        self.register_buffer("bias", torch.triu(torch.full((5, 5), float("-inf")), 1))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        length = x.shape[1]
        if self.added:
            scores = scores + self.bias[:length, :length]
        else:
            scores = scores.masked_fill(self.tril[:length, :length] == 0, float("-inf"))
        return self.out(scores.softmax(-1) @ v)


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Linear(5, 5), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.tokens(torch.relu(x).transpose(1, 2)).transpose(1, 2))


def made(module, width):
    torch.manual_seed(0)
    return module().eval(), {"x": torch.randn(2, 5, width)}


def tagger():
    return made(Tagger, 6)


def filled():
    return made(lambda: Causal(False), 8)


def added():
    return made(lambda: Causal(True), 8)


def mixing():
    return made(Mixing, 8)
"""
LAYERS = '{data_in = "integer(width=8,frac_width=5)", weight = "integer(width=8,frac_width=6)"'
ATTENTION = f"""
[[steps.options.rules]]
select = {{by = "type", values = ["matmul"]}}
formats = {LAYERS}}}
[[steps.options.rules]]
select = {{by = "type", values = ["softmax", "div"]}}
formats = {{data_in = "integer(width=10,frac_width=6)", data_out = "integer(width=10,frac_width=7)"}}
"""


def emitted(folder: Path, capsys: Capture, name: str, more: str = "", *words: str) -> str:
    """What `emit` prints of a model whose Linear layers, and what `more` says, have formats."""
    (folder / "nets.py").write_text(MODELS)
    linear = f"""[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {{by = "type", values = ["linear"]}}
formats = {LAYERS}, bias = "integer(width=16,frac_width=10)"}}
"""
    (folder / "r.toml").write_text(linear + more)
    project = str(folder / "p.espalier")
    assert main(["run", f"{folder / 'nets.py'}:{name}", str(folder / "r.toml"), "-o", project]) == 0
    capsys.readouterr()
    assert main(["emit", project, "-o", str(folder / "rtl"), *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_layers_that_the_host_computes_are_told_first(tmp_path: Path, capsys: Capture) -> None:
    first = emitted(tmp_path, capsys, "tagger").splitlines()[0]
    assert first == "The design is not the whole model: the host computes lstm (lstm), 1 of 2 layers with weights."


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("name", ["filled", "added"])
def test_a_constant_mask_is_no_port_of_the_host(tmp_path: Path, capsys: Capture, name: str) -> None:
    found = json.loads(emitted(tmp_path, capsys, name, ATTENTION, "--simulate", "--simulator", "icarus", "--json"))
    assert [(p["way"], p["node"]) for p in found["ports"]] == [("in", "x"), ("out", "out")]
    assert found["mismatches"] == 0 and "source" in found["modules"] and not found.get("notes")
    assert found["scored_model"]["max_abs_diff"] < 0.05, "the mask is the right way round"


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
def test_a_linear_layer_along_tokens_takes_its_rows_in_another_order(tmp_path: Path, capsys: Capture) -> None:
    relu = '[[steps.options.rules]]\nselect = {by = "type", values = ["relu"]}\n'
    relu += 'formats = {data_in = "integer(width=8,frac_width=5)"}\n'
    found = json.loads(emitted(tmp_path, capsys, "mixing", relu, "--simulate", "--simulator", "icarus", "--json"))
    assert found["mismatches"] == 0 and found["scored_model"]["differing"] == 0
