"""`allocate` in this process: recipes that hold their budgets, fronts, files, and what is told of mistakes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.recipes.config import load_recipe
from espalier.passes.score import static_score

Capture = pytest.CaptureFixture[str]
MLP = "demo:digits-mlp"
FORMATS = "integer(width=3|4|8), float"


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def mistake(capsys: Capture, *words: object) -> str:
    assert main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 2
    return captured.err


@pytest.mark.slow
def test_a_recipe_holds_its_budget(capsys: Capture, tmp_path: Path) -> None:
    recipe, project = tmp_path / "r.toml", tmp_path / "p.espalier"
    words = ("allocate", MLP, "--formats", FORMATS, "--ports", "weight", "--sparsities", "0.3", "--limit", 64)
    found = answer(capsys, *words, "--budget", "weight_bits<=4.5", "--measure", "-o", recipe)
    assert found["figures"]["weight_bits"] <= 4.5 and found["predicted"] > 0 and found["seconds"] > 0
    assert load_recipe(recipe).steps[-1].pass_name == "quantize" == found["recipe"]["steps"][-1]["pass"]
    assert found["measured"]["weight_bits"] == pytest.approx(found["figures"]["weight_bits"])
    assert found["measured"]["kl"] > 0 and found["measured"]["accuracy"] > 0.5
    assert {row["port"] for row in found["chosen"]} == {"weight"}
    again = answer(capsys, *words, "--budget", "weight_bits<=4.5", "-o", project)
    assert again["chosen"] == found["chosen"], "equal seeds give equal results"
    opened = open_any(str(project), tmp_path / "work", origin=Origin.TYPED)
    assert static_score(opened.project.graph).weight_bits == pytest.approx(found["figures"]["weight_bits"])
    assert len(opened.project.recipe) == len(found["recipe"]["steps"])


@pytest.mark.slow
def test_what_is_predicted_and_measured_has_one_baseline(capsys: Capture, tmp_path: Path) -> None:
    folded, data = tmp_path / "folded.espalier", ("--data", "demo:digits", "--limit", 32)
    recipe = tmp_path / "fold.toml"
    recipe.write_text('steps = [{pass = "fold_batch_norm"}, {pass = "prune", options = {sparsity = 0.6}}]\n')
    answer(capsys, "run", "demo:digits", recipe, "-o", folded, *data)
    words = ("allocate", folded, *data, "--formats", "integer(width=8)", "--ports", "weight")
    found = answer(capsys, *words, "--budget", "weight_bits<=9", "--measure")
    assert found["measured"]["baseline"] == found["sensitivity"]["baseline"] == "present weights in float"
    assert found["measured"]["kl"] < 1e-2, "of the formats alone, not of the pruning before them"


@pytest.mark.slow
def test_a_front_falls(capsys: Capture) -> None:
    found = answer(capsys, "allocate", MLP, "--formats", FORMATS, "--front", 6, "--cost", "bitops", "--limit", 64)
    rows = found["front"]
    assert 2 < len(rows) <= 6 and found["cost"] == "bitops" and rows[-1]["predicted"] == 0
    assert all(a["bitops"] < b["bitops"] and a["summed"] > b["summed"] for a, b in itertools.pairwise(rows))
    assert main(["allocate", MLP, "--formats", FORMATS, "--front", "3", "--limit", "64"]) == 0
    assert "predicted KL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "There is no budget."),
        (("--budget", "weight_bit<=4"), "Did you mean 'weight_bits'"),
        (("--budget", "accuracy>=0.9"), "not a sum over layers"),
        (("--front", "1"), "at least 2"),
        (("--front", "4", "--cost", "parameters"), "not a sum over layers"),
        (("--front", "4", "-o", "x.toml"), "no recipe"),
        (("--budget", "weight_bits<=4", "-o", "x.doc"), "unknown file type"),
        (("--budget", "weight_bits<=4", "--formats", "interger"), "interger"),
        (("--budget", "weight_bits<=4", "--sparsities", "half"), "no number"),
    ],
)
def test_mistakes_are_told(capsys: Capture, words: tuple[str, ...], told: str) -> None:
    assert told in mistake(capsys, "allocate", MLP, *words)


@pytest.mark.slow
def test_the_least_possible_is_told(capsys: Capture) -> None:
    told = mistake(capsys, "allocate", MLP, "--formats", FORMATS, "--budget", "weight_bits<=1", "--limit", 64)
    assert "the least possible is 3" in told or "the least possible is 4" in told
