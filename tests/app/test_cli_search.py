"""`search` in this process: answers, files, going on where it was, and what is told of mistakes."""

from __future__ import annotations

import csv
import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.app.cli import main
from espalier.app.commands.console import Console
from espalier.app.features.search.commands import storages
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.search.goals import wanted
from espalier.passes.search.record import Record, records
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

Capture = pytest.CaptureFixture[str]
MLP = "demo:digits-mlp"
SPEC = """
goals = ["accuracy"]
sampler = "grid"
trials = 3
[[space]]
per = "all"
values = "integer(width=2|4|8)"
[score]
limit = 60
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "bits.toml"
    path.write_text(SPEC)
    return path


def answer(capsys: Capture, *words: object) -> dict[str, Any]:
    assert main(["search", *map(str, words), "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_flag_stands_above_the_file_also_where_it_is_a_default(capsys: Capture, spec: Path) -> None:
    found = answer(capsys, MLP, spec, "--trials", 1, "--limit", 0)
    assert found["best"]["n"] == found["baseline_score"]["n"] == 270, "all of the split, not the 60 of the file"


def refused(capsys: Capture, *words: object) -> str:
    assert main(["search", *map(str, words)]) == 2
    return capsys.readouterr().err


def test_what_misses_a_limit_is_not_measured(capsys: Capture, spec: Path) -> None:
    """It is not counted among those that a pruner ended."""
    spec.write_text(SPEC.replace("trials = 3", 'trials = 3\nwithin = ["weight_bits<=5"]'))
    assert main(["search", MLP, str(spec)]) == 0
    assert "2 complete, 1 not measured, 0 ended early, 0 failed" in capsys.readouterr().out


def test_the_best_is_compared_with_a_named_baseline(capsys: Capture, spec: Path) -> None:
    found = answer(capsys, MLP, spec)
    assert found["baseline"] == "opened" and found["baseline_score"]["n"] == 60
    best = found["best"]
    low, high = best["interval"]
    assert best["n"] == 60 and low < best["figures"]["accuracy"] <= high
    change = best["change"]["accuracy"]
    assert change["baseline"] == "opened" and change["test"] == "McNemar" and change["within_noise"]
    assert change["value"] == pytest.approx(best["figures"]["accuracy"] - found["baseline_score"]["accuracy"])
    assert "hits" not in json.dumps(found)
    assert answer(capsys, MLP, spec, "--baseline", "none", "--study", "b")["baseline"] is None


def test_how_long_it_still_takes_is_told(capsys: Capture, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from espalier.app.features.search.commands import search

    monkeypatch.setattr(search, "LONG", 0.0)
    assert main(["search", MLP, str(spec)]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("[")]
    assert [" left" in line for line in lines] == [True, True, False], lines


def test_what_came_before_the_first_trial_is_no_part_of_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of gradients of 9 s and a first trial of one: 29 more take half a minute, not five."""
    from espalier.app.features.search.commands import search

    monkeypatch.setattr(search.time, "perf_counter", lambda: 100.0)
    monkeypatch.setattr(search, "LONG", 0.0)
    asked: Any = SimpleNamespace(spec=SearchSpec(trials=30))
    done = search._Done(asked, want=wanted(SearchSpec()), begun=90.0)
    trials = iter([Trial(0, "complete", values=(0.9,), seconds=1.0)])
    heard: Any = SimpleNamespace(note=print, better=lambda *_: None)
    monkeypatch.setattr(search, "_told", lambda done, _trial: search._left(done, 1))
    monkeypatch.setattr(search, "_best_recipe", lambda _: None)
    search._followed((t for t in trials), heard, done, heard, heard)
    assert done.paced == 99.0 and search._left(done, 1) == "about 29 s left"
    # A trial that an earlier run left unfinished: its seconds include the pause.
    done = search._Done(asked, want=wanted(SearchSpec()), begun=90.0)
    left_over = iter([Trial(0, "failed", seconds=36_000.0), Trial(1, "complete", values=(0.9,), seconds=1.0)])
    search._followed((t for t in left_over), heard, done, heard, heard)
    assert done.paced == 90.0


def test_best_front_and_trials(capsys: Capture, spec: Path) -> None:
    found = answer(capsys, MLP, spec)
    assert {"best", "front", "trials", "seconds", "storage", "recipe"} <= set(found)
    assert found["study"] == "bits" and len(found["trials"]) == found["complete"] == 3 and found["configurations"] == 3
    best = max(t["values"]["accuracy"] for t in found["trials"])
    assert found["best"]["values"] == {"accuracy": best} and found["front"][0]["number"] == found["best"]["number"]
    assert Path(found["storage"].removeprefix("journal://")).exists()  # kept, though nothing else was asked for
    assert "--resume" in refused(capsys, MLP, spec)
    assert answer(capsys, MLP, spec, "--resume")["trials"] == found["trials"]


