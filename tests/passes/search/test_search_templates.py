"""Every template of a study that is shipped runs on a demo as it is, and comes to trials with figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.config import read_file
from espalier.passes.search.search import Search
from espalier.passes.search.spec_file import filled, load_search, read_search, search_to_dict
from espalier.passes.search.study import Plan, begin

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = sorted((ROOT / "resources" / "studies").glob("*.toml"))
# Configurations are those of texts; the small model's layers have no more to vary.
MODEL = {"nas": "demo:reviews", "compression-aware": "demo:reviews", "lora-and-bits": "demo:reviews"}
TRAINS = (*MODEL, "lora-rank")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_it_is_read_and_written_again(path: Path) -> None:
    recipe, spec = load_search(path)
    assert spec.study == path.stem and spec.space
    again = read_search({**search_to_dict(spec), "study": spec.study}, path.parent)
    assert again == (Recipe(), spec)
    assert not recipe.steps or recipe.active
    about = read_file(path)["about"]
    assert "demo" in about and any(w in about for w in ("second", "minute")), "it says how long it takes"


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    recipe, spec = load_search(path)
    model = MODEL.get(path.stem, "demo:digits-mlp")
    opened = open_any(model, tmp_path, origin=Origin.TYPED)
    project = opened.project
    score = replace(spec.score, data=model, limit=40)
    short = {"max_steps": 2, "train_limit": 64, "warm_up": 0} if spec.train != "none" else {}
    spec = replace(spec, trials=3, warm=0, score=score, finetune={**spec.finetune, **short})
    search = Search(spec, filled(recipe, score), project.base, project.source)
    context = Context(opened.store, reading=project.source.reading, callables=opened.callables, base=project.base)
    running = begin(Plan(search, context, f"journal://{tmp_path}/s.journal"))
    ended = [t for t in running.trials() if t.state not in ("running", "waiting")]
    assert sum(t.counts for t in ended) == 3 and all(t.state in ("complete", "pruned") for t in ended), [
        t.error for t in ended
    ]
    assert all(t.figures for t in ended if t.state == "complete")
