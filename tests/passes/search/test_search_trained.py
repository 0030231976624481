"""Trials that train: three figures each, shared work done once, pruned on the way, the same again by their recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.opening import Opened, open_source
from espalier.passes.base import Context, run_step
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.recipes.replay import Memo, replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.overlay_store import OverlayStore
from espalier.passes.search.prepare import prepared
from espalier.passes.search.search import Search
from espalier.passes.search.spec import Goal, SearchSpec, Training, Vary, When
from espalier.passes.search.spec_file import load_search
from espalier.passes.search.study import Plan, run
from espalier.passes.search.trained import Trained
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_run import EndedEarly, Order
from espalier.passes.search.with_training import finetuning, with_training
from espalier.passes.training import run as training
from espalier.passes.training.options import FinetuneOptions

TEMPLATES = Path(__file__).parents[3] / "resources" / "studies"
SCORE = EvaluateOptions(data="demo:digits", limit=100)
BITS = Vary(values="binary, integer(width=8)", per="all", name="bits")
TRAIN: dict[str, Any] = {
    "train_limit": 160,
    "validation_limit": 60,
    "learning_rate": 3e-3,
    "epochs": 2.0,
    "keep": "loss",
}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source("demo:digits-mlp", tmp_path_factory.mktemp("digits"))


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """How many there have been, as a list that grows."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    seen: list[int] = []
    real = training.train

    def counted(ready: Any, options: FinetuneOptions, context: Context) -> Any:
        seen.append(context.seed)
        return real(ready, options, context)

    monkeypatch.setattr(training, "train", counted)
    yield seen


def spec_of(train: Training, *space: Vary, **more: Any) -> SearchSpec:
    return SearchSpec(**{"study": "s", "space": space or (BITS,), "sampler": "grid", "trials": 2, "score": SCORE,
                         "train": train, "finetune": TRAIN} | more)  # fmt: skip


def search_of(spec: SearchSpec, source: Opened, recipe: Recipe | None = None) -> Search:
    return Search(spec, recipe or Recipe(), source.project.base, source.project.source)


def ran(search: Search, source: Opened, folder: Path) -> list[Trial]:
    context = Context(source.store, reading=source.project.source.reading)
    plan = Plan(search, context, f"journal:///{folder}/s.journal")
    return [t for t in run(plan) if t.state != "running"]


def trained_run(search: Search, source: Opened) -> Trained:
    context = Context(source.store)
    ready = prepared(search, context, Memo())
    assert search.info is not None
    return Trained(search.spec, ready.space, search.recipe, search.base, search.info, context)


@pytest.mark.slow
@pytest.mark.parametrize(("train", "count"), [("none", 0), ("before", 1), ("after", 2), ("both", 3)])
def test_figures_of_three_curves(train: Training, count: int, digits: Opened, trainings: list[int], tmp_path: Path
                                 ) -> None:  # fmt: skip
    trials = ran(search_of(spec_of(train), digits), digits, tmp_path)
    assert [t.state for t in trials] == ["complete"] * 2 and len(trainings) == count
    two, eight = sorted(trials, key=lambda t: t.figures["weight_bits"])
    for t in trials if train != "none" else []:
        assert {"accuracy_before", "accuracy_compressed", "accuracy", "loss_compressed"} <= set(t.figures)
    if train in ("after", "both"):
        assert two.figures["loss"] < two.figures["loss_compressed"], "training through binary weights regains nothing"
        assert two.figures["accuracy_before"] == eight.figures["accuracy_before"]
        assert two.steps and eight.steps and two.steps[0][0] > 0
    if train == "before":
        assert two.figures["accuracy_compressed"] == two.figures["accuracy"] and not two.steps


@pytest.mark.slow
def test_recipe_of_a_trial_gives_its_result_again(digits: Opened, trainings: list[int], tmp_path: Path) -> None:
    search = search_of(spec_of("both"), digits)
    trial = ran(search, digits, tmp_path)[0]
    space = prepared(search, Context(digits.store), Memo()).space
    recipe = search.recipe_of(space, trial.params)
    assert [s.pass_name for s in recipe.steps] == ["finetune", "quantize", "finetune"]
    context = Context(digits.store)
    graph = replay(digits.project.base, recipe, context).graph
    again = run_step(graph, Step("evaluate", SCORE), context).report.summary
    assert (again["accuracy"], again["loss"]) == (trial.figures["accuracy"], trial.figures["loss"])


