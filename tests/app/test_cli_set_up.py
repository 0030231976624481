"""How data are read belongs to the project; a set-up that is wrong fails once; a training that did not help says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.model.opening import open_any
from espalier.model.sources.demos import RESOURCES
from espalier.model.sources.info import SourceInfo
from espalier.model.trust import Origin

WORDS = str(RESOURCES / "reviews")
SMALL = "hidden_size=16&num_attention_heads=2&intermediate_size=16&num_hidden_layers=1&max_position_embeddings=16"
BERT = f"config:bert?{SMALL}&vocab_size=2000&task=sequence-classification"
TRAIN = {"max_steps": 2, "learning_rate": 0.001, "keep": "last", "batch_size": 8}
QUANTIZE = {"rules": [{"select": {"by": "type", "values": ["linear"]},
                       "formats": {"weight": "integer(width=8, frac_width=6)"}}]}  # fmt: skip

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Columns that nobody would guess, labels in words."""
    path = tmp_path / "rows.csv"
    rows = [f"the plot was {'good' if at % 2 else 'bad'} number {at},{'up' if at % 2 else 'down'}" for at in range(40)]
    path.write_text("\n".join(["what_they_wrote,mood", *rows, ""]))
    return path


def recipe(folder: Path, *steps: tuple[str, dict[str, Any]]) -> Path:
    path = folder / "recipe.json"
    path.write_text(json.dumps({"steps": [{"pass": name, "options": options} for name, options in steps]}))
    return path


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def mistake(capsys: Capture, *words: object) -> str:
    assert main(list(map(str, words))) == 2
    return capsys.readouterr().err


@pytest.mark.slow
def test_the_tokenizer_reaches_steps_the_project_and_later_commands(
    data: Path, tmp_path: Path, capsys: Capture
) -> None:
    project, train = tmp_path / "p.espalier", ("finetune", {"data": str(data), **TRAIN})
    named = ("--tokenizer", WORDS, "--text", "what_they_wrote", "--label", "mood")
    answer(capsys, "run", BERT, recipe(tmp_path, ("quantize", QUANTIZE), train), "--data", data, *named, "-o", project)
    source: SourceInfo = open_any(str(project), tmp_path / "w", origin=Origin.TYPED).project.source
    assert (source.tokenizer, source.text, source.label) == (WORDS, "what_they_wrote", "mood")
    assert source.classes == ("down", "up") and source.limits is not None and source.limits.tokens == 16
    assert answer(capsys, "evaluate", project, "--data", data)["n"] == 40
    swept = answer(capsys, "sweep", project, "--over", "quantize.width=4,8", "--data", data, "--limit", 20)
    assert not swept["failed"] and swept["max_length"] == 16
    # Other data with other columns are read as ever, and their classes take the project's order.
    other = tmp_path / "other.csv"
    other.write_text("text,label\n" + "".join(f"a film of {at},{'up' if at % 3 else 'down'}\n" for at in range(12)))
    assert answer(capsys, "evaluate", project, "--data", other)["n"] == 12


@pytest.mark.slow
def test_a_tokenizer_that_a_step_names_is_the_projects_too(data: Path, tmp_path: Path, capsys: Capture) -> None:
    project = tmp_path / "p.espalier"
    columns = {"text": "what_they_wrote", "label": "mood", "tokenizer": WORDS}
    answer(capsys, "run", BERT, recipe(tmp_path, ("finetune", {"data": str(data), **columns, **TRAIN})), "-o", project)
    assert answer(capsys, "evaluate", project, "--data", data)["n"] == 40


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["tokenizer", "column", "classes"])
def test_a_wrong_set_up_fails_once_and_beforehand(fault: str, data: Path, tmp_path: Path, capsys: Capture) -> None:
    project = tmp_path / "p.espalier"
    named = {"tokenizer": ("--text", "what_they_wrote", "--label", "mood"), "column": ("--tokenizer", WORDS),
             "classes": ("--tokenizer", WORDS, "--text", "what_they_wrote", "--label", "mood")}[fault]  # fmt: skip
    words = {"tokenizer": "no tokenizer is given", "column": "No column", "classes": "3 classes"}[fault]
    if fault == "classes":
        data.write_text(data.read_text().replace("number 3,up", "number 3,even"))
    steps = recipe(tmp_path, ("quantize", QUANTIZE), ("finetune", {"data": str(data), **TRAIN}))
    told = mistake(capsys, "run", BERT, steps, *named, "-o", project)
    assert words in told and not project.exists(), "nothing ran before the training failed"
    told = mistake(capsys, "sweep", BERT, steps, "--over", "quantize.width=4,8", "--data", data, *named)
    assert words in told and "points failed" not in told and "[1/" not in told


@pytest.mark.slow
def test_a_training_that_did_not_help_says_so(tmp_path: Path, capsys: Capture) -> None:
    project = tmp_path / "p.espalier"
    wild = {"data": "demo:digits", "max_steps": 3, "learning_rate": 10.0, "optimiser": "sgd", "clip": 0.0}
    steps = recipe(tmp_path, ("finetune", wild))
    done = answer(capsys, "run", "demo:digits-mlp", steps, "--limit", 90, "-o", project)
    summary = done["steps"][0]["report"]["summary"]
    assert summary["kept_step"] == 0 and "None of the 3 steps validated better" in summary["warning"]
    notes = answer(capsys, "export", project, "--as", "safetensors", "-o", tmp_path / "folder")["warnings"]
    assert any("every weight is as it was opened" in note for note in notes)


@pytest.mark.slow
def test_an_adapter_of_zeros_says_so(tmp_path: Path, capsys: Capture) -> None:
    project = tmp_path / "p.espalier"
    wild = {"data": "demo:digits", "max_steps": 3, "learning_rate": 10.0, "optimiser": "sgd", "clip": 0.0}
    answer(capsys, "run", "demo:digits-mlp", recipe(tmp_path, ("lora", {}), ("finetune", wild)), "-o", project)
    notes = answer(capsys, "export", project, "--as", "adapter", "-o", tmp_path / "folder")["warnings"]
    assert any("B matrices are all 0, also after the training" in note for note in notes)


@pytest.mark.slow
def test_data_that_a_recipe_names_from_here_are_found_from_anywhere(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {**TRAIN, "data": data.name, "max_steps": 1}
    columns = ("--text", "what_they_wrote", "--label", "mood", "--tokenizer", WORDS)
    answer(capsys, "run", BERT, recipe(tmp_path, ("finetune", options)), "-o", tmp_path / "p.espalier", *columns)
    project = open_any(str(tmp_path / "p.espalier"), tmp_path / "work").project
    assert project.recipe.steps[0].options.data == str(data.resolve())


@pytest.mark.slow
def test_the_time_of_a_training_is_estimated_on_the_data_that_are_named(data: Path, capsys: Capture) -> None:
    columns = ("--text", "what_they_wrote", "--label", "mood", "--tokenizer", WORDS)
    told = answer(capsys, "report", BERT, "--what", "finetune_estimate", "--data", data, *columns)
    assert told["summary"]["finetune_estimate"]["seconds"] > 0
