"""Trials that begin at what the best before them was trained to, and the pass that takes weights over."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from pytest import MonkeyPatch

from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.opening import Opened, open_any, open_source
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.goals import best, wanted
from espalier.passes.search.inherited_weights import discard, is_better, new_weights_file, parent_of, remove_unneeded
from espalier.passes.search.search import Search
from espalier.passes.search.space import Choice, Space
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.stop import reason
from espalier.passes.search.study import Plan, begin
from espalier.passes.search.trained import Trained
from espalier.passes.search.trial import Trial
from espalier.passes.transform.take_weights import TakeWeightsOptions, take_weights

SCORE = EvaluateOptions(data="demo:digits", limit=100)
TUNE = {"train_limit": 160, "validation_limit": 60, "learning_rate": 3e-3, "epochs": 1.0, "keep": "last"}
BITS = Vary(values="binary, integer(width=2), integer(width=8)", per="all", name="bits")
SPEC = SearchSpec("s", (BITS,), sampler="grid", trials=3, score=SCORE, train="after", finetune=TUNE, begin_at="best")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source("demo:digits-mlp", tmp_path_factory.mktemp("digits"))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@pytest.mark.slow
def test_later_trials_begin_at_the_best_before_them(digits: Opened, tmp_path: Path) -> None:
    """Each tells whose weights it had; its recipe gives its figures again, those of another trial included."""
    search = Search(SPEC, Recipe(), digits.project.base, digits.project.source)
    running = begin(Plan(search, Context(digits.store), f"journal://{tmp_path}/s.journal"))
    trials = [t for t in running.trials() if t.state != "running"]
    assert [t.state for t in trials] == ["complete"] * 3
    want, first, second = wanted(SPEC), trials[0], trials[1]
    assert first.parent is None and not first.begins and first.kept
    assert (second.parent, second.begins) == (0, first.kept)
    for trial in trials:
        assert bool(trial.kept) == is_better(trial, trials[: trial.number], want)
    recipe = search.recipe_of(running.space, second.params, second.begins)
    assert [s.pass_name for s in recipe.steps] == ["take_weights", "quantize", "finetune"]
    context = Context(digits.store)
    graph = replay(digits.project.base, recipe, context).graph
    again = run_step(graph, Step("evaluate", SCORE), context).report.summary
    assert (again["accuracy"], again["loss"]) == (second.figures["accuracy"], second.figures["loss"])
    alone = replay(digits.project.base, search.recipe_of(running.space, second.params), context).graph
    assert fingerprint(alone) != fingerprint(graph)


def test_who_is_begun_at(tmp_path: Path) -> None:
    """The best whose weights are still there; none where trials begin at the source's."""
    here = tmp_path / "t.espalier"
    here.touch()
    trials = [Trial(0, "complete", values=(0.9,), kept=str(tmp_path / "gone")),
              Trial(1, "complete", values=(0.8,), kept=str(here)), Trial(2, "complete", values=(0.95,))]  # fmt: skip
    found = parent_of(SPEC, wanted(SPEC), trials)
    assert found is not None and found.number == 1
    assert parent_of(replace(SPEC, begin_at="source"), wanted(SPEC), trials) is None


def test_of_equal_trials_the_next_goal_decides_whose_weights_are_kept(tmp_path: Path) -> None:
    """As for the best: of equal accuracy the smaller."""
    want = wanted(replace(SPEC, goals=(Goal("accuracy"), Goal("size_bytes"))))
    files = [new_weights_file() for _ in range(5)]
    trials = [Trial(i, "complete", values=(0.9, 100 - 10 * i), kept=str(path)) for i, path in enumerate(files)]
    for trial in trials:
        Path(trial.kept).touch()
        assert best(trials[: trial.number + 1], want) is trial and is_better(trial, trials[: trial.number], want)
        assert not is_better(replace(trial, number=9), trials, want)
    remove_unneeded(trials, want)
    assert [p.exists() for p in files] == [False, False, True, True, True]


