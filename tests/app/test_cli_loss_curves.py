"""`run --curves` and the charts by step of `search`: what is drawn and written is what the trainings reported."""

from __future__ import annotations

import csv
import json
import statistics
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from espalier.app.cli import main
from espalier.app.figures.curves import to_svg
from espalier.app.figures.step_charts import losses
from espalier.app.figures.study.data import Study
from espalier.app.figures.trials import Group
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from espalier.passes.training.curve import thinned

SVG = "{http://www.w3.org/2000/svg}"
MLP = "demo:digits-mlp"
TRAIN = {"data": "demo:digits", "max_steps": 9, "evaluate_every": 3, "train_limit": 96, "validation_limit": 40}
Capture = pytest.CaptureFixture[str]
SPEC = """
goals = ["loss"]
sampler = "grid"
trials = 2
train = "after"
[[space]]
per = "all"
values = "integer(width=3|8)"
[finetune]
max_steps = 6
evaluate_every = 2
train_limit = 96
validation_limit = 40
[score]
limit = 60
"""


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def recipe(tmp_path: Path, name: str = "tuned", **more: Any) -> Path:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({"steps": [{"pass": "prune", "options": {"sparsity": 0.5}},
                                          {"pass": "finetune", "options": {**TRAIN, **more}}]}))  # fmt: skip
    return path


def words(path: Path) -> list[str]:
    return [t.text or "" for t in ET.parse(path).getroot().iter(f"{SVG}text")]


