"""What stands in a journal: long values as numbers, and only where they would make it large; old studies go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from espalier.model.document.recipe import Recipe
from espalier.model.opening import Opened, open_any
from espalier.passes.base import Context
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search import samplers
from espalier.passes.search.records import trials_of
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec, Vary
from espalier.passes.search.storage import load_study, open_storage
from espalier.passes.search.study import Plan, run
from espalier.passes.search.trial import Trial
from espalier.passes.select import Select

SPEC = SearchSpec("s", (Vary(select=Select("all"), ports=("weight", "data_in"), values="all"),),
                  (Goal("weight_bits"),), score=EvaluateOptions("demo:digits-mlp", limit=20), trials=5)  # fmt: skip


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any("demo:digits-mlp", tmp_path_factory.mktemp("mlp"))


def searched(mlp: Opened, path: Path, **more: Any) -> list[Trial]:
    resume = more.pop("resume", False)
    plan = Plan(Search(replace(SPEC, **more), Recipe(), mlp.project.base), Context(mlp.store, base=mlp.project.base),
                f"journal://{path}", resume)  # fmt: skip
    return [t for t in run(plan) if t.state == "complete"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2", "gp"])
def test_a_large_study_holds_numbers_and_chooses_the_same(
    mlp: Opened, sampler: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = searched(mlp, tmp_path / "a.journal", sampler=sampler)
    monkeypatch.setattr(samplers, "MAX_TEXT", 1000)
    numbers = searched(mlp, tmp_path / "b.journal", sampler=sampler)
    assert [t.params for t in texts] == [t.params for t in numbers]
    assert all(isinstance(v, str) for t in numbers for v in t.params.values())
    sizes = [sum(len(json.dumps(x)) for x in lines(tmp_path / f"{n}.journal") if "param_name" in x) for n in "ab"]
    assert sizes[1] < sizes[0] / 2.5
    study = load_study(open_storage(str(tmp_path / "b.journal")), "s")
    assert [t.params for t in trials_of(study)] == [t.params for t in numbers]


def test_a_study_goes_on_as_it_was_begun(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.journal"
    first = searched(mlp, path)
    monkeypatch.setattr(samplers, "MAX_TEXT", 1000)
    searched(mlp, path, trials=8, resume=True)
    study = load_study(open_storage(str(path)), "s")
    assert len(study.trials) == 8 and all(isinstance(v, str) for t in study.trials for v in t.params.values())
    assert [t.params for t in trials_of(study)][:5] == [t.params for t in first]


def test_other_programs_read_it(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna's own storage, as the dashboard opens it."""
    monkeypatch.setattr(samplers, "MAX_TEXT", 1000)
    found = searched(mlp, tmp_path / "a.journal")
    backend = JournalFileBackend(str(tmp_path / "a.journal"))
    study = optuna.load_study(study_name="s", storage=optuna.storages.JournalStorage(backend))
    assert len(study.trials) == len(found) and study.best_trial.number in {t.number for t in found}
    codes = study.user_attrs["coded"]
    assert {k: codes[k][v] for k, v in study.trials[0].params.items()} == found[0].params


def test_nothing_is_said_twice_of_a_trial(mlp: Opened, tmp_path: Path) -> None:
    searched(mlp, tmp_path / "a.journal", trials=1)
    said = Counter(str(k) for x in lines(tmp_path / "a.journal") if x.get("trial_id") == 0
                   for k in (*x.get("user_attr", {}), x.get("param_name"), *x.get("system_attr", {})) if k)  # fmt: skip
    assert set(said.values()) == {1}