@pytest.mark.slow
def test_weak_trial_ends_in_its_training(digits: Opened, trainings: list[int], tmp_path: Path) -> None:
    search = search_of(spec_of("after", finetune={**TRAIN, "evaluate_every": 2, "checkpoint_every": 1}), digits)
    trials = trained_run(search, digits)
    seen: list[int] = []

    def show(found: Any) -> None:
        seen.append(found.samples)
        assert found.unit == "steps"
        if len(seen) == 2:
            raise EndedEarly("enough")

    order = Order({"bits.weight": "binary"}, Recipe(), Context(digits.store), show)
    space = prepared(search, Context(digits.store), Memo()).space
    name = space.choices[0].name
    order = replace(order, params={name: space.choices[0].values[0]})
    order = replace(order, recipe=space.apply(Recipe(), order.params))
    with pytest.raises(EndedEarly, match="enough"):
        trials.figures(order)
    assert seen == [2, 4]
    assert not list((tmp_path / "state").rglob("step-*")), "a checkpoint of a training that nobody goes on with stays"


@pytest.mark.slow
def test_what_a_trial_makes_goes_with_it(digits: Opened, trainings: list[int], tmp_path: Path) -> None:
    before = len(digits.store._memory)  # pyright: ignore[reportPrivateUsage]
    ran(search_of(spec_of("after"), digits), digits, tmp_path)
    assert len(digits.store._memory) == before  # pyright: ignore[reportPrivateUsage]


def test_scratch_reads_below_and_writes_above(digits: Opened) -> None:
    from espalier.model.store.weights import Tensor

    store = OverlayStore(digits.store)
    key = next(w.key for w in digits.project.base.weights.values() if w.key)
    assert key in store and store.get(key).array is not None
    own = Tensor(store.get(key).array + 1, store.get(key).dtype)
    name = store.hold(own)
    assert name in store and name not in digits.store
    read = store.reader()
    assert (read(name).array == own.array).all() and (read(key).array == digits.store.get(key).array).all()


@pytest.mark.slow
def test_options_of_a_training_in_the_recipe(digits: Opened, trainings: list[int], tmp_path: Path) -> None:
    """A rate between limits, epochs, and a step that is on or off, some of them conditional."""
    options = FinetuneOptions(data="demo:digits", train_limit=96, validation_limit=30, keep="last")
    recipe = Recipe((Step("finetune", options),))
    space = (
        Vary("option", key="finetune", values="on, off", name="tune"),
        Vary("option", key="finetune.learning_rate", low=1e-4, high=1e-2, log=True, when=When("tune", (True,))),
        Vary("option", key="finetune.epochs", values="1, 2", when=When("tune", (True,))),
    )
    spec = spec_of("none", *space, sampler="random", trials=6, seed=4)
    trials = ran(search_of(spec, digits, recipe), digits, tmp_path)
    on = [t for t in trials if t.params["tune"]]
    off = [t for t in trials if not t.params["tune"]]
    assert on and off and all(len(t.params) == 3 for t in on) and all(len(t.params) == 1 for t in off)
    assert len(trainings) == len(on) and len({t.figures["loss"] for t in on}) == len(on)
    assert all(t.steps for t in on) and all(t.reused for t in off[1:])


