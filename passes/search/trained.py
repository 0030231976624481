"""Trials that train or that build another model: uncompressed, compressed and post-trained accuracy of each.

What trials share is done once: the training before compression (once an architecture), its score, tokens, the trace.
Weights of another trial are taken only where a search says so: a trial's recipe gives its result again.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import Project, keys_of, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, StepResult
from espalier.passes.costs.base import COSTS, measured
from espalier.passes.costs.base import figures as costs_of
from espalier.passes.dominant import dominant_fields
from espalier.passes.recipes.replay import Memo, recipe_key, replay
from espalier.passes.score import static_score
from espalier.passes.search.architecture.building import Architect, Built, Impossible, square
from espalier.passes.search.evaluator import Evaluator
from espalier.passes.search.goals import KL, wanted
from espalier.passes.search.inherited_weights import beginning
from espalier.passes.search.overlay_store import OverlayStore
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial_run import Invalid, Order, Seen
from espalier.passes.search.with_training import FINETUNE, IDENTITIES, fitted_to, trained_first, with_training
from espalier.passes.training.checkpoint_folders import discard
from espalier.passes.training.curve import TRAINING_LOSS

KEPT_STEP = "kept_step"
SHOWN = {"accuracy": "validation accuracy", "loss": "validation loss"}


@dataclass(slots=True)
class _Place:
    """An architecture with what its trials share: `scores` by graph."""

    built: Built
    scores: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


@dataclass(frozen=True, slots=True)
class _Work:
    """One trial on its architecture; the first `shared` steps of its recipe are those of others too."""

    place: _Place
    recipe: Recipe
    shared: int
    name: str


@dataclass(frozen=True, slots=True)
class _Ended:
    """What the last trial made: its model, and `memo`, which knows the graphs of its steps."""

    order: Order
    info: SourceInfo
    graph: Graph
    store: OverlayStore
    memo: Memo


@dataclass(frozen=True, slots=True)
class Made:
    """A trial's graphs by its steps, and their tensors: nobody trains it again to write it."""

    memo: Memo
    store: OverlayStore

    def lent(self, store: WeightStore) -> AbstractContextManager[None]:
        """Its tensors in another store while it is written: those of many improvements would fill the memory."""
        return store.borrowing({k for r in self.memo.graphs.values() for k in keys_of(r.graph)}, self.store)