@pytest.mark.slow
def test_the_table_is_what_the_report_says(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "c.csv"
    found = answer(capsys, "run", MLP, recipe(tmp_path), "--curves", out)
    assert found["curves"] == str(out)
    with out.open() as handle:
        told = list(csv.DictReader(handle))
    assert {(t["recipe"], t["step"], t["pass"], t["seed"]) for t in told} == {("tuned", "2", "finetune", "0")}
    values = {(t["figure"], int(t["training step"])): float(t["value"]) for t in told}
    rows = found["steps"][1]["report"]["rows"]
    assert [r["step"] for r in rows] == [0, 3, 6, 9]
    for row in rows:
        assert values["validation accuracy", row["step"]] == row["validation_accuracy"]
        assert values["validation loss", row["step"]] == row["validation_loss"]
        if row["step"]:  # the report holds the mean since the validation before
            losses = [values["training loss", row["step"] - k] for k in range(3)]
            assert statistics.fmean(losses) == pytest.approx(row["training_loss"])
    count = found["steps"][1]["report"]["summary"]["validation_samples"]
    assert values["validation samples", 0] == count > 0


@pytest.mark.slow
def test_the_accuracy_of_one_training_has_its_noise(tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "c.svg"
    found = answer(capsys, "run", MLP, recipe(tmp_path), "--curves", picture)
    count = found["steps"][1]["report"]["summary"]["validation_samples"]
    assert f"bands of accuracy: 95 % of n = {count}" in words(picture)
    assert len(list(ET.parse(picture).getroot().iter(f"{SVG}polygon"))) == 1


@pytest.mark.slow
def test_recipes_and_seeds_in_one_picture(tmp_path: Path, capsys: Capture) -> None:
    table, picture = tmp_path / "slow.csv", tmp_path / "both.svg"
    answer(capsys, "run", MLP, recipe(tmp_path, "slow", learning_rate=1e-5), "--curves", table)
    answer(capsys, "run", MLP, recipe(tmp_path), "--seeds", 2, "--curves", picture, "--compare", table, "--inset")
    told = words(picture)
    for text in ("loss (nats a sample)", "training step (number)", "validation accuracy", "the later half, enlarged",
                 "slow: training loss", "tuned: training loss, mean of 2 seeds, band ± s"):  # fmt: skip
        assert text in told
    lines = [p for p in ET.parse(picture).getroot().iter(f"{SVG}polyline") if p.get("stroke-width") == "1.2"]
    assert [len(p.get("points", "").split()) for p in lines][:2] == [9, 9], "a point a training step"
    assert len(list(ET.parse(picture).getroot().iter(f"{SVG}polygon"))) >= 3, "bands of three figures over seeds"


@pytest.mark.slow
def test_what_was_trained_is_drawn_where_a_later_step_fails(tmp_path: Path, capsys: Capture) -> None:
    path, out = recipe(tmp_path), tmp_path / "c.svg"
    steps = json.loads(path.read_text())["steps"]
    steps.append({"pass": "calibrate", "options": {"select": {"by": "type", "values": ["norm"]}}})  # an MLP has none
    path.write_text(json.dumps({"steps": steps}))
    assert main(["run", MLP, str(path), "--curves", str(out)]) == 2
    assert "Step 3 (calibrate)" in capsys.readouterr().err and "tuned: training loss" in words(out)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--inset"], "for a picture"),
        (["--curves", "c.pdf"], "unknown file type"),
        (["--curves", "no/c.svg"], "no folder"),
        (["--curves", "c.svg", "--compare", "missing.csv"], "There is no file 'missing.csv'"),
        (["--curves", "c.svg", "--compare", "tuned.json"], "holds no curves"),
    ],
)
def test_mistakes_are_told_before_training(
    more: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", MLP, str(recipe(tmp_path)), *more]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_search_draws_what_optuna_holds(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    spec, out = tmp_path / "s.toml", tmp_path / "l.svg"
    spec.write_text(SPEC)
    answer(capsys, "search", MLP, spec, "--study", "s", "-o", out, "--chart", "loss", "--inset")
    storage = JournalStorage(JournalFileBackend(f"{out}.journal"))
    held = optuna.load_study(study_name="s", storage=storage)
    assert len(held.trials) == 2
    assert all([k for k, _ in t.user_attrs["losses"]] == list(range(1, 7)) for t in held.trials)
    assert held.trials[0].user_attrs["losses"] != held.trials[1].user_attrs["losses"]
    best = held.best_trial
    drawn = curve(out)
    assert heights_follow(drawn, [v for _, v in best.user_attrs["losses"]])
    assert f"random: best, trial {best.number}".split(": ")[1] in " ".join(words(out))

    way = tmp_path / "w.svg"
    answer(capsys, "search", MLP, spec, "--study", "s", "--storage", f"journal://{out}.journal", "--resume",
           "-o", way, "--chart", "intermediate")  # fmt: skip
    assert sorted(best.intermediate_values) == [2, 4, 6]
    assert heights_follow(curve(way), [best.intermediate_values[k] for k in (2, 4, 6)])
    assert "steps of training (number)" in words(way) and "loss (nats a sample)" in words(way)


def curve(path: Path) -> list[tuple[float, float]]:
    """The best trial's line: the widest, outside of the inset, which is drawn later."""
    lines = [p for p in ET.parse(path).getroot().iter(f"{SVG}polyline") if p.get("stroke-width") == "2.4"]
    return [(float(x), float(y)) for x, y in (p.split(",") for p in lines[0].get("points", "").split())]


def heights_follow(dots: list[tuple[float, float]], values: list[float]) -> bool:
    """Whether heights on the sheet are one line (falling) of the values: an axis without a bend."""
    assert len(dots) == len(values)
    low, high = min(values), max(values)
    foot, top = dots[values.index(low)][1], dots[values.index(high)][1]
    return top < foot and all(abs(y - foot - (v - low) / (high - low) * (top - foot)) < 0.2
                              for (_, y), v in zip(dots, values, strict=True))  # fmt: skip


def test_long_trainings_are_thinned_to_means() -> None:
    series = [(k, float(k)) for k in range(1, 1001)]
    short = thinned(series, 100)
    assert len(short) == 100 and short[0] == (10, 5.5) and short[-1] == (1000, 995.5)
    assert thinned(series[:100], 100) == tuple(series[:100]) and thinned([(1, float("nan"))]) == ()


def test_a_study_without_trainings_says_so() -> None:
    trials = [Trial(0, "complete", values=(0.5,), figures={"accuracy": 0.5})]
    sheet = ET.fromstring(to_svg(losses([Group("tpe", (Study(trials, [Goal("accuracy")]),))])))
    assert "No trial of this study has reported a training loss." in [t.text for t in sheet.iter(f"{SVG}text")]
