"""`sweep` and `run --seeds` in this process: answers, files, going on where it was, and what is told of mistakes."""

from __future__ import annotations

import csv
import json
import re
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from espalier.app.cli import main
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.sweep import journal
from espalier.passes.sweep import run as sweep_run

Capture = pytest.CaptureFixture[str]
MLP = "demo:digits-mlp"
RECIPE = {"quantize": {"rules": [{"select": {"by": "type", "values": ["linear"]},
                                  "formats": {"weight": "integer(width=8, frac_width=6)"}}]},
          "prune": {"sparsity": 0.5, "method": "random"}}  # fmt: skip


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE))
    return path


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


def mistake(capsys: Capture, *words: object) -> str:
    assert main(list(map(str, words))) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 2
    return captured.err


def test_a_sweep_answers_with_points_means_and_recipes(capsys: Capture, recipe: Path) -> None:
    found = answer(capsys, "sweep", MLP, recipe, "--over", "prune.sparsity=0.2,0.8", "--variant",
                   "prune.method=l1,random", "--variant", "quantize=on,off", "--seeds", 2, "--limit", 90)  # fmt: skip
    assert found["axis"] == "prune.sparsity" and found["values"] == [0.2, 0.8] and found["seeds"] == [0, 1]
    assert found["variants"] == [f"{m} · {q} quantize" for m in ("l1", "random") for q in ("with", "without")]
    assert len(found["points"]) == 1 + 2 * 4 * 2 == found["ran"] and not found["failed"] and not found["reused"]
    rows = [p for p in found["points"] if p["variant"] == "random · with quantize" and p["prune.sparsity"] == 0.8]
    mean = next(c for c in found["curves"] if c["variant"] == rows[0]["variant"] and c["prune.sparsity"] == 0.8)
    accuracies = [r["accuracy"] for r in rows]
    assert mean["accuracy_mean"] == pytest.approx(statistics.fmean(accuracies)) and mean["seeds"] == 2
    assert mean["accuracy_std"] == pytest.approx(statistics.stdev(accuracies))
    steps = rows[1]["recipe"]["steps"]
    assert steps[1]["options"]["sparsity"] == 0.8 and steps[1]["seed"] == 1
    off = next(p for p in found["points"] if p["variant"] == "l1 · without quantize")["recipe"]["steps"]
    assert off[0]["enabled"] is False
    assert found["baseline_score"]["accuracy"] > 0.9 and found["baseline_score"]["n"] == 90