def test_weights_that_nobody_needs_go(tmp_path: Path) -> None:
    """Those that a trial began at stay, and those of the best; with the study all go, nothing elsewhere does."""
    other = tmp_path / "mine.espalier"
    places = [new_weights_file() for _ in range(6)] + [other]
    for path in places:
        path.touch()
    trials = [Trial(i, "complete", values=(i / 10,), kept=str(path)) for i, path in enumerate(places[:6])]
    trials += [Trial(6, "complete", values=(0.0,), kept=str(other)), Trial(7, begins=str(places[0]))]
    remove_unneeded(trials, wanted(SPEC))
    assert [p.exists() for p in places] == [True, False, False, True, True, True, True]
    os.utime(places[0], (0, 0))
    assert not new_weights_file().exists() and not places[0].exists() and places[5].exists()
    discard(trials)
    assert [p for p in places if p.exists()] == [other]


def test_nothing_is_trained(digits: Opened, tmp_path: Path) -> None:
    search = Search(replace(SPEC, train="none"), Recipe(), digits.project.base, digits.project.source)
    with pytest.raises(OptionsError, match="needs a trial that trains"):
        begin(Plan(search, Context(digits.store), f"journal://{tmp_path}/s.journal"))


def test_a_configuration_is_tried_anew_at_other_weights(tmp_path: Path) -> None:
    """The space of three is not exhausted before all have begun at the best weights so far; a grid has each once."""
    here = tmp_path / "t.espalier"
    here.touch()
    wish, space = replace(SPEC, sampler="random", trials=9), Space((Choice("bits", "format", values=("a", "b", "c")),))
    first = [Trial(0, "complete", {"bits": "a"}, values=(0.9,), kept=str(here))]
    for number, bits in enumerate("bca", 1):
        at = "" if number == 1 else str(here)
        first.append(Trial(number, "complete", {"bits": bits}, values=(0.8,), begins=at))
    told = {t.number: t for t in first}
    last = replace(first[1], number=4, begins=str(here))

    def why(spec: SearchSpec, trials: dict[int, Trial]) -> str:
        return reason(spec, wanted(spec), space, optuna.create_study(), trials, 1.0)

    assert not why(wish, told) and "every configuration" in why(wish, {**told, 4: last})
    assert "every configuration" in why(replace(wish, begin_at="source"), told)
    assert "every configuration" in why(replace(wish, sampler="grid"), told)


@pytest.mark.slow
def test_rungs_compare_with_the_best_as_it_began(digits: Opened, tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """The best trial's samples are found though the next one begins elsewhere than it did."""
    seen: list[object] = []
    held = Trained.samples
    monkeypatch.setattr(Trained, "samples", lambda self, order: seen.append(held(self, order)) or seen[-1])
    wish = replace(SPEC, train="before", pruner="rungs", rungs=(20, 50), trials=2)
    search = Search(wish, Recipe(), digits.project.base, digits.project.source)
    running = begin(Plan(search, Context(digits.store), f"journal://{tmp_path}/s.journal"))
    trials = [t for t in running.trials() if t.state != "running"]
    assert trials[1].parent == 0 and trials[1].begins == trials[0].kept
    assert len(seen) == 1 and seen[0] is not None


# -- the pass

WIDE = "config:bert?num_hidden_layers=2&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=50"
THIN = WIDE.replace("hidden_size=32", "hidden_size=16")


@pytest.mark.slow
def test_weights_are_taken_where_shapes_allow(tmp_path: Path) -> None:
    wide, thin = open_any(WIDE, tmp_path, origin=Origin.TYPED), open_any(THIN, tmp_path, seed=4, origin=Origin.TYPED)
    after, report = take_weights(thin.project.base, TakeWeightsOptions(WIDE), Context(thin.store))
    name = next(n for n in after.weights if n.endswith("word_embeddings.weight"))
    taken, given = (
        thin.store.get(after.weights[name].key or ""),
        wide.store.get(wide.project.base.weights[name].key or ""),
    )
    assert (taken.array == given.array[:, :16]).all() and report.summary["share"] == 1


@pytest.mark.slow
def test_nothing_fits(digits: Opened) -> None:
    with pytest.raises(PassError, match="no weight that fits"):
        take_weights(digits.project.base, TakeWeightsOptions(WIDE), Context(digits.store))
    with pytest.raises(PassError, match="No model is named"):
        take_weights(digits.project.base, TakeWeightsOptions(), Context(digits.store))
