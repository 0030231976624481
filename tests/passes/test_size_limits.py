"""Graphs of models whose code tests a size: they are valid within a limit, which every use of them names."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.app.cli import main
from espalier.model.document.graph_json import fingerprint, graph_from_json, graph_to_json
from espalier.model.errors import DataError, ProjectError
from espalier.model.graph.limits import bounds, broken_limit
from espalier.model.graph.size_limit import SizeLimit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The graph is valid")]


class Branch(nn.Module):
    """Takes another way for batches of more than 5."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 5:
            return self.last(self.first(x))
        return self.last(x)


class Length(nn.Module):
    """Takes another way for texts of more than 10 tokens."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed, self.first, self.last = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embed(ids)
        if ids.shape[1] > 10:
            hidden = torch.relu(self.first(hidden))
        return self.last(hidden.mean(1))


class Even(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x) if x.shape[0] % 2 == 0 else self.last(x) + 1


class Loop(nn.Module):
    """Its loop over the samples fixes their number."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.last(x[i]) for i in range(x.shape[0])])


X, Y = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3
IDS = torch.randint(0, 20, (40, 14), generator=torch.Generator().manual_seed(0))


def test_limits_name_the_line_that_tests_the_size() -> None:
    line = next(i for i, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "x.shape[0] > 5" in t)
    with pytest.warns(UserWarning, match=rf"valid for batch ≤ 5 only.*test_size_limits.py:{line}\)"):
        model = es.trace(Branch(), X[:4])
    assert model.graph.limits == (SizeLimit("batch<=5", f"test_size_limits.py:{line}"),)
    assert es.trace(Branch(), X[:9]).graph.limits[0].condition == "batch>5"
    assert bounds(es.trace(Branch(), X[:9]).graph) == {"batch": (6, None)}
    assert es.trace(Length(), IDS[:4, :7]).graph.limits[0].condition == "seq<=10"


def test_other_conditions_than_ranges_hold_too() -> None:
    graph = es.trace(Even(), X[:4]).graph
    assert broken_limit(graph, {"batch": 6}) is None and broken_limit(graph, {"batch": 7}) is not None


def test_models_that_test_no_size_have_no_limits() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = es.trace(nn.TransformerEncoderLayer(8, 2, batch_first=True), torch.randn(4, 10, 8))
    assert not model.graph.limits and "limits" not in graph_to_json(model.graph)


def test_scores_beyond_a_limit_are_refused() -> None:
    module = Branch().eval()
    model = es.trace(module, X[:4])
    with pytest.raises(DataError, match="valid for batch ≤ 5 only, and this input has batch = 40"):
        model.score((X, Y))
    with torch.no_grad():
        want = float(nn.functional.cross_entropy(torch.cat([module(x) for x in X.split(5)]), Y))
    assert model.score((X, Y), batch_size=5).loss == pytest.approx(want, abs=1e-6)
    with pytest.raises(DataError, match="valid for seq ≤ 10 only, and this input has seq = 14"):
        es.trace(Length(), IDS[:4, :7]).score((IDS, Y))


def test_modules_of_the_graph_refuse_other_sizes() -> None:
    module, built = Branch().eval(), es.trace(Branch(), X[:4]).to_torch()
    assert torch.equal(built(X[:5]), module(X[:5]))
    for given in (lambda: built(X), lambda: built(x=X)):
        with pytest.raises(DataError, match="batch = 40"):
            given()


def test_trainings_beyond_a_limit_are_refused() -> None:
    model = es.trace(Branch(), X[:4])
    with pytest.raises(DataError, match="valid for batch ≤ 5"):
        model.finetune(data=(X, Y), batch_size=8, epochs=1)
    assert model.finetune(data=(X, Y), batch_size=5, epochs=1)


def test_a_loop_over_the_batch_is_named_in_scores() -> None:
    model = es.trace(Loop(), X[:4])
    with pytest.raises(DataError, match="takes batches of 4 alone, and this one has 40"):
        model.score((X, Y))
    assert model.score((X, Y), batch_size=4).loss > 0


def test_projects_and_packed_models_keep_limits(tmp_path: Path) -> None:
    model = es.trace(Branch(), X[:4])
    model.save(tmp_path / "p.espalier")
    model.export("packed", tmp_path / "p.packed.safetensors")
    for file in tmp_path.iterdir():
        with pytest.warns(UserWarning, match="valid for batch ≤ 5 only"):
            assert es.open(file).graph.limits == model.graph.limits


def test_files_without_limits_open_and_false_ones_are_refused() -> None:
    data = graph_to_json(es.trace(Branch(), X[:4]).graph)
    assert data["limits"] == [{"condition": "batch<=5", "source": data["limits"][0]["source"]}]
    old = {k: v for k, v in data.items() if k != "limits"}
    assert not graph_from_json(old).limits and fingerprint(graph_from_json(old)) != fingerprint(graph_from_json(data))
    for false in ("batch", "batch<=other", "__import__('os')<=1", "batch<=1//0", "1<batch<5"):
        with pytest.raises(ProjectError):
            graph_from_json({**data, "limits": [{"condition": false}]})


def test_programs_are_bounded_and_exports_note_it(tmp_path: Path) -> None:
    model = es.trace(Branch(), X[:4])
    for form in ("pt2", "onnx"):
        assert any("valid for batch ≤ 5 only" in note for note in model.export(form, tmp_path / f"p.{form}").notes)
    program = torch.export.load(tmp_path / "p.pt2").module()
    assert torch.equal(program(x=X[:5]), Branch().eval()(X[:5]))
    with pytest.raises(AssertionError):
        program(x=X)
    assert es.open(tmp_path / "p.pt2").graph.limits == (SizeLimit("batch<=5"),)


def test_verify_tries_both_sides_of_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(__file__).read_text().split("\n\n\n")
    code = next(part for part in lines if part.startswith("class Branch"))
    made = "def make():\n    return Branch().eval(), {'x': torch.randn(4, 6)}\n"
    (tmp_path / "net.py").write_text(f"import torch\nfrom torch import Tensor, nn\n\n{code}\n\n{made}")
    assert main(["trace", f"{tmp_path}/net.py:make", "--verify", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["limits"] == ["batch ≤ 5"] and max(s["batch"] for s in found["verified"]) == 5
    assert any("Beyond the limit" in p["message"] and "'batch': 6" in p["message"] for p in found["problems"])


def test_sensitivity_names_the_limit() -> None:
    with pytest.raises(DataError, match="valid for batch ≤ 5"):
        es.trace(Branch(), X[:4]).run("sensitivity", data=(X, Y))


def test_numbers_of_an_onnx_file_agree_within_the_limit(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    es.trace(Branch(), X[:4]).export("onnx", tmp_path / "p.onnx")
    (got,) = runtime.InferenceSession(tmp_path / "p.onnx").run(None, {"x": X[:5].numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(got, Branch().eval()(X[:5]).numpy(), atol=1e-6)