def shown_in(project: Path, workdir: Path) -> Record:
    """The study of a project as the window reads it."""
    (record,) = records(open_any(str(project), workdir, origin=Origin.TYPED).project.extras).values()
    return record


def test_a_project_holds_the_best_and_the_study(capsys: Capture, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "best.espalier"
    first = answer(capsys, MLP, spec, "--trials", 1, "-o", out)
    assert first["output"] == str(out) and not list(tmp_path.glob("best.espalier.journal*"))
    assert first["storage"] == str(out)  # the journal is in it
    begun = shown_in(out, tmp_path / "v")
    assert [t.number for t in begun.trials] == [0] and begun.key and begun.spec.study == "bits"
    more = answer(capsys, MLP, spec, "-o", out, "--resume")
    assert len(more["trials"]) == 3 and more["trials"][0] == first["trials"][0]
    project = open_any(str(out), tmp_path / "w", origin=Origin.TYPED).project
    assert sorted(project.extras) == ["studies/bits.journal", "studies/bits.trials.jsonl"]
    assert len(project.recipe.steps) == 1
    held = shown_in(out, tmp_path / "x")
    assert [t.number for t in held.trials] == [0, 1, 2] and held.key == begun.key
    assert held.space and {c.name for c in held.space.choices} == set(held.trials[0].params)
    assert main(["evaluate", str(out), "--limit", "60", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["accuracy"] == more["best"]["figures"]["accuracy"]


def test_tables_and_recipes(capsys: Capture, spec: Path, tmp_path: Path) -> None:
    answer(capsys, MLP, spec, "-o", tmp_path / "all.csv")
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    assert [r["number"] for r in rows] == ["0", "1", "2"] and {r["state"] for r in rows} == {"complete"}
    assert {r["param all.weight"] for r in rows} == {f"integer(width={w})" for w in (2, 4, 8)}
    found = answer(capsys, MLP, spec, "--study", "again", "-o", tmp_path / "best.toml")
    assert main(["run", MLP, str(tmp_path / "best.toml"), "--data", MLP, "--limit", "60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["accuracy"] == found["best"]["figures"]["accuracy"]


@pytest.mark.parametrize(("more", "said"), [
    ('samplr = "tpe"', "Did you mean 'sampler'?"), ('within = ["weight_bits<=0.5"]', "least possible"),
    ('pruner = "rungs"', "rungs"),
])  # fmt: skip
def test_mistakes_in_the_spec(capsys: Capture, spec: Path, more: str, said: str) -> None:
    spec.write_text(f"{more}\n{SPEC}")
    assert said in refused(capsys, MLP, spec)


def test_an_output_of_no_kind(capsys: Capture, spec: Path) -> None:
    assert "unknown file type" in refused(capsys, MLP, spec, "-o", "x.pdf")


def test_a_template_goes_by_its_name(capsys: Capture) -> None:
    assert "no search" in refused(capsys, MLP, "mixed-precison")
    found = answer(capsys, MLP, "samplers", "--trials", 2, "--limit", 40)
    assert found["study"] == "samplers" and found["ended"] == "all 2 trials have run"
    assert sum("accuracy" in t["figures"] and not t["reused"] for t in found["trials"]) == 2


@pytest.mark.parametrize(("url", "said"), [
    ("sqlite:///nowhere/x.db", "There is no folder"), ("redis://host", "names no storage of studies"),
    ("journal:README", "is not a journal"),
])  # fmt: skip
def test_a_storage_is_looked_into_before_a_model_is_opened(
    capsys: Capture, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README").write_text("Hello\n")
    told = refused(capsys, "no/such/model", spec, "--storage", url)
    assert said in told and "no/such/model" not in told and len(told.splitlines()) == 2


def test_who_waits_for_a_storage_is_told_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storages, "PATIENCE", 0.0)
    console = Console(sys.stdout, False)
    said = threading.Event()
    note = console.note
    monkeypatch.setattr(console, "note", lambda text: (note(text), said.set()))
    with storages.trying("postgresql://me:secret@host/x", console):
        assert said.wait(60)
    assert capsys.readouterr().err == "Trying to reach postgresql://me:…@host/x …\n"


def test_nothing_is_silent_for_long(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(sys.stdout, False)
    console.progress(3, 10, "trial 4: evaluating")
    assert not capsys.readouterr().err
    monkeypatch.setattr("espalier.app.commands.console.QUIET", 0.0)
    console.progress(3, 10, "trial 4: evaluating")
    assert capsys.readouterr().err == "… trial 4: evaluating, 3 of 10\n"
