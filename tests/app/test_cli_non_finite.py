"""Infinite weights that a format makes finite are named by commands, the Python interface, scores and exports."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import espalier as es
from espalier.app.cli import main
from tests.app.api.nets import CLASSES, FEATURES, N, Net

CODE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(9, 37), torch.nn.Linear(37, 3)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))

def make():
    torch.manual_seed(0)
    net = Net()
    with torch.no_grad():
        net.one.weight[0, 0] = torch.inf
        net.two.weight[1, :2] = torch.tensor([-torch.inf, torch.nan])
    return net, torch.randn(2, 9)
"""
LINE = "one.weight (1), two.weight (2) hold values that are not finite numbers (NaN or infinite):"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with net.py and data.npz."""
    (tmp_path / "net.py").write_text(CODE)
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(N, FEATURES)).astype(np.float32), draw.integers(0, CLASSES, N)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return tmp_path


@pytest.mark.slow
def test_every_command_says_it_in_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, data, project = str(files / "net.py:make"), str(files / "data.npz"), str(files / "q.espalier")
    recipe = files / "r.json"
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "int8"}}
    recipe.write_text(json.dumps({"steps": [{"pass": "quantize", "options": {"rules": [rule]}}]}))
    commands = (
        ["run", source, str(recipe), "-o", project],
        ["evaluate", source, "--data", data],
        ["evaluate", project, "--data", data, "--json"],
        ["export", project, "--as", "safetensors", "-o", str(files / "out"), "--json"],
        ["report", source, "--what", "types"],
    )
    for words in commands:
        assert main(words) == 0, words
        captured = capsys.readouterr()
        notes = [line for line in captured.err.splitlines() if LINE in line]
        told = notes or json.loads(captured.out)["warnings"]
        assert sum(LINE in line for line in told) == 1, (words, captured)


def test_python_warns_at_opening_and_a_project_at_its_score(tmp_path: Path) -> None:
    net = Net()
    with torch.no_grad():
        net.one.weight[0, 0] = torch.inf
    x, y = torch.randn(N, FEATURES), torch.arange(N) % CLASSES
    with pytest.warns(UserWarning, match=r"one\.weight \(1\) holds values that are not finite"):
        m = es.trace(net, x[:2])
    m.quantize(weight="int8").save(tmp_path / "q.espalier")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = es.open(tmp_path / "q.espalier")
    assert "one.weight (1) holds values" in again.score((x, y)).warning
    notes = again.export("packed", tmp_path / "out.packed.safetensors").notes
    assert any("one.weight (1) holds values" in note for note in notes)
    assert not any("holds values" in n for n in again.export("recipe", tmp_path / "r.toml").notes)
