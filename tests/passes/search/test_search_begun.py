"""A study that was left before its first trial blocks no name; one that holds a trial, or still runs, is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import DataError, StorageError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.empty_studies import BEGUN
from espalier.passes.search.fleet.heartbeat import signature
from espalier.passes.search.identity import identity
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec, Vary
from espalier.passes.search.storage import load_study, open_storage, open_study, study_names
from espalier.passes.search.study import Plan, begin, run
from espalier.passes.search.trial_run import Order
from espalier.passes.transform.calibrate import CalibrateOptions

MLP = "demo:digits-mlp"


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)


class Fixed:
    """Trials that all have one accuracy."""

    def key(self, order: Order) -> str:
        return str(order.params)

    def costs(self, order: Order) -> dict[str, float]:
        return {}

    def figures(self, order: Order) -> dict[str, float]:
        return {"accuracy": 0.5}


def plan(mlp: Opened, url: str, values: str = "integer(width=2|3|4|8)", **more: Any) -> Plan:
    score = more.pop("score", EvaluateOptions(MLP, limit=20))
    spec = SearchSpec(study="s", space=(Vary(values=values),), score=score, trials=more.pop("trials", 1))
    search = Search(spec, Recipe(), mlp.project.base, mlp.project.source)
    return Plan(search, Context(mlp.store, base=mlp.project.base), url, **{"runner": lambda *_: Fixed(), **more})


def test_a_search_that_raises_before_its_first_trial_leaves_nothing(mlp: Opened, tmp_path: Path) -> None:
    url = f"journal://{tmp_path}/s.journal"

    def broken(*_: object) -> Any:
        raise DataError("No data.", "Give some.")

    with pytest.raises(DataError):
        begin(plan(mlp, url, runner=broken))
    asked = plan(mlp, url, on_start=broken)
    with pytest.raises(DataError):
        list(run(asked))
    assert not study_names(open_storage(url))
    assert [t.state for t in run(plan(mlp, url, "mxint(width=4|8)"))] == ["running", "complete"]
    with pytest.raises(StorageError, match="already"):
        begin(plan(mlp, url))


def test_a_study_whose_maker_was_killed_before_its_first_trial_gives_way(mlp: Opened, tmp_path: Path) -> None:
    url = f"journal://{tmp_path}/s.journal"
    study = begin(plan(mlp, url)).study
    with pytest.raises(StorageError, match="already"):
        begin(plan(mlp, url, "mxint(width=4|8)"))  # its maker lives, so that it may begin yet
    study.set_user_attr(BEGUN, [*signature(0)[:3], "another time"])
    assert [t.state for t in run(plan(mlp, url, "mxint(width=4|8)"))] == ["running", "complete"]
    load_study(open_storage(url), "s").set_user_attr(BEGUN, [*signature(0)[:3], "another time"])
    with pytest.raises(StorageError, match="already"):
        begin(plan(mlp, url))  # it holds a trial


def test_a_study_does_not_go_on_with_other_data(mlp: Opened, tmp_path: Path) -> None:
    data, url = tmp_path / "data.csv", f"journal://{tmp_path}/s.journal"
    data.write_text("text,label\ngood,1\nbad,0\n")
    asked = plan(mlp, url, score=EvaluateOptions(str(data)))
    assert len(list(run(asked))) == 2
    more = replace(plan(mlp, url, score=EvaluateOptions(str(data)), trials=2), resume=True)
    assert len(list(run(more))) == 2
    data.write_text("text,label\ngood,0\nbad,1\n")
    with pytest.raises(StorageError, match="other data"):
        list(run(more))


def test_a_study_goes_on_with_its_data_by_another_path(
    mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal files are the same data however they are named; another number of trials is no other search."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("text,label\ngood,1\nbad,0\n")
    url = f"journal://{tmp_path}/s.journal"
    steps = Recipe((Step("calibrate", CalibrateOptions(data=str(tmp_path / "data.csv"))),))

    def asked(data: str, recipe: Recipe = Recipe(), trials: int = 1, **more: Any) -> Plan:  # noqa: B008  frozen
        made = plan(mlp, url, score=EvaluateOptions(data, **more), trials=trials)
        return replace(made, search=replace(made.search, recipe=recipe), resume=True)

    assert len(list(run(asked("data.csv")))) == 2
    assert len(list(run(asked(str(tmp_path / "data.csv"), trials=2)))) == 2
    assert len(list(run(asked("./data.csv", trials=3)))) == 2
    with pytest.raises(StorageError, match=r"'s' has other data\."):
        list(run(asked("data.csv", limit=1)))
    with pytest.raises(StorageError, match=r"'s' has another recipe and other options of the score\."):
        list(run(asked("data.csv", Recipe((Step("prune", PruneOptions(0.25)),)), batch_size=2)))
    alike, spelled = (identity(asked("data.csv", r).search, Space()) for r in (steps, from_here(steps)))
    assert alike.fingerprint == spelled.fingerprint and alike.before != spelled.before


def from_here(recipe: Recipe) -> Recipe:
    """The recipe with its data by their path from the working folder."""
    return Recipe(tuple(replace(s, options=replace(s.options, data="data.csv")) for s in recipe.steps))


def test_a_study_of_an_earlier_version_goes_on(mlp: Opened, tmp_path: Path) -> None:
    """It has one fingerprint, with the data's names as written."""
    url = f"journal://{tmp_path}/s.journal"
    asked = plan(mlp, url, trials=1)
    storage, old = open_storage(url), identity(asked.search, Space())
    open_study(storage, "s", ("maximize",), old.before)
    assert open_study(storage, "s", ("maximize",), old).user_attrs["fingerprint"] == old.before
    with pytest.raises(StorageError, match="something else"):
        open_study(storage, "s", ("maximize",), replace(old, before=""))