def test_a_point_is_what_run_gives(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    found = answer(capsys, "sweep", MLP, recipe, "--over", "prune.sparsity=0.5", "--variant", "prune.method=l1")
    point = found["points"][1]
    (tmp_path / "point.json").write_text(json.dumps(point["recipe"]))
    run = answer(capsys, "run", MLP, tmp_path / "point.json")
    assert run["after"]["accuracy"] == point["accuracy"] and run["after"]["size_bytes"] == point["size_bytes"]
    assert run["before"] == found["baseline_score"] and run["baseline"] == found["baseline"] == "opened"


@pytest.mark.slow
def test_files_in_five_forms(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    words = ("sweep", MLP, recipe, "--over", "quantize.width=4,8", "--seeds", 2, "--limit", 50)
    answer(capsys, *words, "-o", tmp_path / "kept.jsonl")
    held = journal.read(tmp_path / "kept.jsonl")
    assert held and len(held.outcomes) == 5
    for kind in ("csv", "json", "svg", "png"):
        (tmp_path / f"c.{kind}.jsonl").write_bytes((tmp_path / "kept.jsonl").read_bytes())
        found = answer(capsys, *words, "-o", tmp_path / f"c.{kind}")
        assert found["ran"] == 0 and found["reused"] == 5  # the record beside the output was read
        assert not (tmp_path / f"c.{kind}.jsonl").exists()
    with (tmp_path / "c.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    assert [r["quantize.width"] for r in rows] == ["", "4", "8", "4", "8"] and float(rows[1]["accuracy"]) <= 1
    assert float(rows[1]["interval_low"]) <= float(rows[1]["accuracy"]) <= float(rows[1]["interval_high"])
    assert json.loads((tmp_path / "c.json").read_text())["reused"] == 5
    drawn = ElementTree.parse(tmp_path / "c.svg").getroot()
    words_drawn = [e.text for e in drawn.iter() if e.tag.endswith("text")]
    assert {"width", "4", "8", "accuracy"} <= set(words_drawn) and any("baseline" in (w or "") for w in words_drawn)
    with Image.open(tmp_path / "c.png") as picture:
        assert picture.width == 1520
        assert picture.convert("RGB").getcolors(1 << 20) is not None
        assert any(c == (0, 114, 178) for _, c in picture.convert("RGB").getcolors(1 << 20) or [])


def test_the_test_that_is_named_is_the_one_that_was_made(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    words = ("sweep", MLP, recipe, "--over", "prune.sparsity=0,0.02", "--limit", 50, "-o", kept)
    assert main(list(map(str, words))) == 0
    assert "(95 %; exact McNemar test on the same samples)" in capsys.readouterr().out
    kept.write_text(re.sub(r'"hits":"[0-9a-f]+"', '"hits":""', kept.read_text()))  # which were right is not known
    assert main(list(map(str, words))) == 0
    assert "(95 %; Newcombe's interval of the difference)" in capsys.readouterr().out


def test_what_was_cut_off_goes_on(
    capsys: Capture, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, calls = tmp_path / "c.csv", [0]
    words = ("sweep", MLP, str(recipe), "--over", "prune.sparsity=0.2:0.8:0.2", "--limit", "40", "-o", str(out))
    real = sweep_run.replay

    def cut(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(sweep_run, "replay", cut)
    assert main(list(words)) == 130
    told = capsys.readouterr().err
    assert "Stopped after 3 of 5 points" in told and "c.csv.jsonl" in told and not out.exists()
    found = answer(capsys, *words)
    assert found["reused"] == 3 and found["ran"] == 2 and out.exists() and not (tmp_path / "c.csv.jsonl").exists()


def test_projects_keep_their_sweeps(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    project = tmp_path / "p.espalier"
    answer(capsys, "run", MLP, recipe, "-o", project)
    words = ("sweep", project, "--over", "prune.sparsity=0.3,0.6", "--limit", 40, "-o", project)
    assert answer(capsys, *words)["ran"] == 3
    again = answer(capsys, *words)
    assert again["ran"] == 0 and again["reused"] == 3
    held = journal.journals(open_any(str(project), tmp_path, origin=Origin.TYPED).project.extras)
    assert list(held) == ["sweeps/001.jsonl"] and held["sweeps/001.jsonl"].sweep.axis is not None


def test_a_file_says_it_all(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        f'recipe = "{recipe.name}"\nover = "quantize.frac_width=2:4"\nalong = "quantize.width=6:8"\n'
        'variants = ["prune=on,off"]\nseeds = 1\ntitle = "Fraction bits"\n[score]\nlimit = 30\n'
    )
    found = answer(capsys, "sweep", MLP, spec)
    assert len(found["points"]) == 7 and found["baseline_score"]["n"] == 30
    formats = [p["recipe"]["steps"][0]["options"]["rules"][0]["formats"]["weight"] for p in found["points"][1:]]
    assert [f.split(",")[:2] for f in formats[::2]] == [
        [f"integer(width={w}", f" frac_width={w - 4}"] for w in (6, 7, 8)
    ]
    spec.write_text('recipe = "recipe.json"\novr = "x"\nseeds = 2\n')
    assert "ovr is not a key of a sweep" in mistake(capsys, "sweep", MLP, spec)
    spec.write_text("seeds = 2\n")
    assert "no recipe" in mistake(capsys, "sweep", MLP, spec)


def test_a_flag_stands_above_the_file_also_where_it_is_a_default(capsys: Capture, tmp_path: Path) -> None:
    spec = tmp_path / "sweep.toml"
    spec.write_text('over = "prune.sparsity=0.5"\nsteps = [{pass = "prune"}]\n[score]\nlimit = 30\n')
    assert answer(capsys, "sweep", MLP, spec)["baseline_score"]["n"] == 30
    assert answer(capsys, "sweep", MLP, spec, "--limit", 0)["baseline_score"]["n"] == 270, "all of the split"


@pytest.mark.parametrize(
    ("words", "what", "do"),
    [
        ((), "nothing to vary", "--over"),
        (("--over", "prun.sparsity=0.5"), "no step 'prun'", "'prune'"),
        (("--over", "prune.sparsty=0.5"), "no option 'sparsty'", "'sparsity'"),
        (("--over", "prune.sparsity=0.5,1.5"), "point 2 of 2, is 1.5", "from 0 to 1"),
        (("--over", "prune.sparsity=0.9:0.1:0.1"), "is empty: its step", "low:high:step"),
        (("--along", "prune.sparsity=0.5", "--seeds", "2"), "along needs an axis", "over"),
        (("--seeds", "2", "-o", "x.pdf"), "unknown file type", ".csv"),
        (("--seeds", "-3"), "seeds is -3", "from 1 to 1000"),
    ],
)
def test_mistakes(capsys: Capture, recipe: Path, words: tuple[str, ...], what: str, do: str) -> None:
    told = mistake(capsys, "sweep", MLP, recipe, *words)
    assert what in told and do in told


@pytest.mark.slow
def test_a_training_that_did_not_help_is_told(capsys: Capture, tmp_path: Path) -> None:
    """Its point has the score of the weights before it: in the text and in the file."""
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        '[[steps]]\npass = "prune"\noptions = {sparsity = 0.1}\n[[steps]]\npass = "finetune"\n'
        f'options = {{data = "{MLP}", max_steps = 2, learning_rate = 5.0}}\n'
    )
    output = tmp_path / "c.csv"
    assert main(["sweep", MLP, str(recipe), "--over", "prune.sparsity=0.1", "--limit", "50", "-o", str(output)]) == 0
    told = "training did not help; the weights from before are kept: sparsity 0.1"
    assert told in capsys.readouterr().out
    with output.open() as handle:
        assert [r["kept_step"] for r in csv.DictReader(handle)] == ["", "0"]


def test_a_failed_point_is_told_and_the_rest_goes_on(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"quantize": RECIPE["quantize"], "gptq": {"data": "demo:nothing"}}))
    found = answer(capsys, "sweep", MLP, path, "--variant", "gptq=on,off", "--limit", 30)
    assert found["failed"] == 1 and [bool(p["error"]) for p in found["points"]] == [False, True, False]
    assert "nothing" in found["points"][1]["error"] and found["points"][2]["accuracy"] > 0.5
    told = mistake_all(
        capsys, "sweep", MLP, path, "--over", "gptq.limit=10,20", "--limit", 30, "-o", tmp_path / "x.csv"
    )
    assert "All 2 points failed" in told and not list(tmp_path.glob("x.*"))


def mistake_all(capsys: Capture, *words: object) -> str:
    assert main(list(map(str, words))) == 2
    return capsys.readouterr().err


def test_someone_elses_file_is_not_overwritten(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    other.write_text("mine\n")
    assert "not the record of a sweep" in mistake(capsys, "sweep", MLP, recipe, "--seeds", 2, "-o", other)
    assert other.read_text() == "mine\n"


def test_a_failed_step_leaves_the_earlier_ones(capsys: Capture, tmp_path: Path) -> None:
    path, out = tmp_path / "r.json", tmp_path / "p.espalier"
    path.write_text(json.dumps({"steps": [
        {"pass": "quantize", "options": RECIPE["quantize"]}, {"pass": "remove_dropout", "enabled": False},
        {"pass": "calibrate", "options": {"select": {"by": "type", "values": ["norm"]}}},  # an MLP has none
        {"pass": "prune"}]}))  # fmt: skip
    told = mistake(capsys, "run", MLP, path, "-o", out)
    assert "Step 3 (calibrate)" in told and "The step before it is saved in" in told
    project = open_any(str(out), tmp_path, origin=Origin.TYPED).project
    assert [s.enabled for s in project.recipe.steps] == [True, False, False, False]
    assert any(n.precision for n in project.graph) and len(project.recipe) == 4
    mistake(capsys, "run", MLP, path)  # nothing to save, and nothing is


def test_run_with_seeds_gives_mean_and_spread(capsys: Capture, recipe: Path, tmp_path: Path) -> None:
    found = answer(capsys, "run", MLP, recipe, "--seeds", 3, "--limit", 90, "-o", tmp_path / "p.espalier")
    accuracies = [s["after"]["accuracy"] for s in found["seeds"]]
    assert [s["seed"] for s in found["seeds"]] == [0, 1, 2] and len(set(accuracies)) > 1
    assert found["after"]["accuracy"] == accuracies[0]
    assert found["after_mean"]["accuracy"] == pytest.approx(statistics.fmean(accuracies))
    assert found["after_std"]["accuracy"] == pytest.approx(statistics.stdev(accuracies))
    assert found["after_min"]["accuracy"] == min(accuracies) and found["after_max"]["accuracy"] == max(accuracies)
    assert found["after_std"]["sparsity"] == 0 and (tmp_path / "p.espalier").exists()
    assert "--seeds is 0" in mistake(capsys, "run", MLP, recipe, "--seeds", 0)