class Trained:
    """A way to run trials, one for a whole study. `recipe`: the steps that it began with, before choices."""

    def __init__(
        self, spec: SearchSpec, space: Space, recipe: Recipe, base: Graph, info: SourceInfo, context: Context,
        architect: Architect | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.space, self.want = spec, space, wanted(spec)
        self.plain = with_training(spec, recipe)
        self.base, self.context = base, context
        self.keys = {c.name: c.key for c in space.choices if c.kind == "config"}
        self.architect = architect or _architect(spec, self.keys, base, info, context)
        self._home = _Place(Built(info, base, context.store, dict(context.callables)))
        self._places: dict[str, _Place] = {}
        self._evaluator: Evaluator | None = None
        self._samples: dict[str, Any] = {}
        self._ended: _Ended | None = None
        self.noise: dict[str, Any] = {}  # of the accuracy of the trial that ran last
        self.losses: list[tuple[int, float]] = []  # of its own trainings, by optimiser step
        self.bits: dict[str, Any] = {}  # what holds up its average of stored bits
        self._check()

    def _check(self) -> None:
        for choice in self.space.choices:
            if choice.kind == "config" and self.architect is not None:
                self.architect.origin.key(choice.key)
        trains = self.spec.train in ("after", "both") or (self.spec.train == "before" and self.keys)
        if self.spec.pruner == "rungs" and trains:
            raise OptionsError("Rungs judge samples of a measurement, and here each trial trains.",
                               "Take the pruner median, halving or hyperband, which judge validations.")  # fmt: skip

    # -- what study asks for

    def key(self, order: Order) -> str:
        """The architecture and the recipe decide."""
        work = self._work(order)
        text = json.dumps([work.name, recipe_key(work.recipe)])
        return xxhash.xxh3_128_hexdigest(text.encode())

    def costs(self, order: Order) -> dict[str, float]:
        """Of the compressed model before it is trained: training changes none of them. Only where a limit asks."""
        work = self._work(order)
        if not self.want.limits and self.want.measured:
            return {}
        untrained = Recipe(tuple(s for s in work.recipe.active if s.pass_name != FINETUNE))
        context = self._context(order, work, OverlayStore(work.place.built.store))
        graph = replay(work.place.built.graph, untrained, context, Memo()).graph
        self.bits = dominant_fields(graph)
        return _static(graph)

    def figures(self, order: Order) -> dict[str, float]:
        """accuracy, and that before compression and before the training after it; raises EndedEarly, Invalid."""
        self.losses = []
        work = self._work(order)
        store = OverlayStore(work.place.built.store)
        memo = Memo(dict(work.place.built.memo.graphs))
        context = self._context(order, work, store)
        found: dict[str, float] = {}
        graph, steps, own = work.place.built.graph, 0, 0
        active = work.recipe.active
        first = trained_first(self.spec, active)
        if first < 0:
            found |= self._part("before", work, graph, context)
        for i, step in enumerate(active):
            if self._trails(active, i):
                found |= self._part("compressed", work, graph, context)
            graph, done = self._step(order, work, i, context, memo, steps)
            steps += int(done.report.summary.get("steps", 0)) if step.pass_name == FINETUNE else 0
            own += step.pass_name == FINETUNE and i >= work.shared
            found |= _kept_step(active, i, done)
            if i == first:
                found |= self._part("before", work, graph, context)
        self._ended = _Ended(order, work.place.built.info, graph, store, memo)
        last = self._last(order, work, graph, context, own > 0)
        if self.spec.train == "before":
            found |= {f"{k}_compressed": last[k] for k in SHOWN if k in last}
        return found | last

    def samples(self, order: Order) -> Any:
        """(losses, correct) of each sample of a trial that has run, which rungs compare with; None: not known."""
        return self._samples.get(self.key(order))

    def keep(self, path: Path) -> None:
        """Write the model of the trial that has just ended; raises ProjectError."""
        assert self._ended is not None
        graph, own = self._ended.graph, WeightStore(path.parent)
        for key in keys_of(graph):
            own.hold(self._ended.store.get(key))
        save_project(Project(self._ended.info, graph, Recipe(), graph), own, path, everything=True)

    def made(self, params: Mapping[str, Any], begins: str) -> Made | None:
        """What the trial that has just ended here made; None where that was one with other choices."""
        ended = self._ended
        if ended is None or (ended.order.params, ended.order.begins) != (dict(params), begins):
            return None
        return Made(Memo(dict(ended.memo.graphs)), ended.store)

    # -- one trial

    def _work(self, order: Order) -> _Work:
        recipe = beginning(with_training(self.spec, order.recipe), order.begins)
        if not self.keys or self.architect is None:
            return _Work(self._home, recipe, self._shared(recipe, self.plain), "")
        there = {c.name for c in self.space.active(order.params)}
        values = {key: order.params[name] for name, key in self.keys.items() if name in there}
        name = self.architect.spec(values)
        try:
            built = self.architect.build(values)
        except Impossible as error:
            raise Invalid(error.message) from error
        held = self._places.get(name)
        if held is None or held.built is not built:
            self._places = {k: p for k, p in self._places.items() if self.architect.keeps(k)}
            held = self._places[name] = _Place(built)
        fitted = fitted_to(recipe, set(built.graph.nodes), square(built.graph))
        plain = fitted_to(self.plain, set(built.graph.nodes), square(built.graph))
        return _Work(held, fitted, self._shared(fitted, plain), name)

    def _shared(self, recipe: Recipe, plain: Recipe) -> int:
        """How many of the first steps other trials have too: those before any choice, and the training before
        compression, unless all that is chosen comes before it."""
        later = any(c.kind not in ("config", "identity") for c in self.space.choices)
        first = trained_first(self.spec, recipe.active) if later else -1
        return max(recipe.common(plain), first + 1)

    def _context(self, order: Order, work: _Work, store: OverlayStore) -> Context:
        return replace(work.place.built.context(order.context), store=store)

    def _trails(self, active: tuple[Step, ...], i: int) -> bool:
        """Whether step `i` is the training after compression."""
        return self.spec.train in ("after", "both") and i == len(active) - 1

    def _step(
        self, order: Order, work: _Work, i: int, context: Context, memo: Memo, steps: int
    ) -> tuple[Graph, StepResult]:
        """Run step `i` of a trial, those before it being remembered; what is shared stays for other trials."""
        shared = i < work.shared
        built = work.place.built
        recipe = Recipe(work.recipe.active[: i + 1])
        named = bool(self.keys) or work.recipe.active[0].pass_name == IDENTITIES  # an architecture of the trial's own
        own = not shared or (named and work.recipe.active[i].pass_name == FINETUNE)
        inner = replace(context, metric=self._heard(order, steps)) if own else context
        inner = replace(inner, store=built.store) if shared else inner
        with self._tidy(work, i, memo, inner), _settled():
            done = replay(built.graph, recipe, inner, built.memo if shared else memo)
        result = done.results[-1]
        assert result is not None
        if shared:
            memo.graphs.update(built.memo.graphs)
        return done.graph, result

    def _heard(self, order: Order, offset: int) -> Any:
        """Shows the validations of a training, counted in optimiser steps, and keeps its losses."""
        figure = self.spec.goals[0].figure
        name = SHOWN.get(figure)

        def metric(told: str, step: int, value: float) -> None:
            order.context.metric(told, step, value)
            if told == TRAINING_LOSS:
                self.losses.append((offset + step, value))
            if told == name and step:
                order.show(Seen(offset + step, {figure: value}, unit="steps"))

        return metric

    @contextmanager
    def _tidy(self, work: _Work, i: int, memo: Memo, context: Context) -> Generator[None]:
        """A training that a pruner ends is not one to go on with: its checkpoint goes."""
        from espalier.passes.search.trial_run import EndedEarly

        try:
            yield
        except EndedEarly:
            step = work.recipe.active[i]
            if step.pass_name == FINETUNE:
                before = replay(work.place.built.graph, Recipe(work.recipe.active[:i]), context, memo).graph
                discard(before, step.options, step.seed, work.place.built.graph)
            raise

    # -- figures

    def _part(self, ending: str, work: _Work, graph: Graph, context: Context) -> dict[str, float]:
        """Accuracy and loss on the way, under names of their own; of equal graphs measured once."""
        if not self.spec.score.data:
            return {}
        name = fingerprint(graph)
        held = work.place.scores
        if name not in held:
            held[name] = self.evaluator(context).measure(graph)
        return {f"{k}_{ending}": v for k, v in held[name].items() if k in SHOWN}

    def _last(self, order: Order, work: _Work, graph: Graph, context: Context, trained: bool) -> dict[str, float]:
        """The whole score of what came out."""
        found, self.bits = _static(graph), dominant_fields(graph)
        if self.spec.score.data and (self.want.measured or self.spec.train != "none"):
            evaluator = self.evaluator(context)
            show = order.show if self.spec.pruner == "rungs" and not trained else _unseen
            found |= evaluator.measure(graph, show, KL in self.want.figures)
            self.noise = evaluator.noise
            if evaluator.rungs:
                self._samples[self.key(order)] = evaluator.known[fingerprint(graph)]
        for name in self.want.figures:
            if name not in found and name in COSTS:
                found |= measured(name, graph, self.spec.score, context)
        if self.keys:
            found["inherited"] = work.place.built.share
        return found

    def evaluator(self, context: Context) -> Evaluator:
        """The evaluator: data arranged once; the divergence is that from the source's outputs."""
        if self._evaluator is None:
            self._evaluator = Evaluator(self.base, self.spec.score, self.context, self.spec.rungs)
            if KL in self.want.figures:
                _ = self._evaluator.reference  # while the context is the source's
        self._evaluator.context = context
        return self._evaluator


def _architect(
    spec: SearchSpec, keys: dict[str, str], base: Graph, info: SourceInfo, context: Context
) -> Architect | None:
    return Architect(info, base, context.store, spec.seed, spec.inherit) if keys else None


def _kept_step(active: tuple[Step, ...], i: int, done: StepResult) -> dict[str, float]:
    """The step whose weights a training kept, 0 where it did not help; of the last training, and of those before it."""
    kept = done.report.summary.get("kept_step") if active[i].pass_name == FINETUNE else None
    later = any(s.pass_name == FINETUNE for s in active[i + 1 :])
    return {} if kept is None else {"kept_step_before" if later else KEPT_STEP: float(kept)}


def _static(graph: Graph) -> dict[str, float]:
    """The score and the costs that need no run."""
    score = static_score(graph)
    told = {k: float(v) for k, v in asdict(score).items() if v is not None}
    return told | {k: float(v) for k, v in costs_of(graph, score).items()}


@contextmanager
def _settled() -> Generator[None]:
    """Without what is there already among what each training's own garbage collection walks through (0.4 s a run)."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _unseen(seen: Seen) -> None:
    """A trial that has been trained is measured to the end."""
