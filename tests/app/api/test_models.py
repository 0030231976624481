"""Models of the Python interface held against plain torch, formulas by hand and onnxruntime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import espalier as es
from tests.app.api.nets import N, by_torch
from tests.patience import PATIENCE


class Tied(nn.Module):
    """The embedding's table is the output's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.middle = nn.Embedding(23, 10), nn.Linear(10, 10)
        self.out = nn.Linear(10, 23, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.middle(self.table(ids).mean(1))))


def held_weights(m: es.Model, name: str, shape: tuple[int, int]) -> torch.Tensor:
    """The weight of a linear model as it computes, by its answers to unit vectors."""
    module = m.to_torch()
    with torch.no_grad():
        return (module(torch.eye(shape[1])) - module(torch.zeros(1, shape[1]))).T


def test_quantised_weights_are_those_of_the_formulas() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(37, 5)
    weight = layer.weight.detach().clone()
    opened = es.trace(layer, torch.randn(2, 37))
    scale = weight.abs().amax(1, keepdim=True) / 127
    by_channel = torch.clamp(torch.round(weight / scale), -127, 127) * scale
    assert torch.allclose(
        held_weights(opened.copy().quantize("linear", weight="int8"), "", (5, 37)), by_channel, atol=1e-6
    )
    blocks = torch.zeros(5, 64)
    blocks[:, :37] = weight
    step = torch.exp2(torch.floor(torch.log2(blocks.view(5, 2, 32).abs().amax(2, keepdim=True))) - 2)
    by_block = (torch.clamp(torch.round(blocks.view(5, 2, 32) / step), -7, 7) * step).view(5, 64)[:, :37]
    assert torch.allclose(held_weights(opened.copy().quantize(weight="mxint4"), "", (5, 37)), by_block, atol=1e-6)


def test_a_half_pruned_weight_has_lost_its_smallest() -> None:
    torch.manual_seed(1)
    layer = nn.Linear(11, 6)
    weight = layer.weight.detach().clone()
    found = held_weights(es.trace(layer, torch.randn(2, 11)).prune("linear", sparsity=0.5), "", (6, 11))
    gone = found.abs() < 1e-6
    assert int(gone.sum()) == 33 and weight[gone].abs().max() < weight[~gone].abs().min()


@pytest.mark.slow
def test_torch_and_onnx_agree(m: es.Model, xy: tuple[torch.Tensor, torch.Tensor], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    m.quantize("linear", weight="int8").prune("name:one", sparsity=0.3)
    told = m.export("onnx", tmp_path / "net.onnx")
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # else it rounds activations too
    session = runtime.InferenceSession(tmp_path / "net.onnx", options)
    (found,) = session.run(None, {session.get_inputs()[0].name: xy[0].numpy()})
    with torch.no_grad():
        expected = m.to_torch()(xy[0])
    assert torch.allclose(torch.from_numpy(found), expected, atol=1e-5) and told.max_abs_diff < 1e-5
    assert Path(told.rows[0]["file"]).name == "net.onnx"


class Named(nn.Module):
    """Two inputs, a dict of results without class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(19, 7), nn.Linear(7, 1)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = (self.table(ids) * scale[..., None]).mean(1)
        return {"value": self.out(mean).squeeze(1), "mean": mean}


@pytest.mark.slow
def test_results_by_name_with_two_inputs(tmp_path: Path) -> None:
    torch.manual_seed(4)
    net, ids, scale, y = Named().eval(), torch.randint(0, 19, (N, 5)), torch.rand(N, 5), torch.randn(N)
    m = es.trace(net, (ids[:2], scale[:2]))

    def hits(out: dict[str, torch.Tensor], labels: torch.Tensor) -> float:
        return float((out["value"] - labels).abs().mean())

    with torch.no_grad():
        expected = float((net(ids, scale)["value"] - y).abs().mean())
        assert torch.allclose(m.to_torch()(ids, scale)["mean"], net(ids, scale)["mean"], atol=1e-6)
    loader = DataLoader(TensorDataset(ids, scale, y), batch_size=8)
    assert m.evaluate(loader, metric=hits).hits == pytest.approx(expected, rel=1e-5)
    assert "hits" in repr(m.evaluate({"ids": ids, "scale": scale, "y": y}, metric=hits))
    m.quantize("linear", weight="int8", data_in="int8").calibrate("linear", data=loader)
    m.export("pt2", tmp_path / "named.pt2")
    again = es.open(tmp_path / "named.pt2")
    assert again.evaluate(loader, metric=hits).hits == pytest.approx(m.evaluate(loader, metric=hits).hits, rel=1e-5)


def test_a_module_of_its_own_stays_as_it_is() -> None:
    torch.manual_seed(2)
    net = Tied().train()
    net.middle.eval()
    ids, y = torch.randint(0, 23, (N, 6)), torch.randint(0, 23, (N,))
    m = es.trace(net, torch.randint(0, 23, (2, 5)))
    assert net.training and not net.middle.training and net.out.weight is net.table.weight
    expected = by_torch(net, ids, y)
    with torch.no_grad():
        net.table.weight.add_(1.0)  # the model has weights of its own by now
    assert m.evaluate((ids, y)).accuracy == expected[0]
    assert m.evaluate((ids, y)).loss == pytest.approx(expected[1], rel=1e-5)
    module = m.to_torch()
    with torch.no_grad():
        next(module.parameters()).zero_()
    assert m.evaluate((ids, y)).accuracy == expected[0]


STUDENT = """
import json
import torch
from torch.utils.data import DataLoader, TensorDataset
import espalier as es
from model import Net

torch.manual_seed(0)
net = Net()
x, y = torch.randn(41, 7), torch.randint(0, 3, (41,))
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
accuracy = sum(int((net(a).argmax(1) == b).sum()) for a, b in loader) / 41
m = es.trace(net, x[:2])
by_file = es.open("net.py:make")
print(json.dumps([accuracy, m.score(loader).accuracy, by_file.evaluate((x, y)).n]))
"""


@pytest.mark.slow
def test_a_students_script_beside_its_model(tmp_path: Path, root: Path) -> None:
    """`model` is the student's, in the script and in the file that is opened."""
    (tmp_path / "model.py").write_text(
        "from torch import nn\n\n\ndef Net():\n    return nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3))\n"
    )
    (tmp_path / "net.py").write_text(
        "import torch\nfrom model import Net\n\n\ndef make():\n    return Net(), torch.randn(2, 7)\n"
    )
    (tmp_path / "study.py").write_text(STUDENT)
    command, env = [sys.executable, "study.py"], {"PYTHONPATH": str(root / "roots"), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    accuracy, scored, n = json.loads(done.stdout)
    assert scored == accuracy and n == 41


def test_the_graph_is_the_one_of_the_project_and_follows_edits() -> None:
    m = es.open("demo:digits-mlp")
    before = m.graph
    assert list(before.nodes) == [n.id for n in m] and len(before) == len(m.nodes())
    m.quantize("linear", weight="int8")
    assert m.graph is m.project.graph and m.graph.delta(before).changed == tuple(n.id for n in m.nodes("linear"))