@pytest.mark.slow
def test_ranks_by_layer(digits: Opened, trainings: list[int], tmp_path: Path) -> None:
    from espalier.passes.choices.lora import Rank
    from espalier.passes.select import Select

    ids = tuple(n.id for n in digits.project.base if n.op == "linear")
    ranks = tuple(Rank(Select("name", (i,)), 2) for i in ids[:2])
    recipe = Recipe((Step("lora", LoraOptions(rank=2, ranks=ranks)),))
    space = tuple(Vary("option", key=f"lora.ranks.{i}.rank", values="1, 4") for i in range(2))
    trials = ran(search_of(spec_of("after", *space, trials=4), digits, recipe), digits, tmp_path)
    assert {tuple(t.params.values()) for t in trials} == {(a, b) for a in (1, 4) for b in (1, 4)}
    assert all(t.state == "complete" for t in trials) and len(trainings) == 4


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"finetune": {"epoch": 1}}, "epoch", "epochs"),
        ({"score": EvaluateOptions(), "goals": (Goal("size_bytes"),)}, "no data to train on", "finetune.data"),
        ({"pruner": "rungs", "rungs": (10,)}, "each trial trains", "median"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    change: dict[str, Any], message: str, hint: str, digits: Opened, tmp_path: Path
) -> None:
    with pytest.raises(OptionsError, match=message) as caught:
        ran(search_of(spec_of("after", **change), digits), digits, tmp_path)
    assert hint in caught.value.hint


def test_source_without_configuration_is_told(digits: Opened, tmp_path: Path) -> None:
    spec = spec_of("before", Vary("config", key="hidden_size", values="8, 16"))
    with pytest.raises(EspalierError, match="has no configuration"):
        ran(search_of(spec, digits), digits, tmp_path)


def test_training_takes_its_data_from_the_score() -> None:
    spec = SearchSpec(score=EvaluateOptions(data="mine.csv", text="words", max_length=40), finetune={"epochs": 3})
    options = finetuning(replace(spec, train="after"))
    assert (options.data, options.text, options.max_length, options.epochs) == ("mine.csv", "words", 40, 3)
    own = finetuning(replace(spec, finetune={"data": "other.csv"}))
    assert (own.data, own.text) == ("other.csv", "")


def test_identities_come_before_the_training_of_an_architecture() -> None:
    steps = tuple(Step(name, None) for name in ("lora", "replace_linear", "quantize"))
    spec = SearchSpec(space=(Vary("identity"),), score=SCORE, train="both")
    names = [s.pass_name for s in with_training(spec, Recipe(steps)).steps]
    assert names == ["replace_linear", "finetune", "lora", "quantize", "finetune"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_source("demo:reviews", tmp_path_factory.mktemp("reviews"))


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nas", "compression-aware", "lora-and-bits"])
def test_templates_run_on_the_demo(name: str, reviews: Opened, trainings: list[int], tmp_path: Path) -> None:
    recipe, spec = load_search(TEMPLATES / f"{name}.toml")
    spec = replace(spec, trials=2, score=replace(spec.score, data="demo:reviews", limit=60),
                   finetune={**spec.finetune, "train_limit": 64, "validation_limit": 20})  # fmt: skip
    trials = ran(search_of(spec, reviews, recipe), reviews, tmp_path)
    assert len(trials) == 2 and all(t.state in ("complete", "pruned") for t in trials), [t.error for t in trials]
    assert any(t.state == "complete" for t in trials)
    assert all("accuracy_before" in t.figures for t in trials if t.state == "complete")


@pytest.mark.slow
def test_architecture_is_trained_once_for_all_its_formats(reviews: Opened, trainings: list[int], tmp_path: Path
                                                          ) -> None:  # fmt: skip
    space = (Vary("config", key="intermediate_size", values="64, 256"), BITS)
    train = {"train_limit": 64, "validation_limit": 20}
    spec = spec_of("before", *space, trials=4, score=replace(SCORE, data="demo:reviews"), finetune=train)
    trials = ran(search_of(spec, reviews), reviews, tmp_path)
    assert [t.state for t in trials] == ["complete"] * 4 and len(trainings) == 2
    assert len({t.figures["accuracy_before"] for t in trials if t.params["intermediate_size"] == 64}) == 1
    assert all(t.figures["inherited"] == 1 for t in trials)


@pytest.mark.slow
def test_impossible_combinations_are_pruned_with_their_reason(reviews: Opened, tmp_path: Path) -> None:
    space = (Vary("config", key="num_attention_heads", values="2, 3"),)
    trials = ran(search_of(spec_of("none", *space, score=replace(SCORE, data="demo:reviews")), reviews), reviews,
                 tmp_path)  # fmt: skip
    told = {t.params["num_attention_heads"]: t for t in trials}
    assert told[2].state == "complete" and told[3].state == "pruned"
    assert "not a multiple" in told[3].error and not told[3].figures.get("accuracy")
