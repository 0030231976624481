"""What studies and sweeps keep of themselves."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.mutants.written import SEARCH, SWEEP

# -- journals


def _spec() -> tuple[Any, Any, Any]:
    from espalier.passes.search.expand import expand
    from espalier.passes.search.spec_file import load_search
    from tests.model.zoo import case

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.toml"
        path.write_text(SEARCH)
        recipe, spec = load_search(path)
    held = case("mlp")
    return spec, recipe, expand(spec, held.graph, recipe)


def study_record() -> bytes:
    from espalier.passes.search.record import Record, dump
    from espalier.passes.search.trial import Trial

    spec, recipe, space = _spec()
    params = {c.name: c.values[0] for c in space.choices}
    figures = {"accuracy": 0.5, "weight_bits": 4.0}
    trials = tuple(Trial(n, "complete", params, (0.5 + n / 10, 4.0), figures, ((20, 0.4),),
                         {"size_bytes": -1.0}, 1e9 + n, 1.5, "w", "random", losses=((1, 0.5),))
                   for n in range(4))  # fmt: skip
    return dump(Record(spec, recipe, space, trials, "key", {"accuracy": 0.9}, {"name": "x"}))


def records(folder: Path) -> None:
    (folder / "study.trials.jsonl").write_bytes(study_record())


def read_record(path: Path, rng: Random) -> None:
    from espalier.app.features.search.commands.search_charts import study_of
    from espalier.app.features.search.commands.search_files import to_csv
    from espalier.passes.search.goals import best, wanted
    from espalier.passes.search.record import load
    from espalier.passes.search.space import Space

    held = load(path.read_bytes())
    to_csv(held.trials)
    study_of(held.spec, held.recipe, held.space or Space(), held.trials)
    best(held.trials, wanted(held.spec))


def journals(folder: Path) -> None:
    import optuna

    from espalier.passes.search.records import ABOUT, about
    from espalier.passes.search.storage import journal_url, open_storage

    spec, recipe, space = _spec()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("a", "b"):
        storage = open_storage(journal_url(folder / f"{name}.journal"))
        study = optuna.create_study(storage=storage, study_name="s", directions=["maximize", "minimize"],
                                    sampler=optuna.samplers.RandomSampler(seed=1))  # fmt: skip
        study.set_user_attr(ABOUT, about(spec, recipe, space, "model"))
        study.set_user_attr("coded", {} if name == "a" else {"width": ["2", "4"]})
        for number in range(4):
            trial = study.ask()
            for choice in space.choices:
                trial.suggest_categorical(choice.name, choice.values)
            trial.suggest_float("x", 0, 1)
            for key, value in (("figures", {"accuracy": 0.5, "weight_bits": 4}), ("violation", {"size_bytes": -1}),
                               ("worker", "w"), ("seconds", 1.5), ("losses", [[1, 0.5]])):  # fmt: skip
                trial.set_user_attr(key, value)
            if number < 3:
                study.tell(trial, [0.5 + number / 10, 4.0])
    for lock in folder.glob("*.held"):
        lock.unlink()


def read_journal(path: Path, rng: Random) -> None:
    from espalier.app.features.search.commands.search_charts import _groups, _read

    _groups(_read(str(path)))


def sweep_journal() -> bytes:
    from espalier.model.document.recipe import Recipe
    from espalier.passes.sweep.journal import Journal, dump
    from espalier.passes.sweep.results import BASELINE, Outcome
    from espalier.passes.sweep.spec import build_sweep, load_spec
    from espalier.passes.sweep.sweep import points

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.json"
        path.write_text(json.dumps(SWEEP))
        recipe, wish = load_spec(path)
    sweep = build_sweep(Recipe(recipe.steps), wish, wish.score)
    score = {"accuracy": 0.5, "loss": 1.0, "size_bytes": 100, "n": 20, "hits": "ff"}
    outcomes = [Outcome("k", p.variant, p.x, p.seed, score, seconds={"prune": 0.1}) for p in points(sweep)[:6]]
    return dump(Journal(sweep, (Outcome("b", BASELINE, 0, 0, score), *outcomes,
                                Outcome("e", 0, 5, 0, {}, "It failed.", "Try again."))))  # fmt: skip


def sweep_journals(folder: Path) -> None:
    (folder / "sweep.jsonl").write_bytes(sweep_journal())


def read_sweep(path: Path, rng: Random) -> None:
    from espalier.passes.sweep import journal
    from espalier.passes.sweep.results import baseline_of, change_of, curves, figures_of, mean_rows, rows
    from espalier.passes.sweep.sweep import points

    held = journal.load(path.read_bytes().decode("utf-8", "replace"))
    journal.read(path)
    points(held.sweep)
    figures_of(held.outcomes)
    for figure in ("accuracy", "size_bytes"):
        curves(held.sweep, held.outcomes, figure)
    rows(held.sweep, held.outcomes)
    mean_rows(held.sweep, held.outcomes)
    baseline_of(held.outcomes)
    for outcome in held.outcomes:
        change_of(outcome, held.outcomes, held.sweep)
