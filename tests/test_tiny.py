"""The whole stack once, headless: a demo is opened, compressed as in the labs, measured, saved and opened again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.project import load_project
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from tests.patience import PATIENCE

LAB = {
    "quantize_transform_pass": {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {"config": {"name": "integer", "weight_width": 8, "weight_frac_width": 6}},
    },
    "prune_transform_pass": {"weight": {"sparsity": 0.5, "method": "l1-norm", "scope": "local"}},
}
DATA = ["--data", "demo:digits", "--limit", "100"]


def command(root: Path, *words: str) -> Any:
    """The JSON object that a subcommand prints, and nothing else beside it."""
    done = subprocess.run([sys.executable, "main.py", *words, "--json"], cwd=root, capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "QT_QPA_PLATFORM": "none"}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("demo", ["digits-mlp"])
def test_from_a_demo_to_a_project_and_back(demo: str, root: Path, tmp_path: Path) -> None:
    recipe, project = tmp_path / "lab.json", tmp_path / "small.espalier"
    recipe.write_text(json.dumps(LAB))
    found = command(root, "run", f"demo:{demo}", str(recipe), "-o", str(project), *DATA)
    before, after = found["before"], found["after"]
    assert [s["pass"] for s in found["steps"]] == ["quantize", "prune"]
    assert before["accuracy"] > 0.9 and after["accuracy"] > before["accuracy"] - 0.15
    assert before["weight_bits"] == 32 and before["sparsity"] == 0 and after["sparsity"] == pytest.approx(0.5, abs=1e-3)
    assert after["weight_bits"] < 8 and after["size_bytes"] < before["size_bytes"] / 3
    assert after["bitops"] == before["bitops"] / 4

    again = command(root, "evaluate", str(project), *DATA)
    assert {k: again[k] for k in after} == after

    store = WeightStore(tmp_path / "work")
    opened = load_project(project, store)
    assert [s.pass_name for s in opened.recipe.steps] == ["quantize", "prune"]
    weight = next(n for n in opened.graph if n.op == "linear")
    with torch.no_grad():
        leaf = build(opened.graph, store).get_submodule(weight.target)
        values = leaf.tensor("weight")  # type: ignore[operator]
    assert torch.equal(values * 64, (values * 64).round()) and float((values == 0).float().mean()) >= 0.5
