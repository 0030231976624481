"""Runs trials that train or build another model: accuracy before compression, after it, and after retraining.

Trials share the training before compression (once per architecture), its score, tokens and the trace. Weights of
another trial are inherited only if the search says so: a trial's recipe alone reproduces its result.
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
from espalier.passes.search.inherited_weights import with_initial_weights
from espalier.passes.search.overlay_store import OverlayStore
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial_run import Invalid, Order, PartialResult
from espalier.passes.search.with_training import FINETUNE, IDENTITIES, fitted_to, trained_first, with_training
from espalier.passes.tasks.base import all_metrics
from espalier.passes.training.checkpoint_folders import discard
from espalier.passes.training.curve import TRAINING_LOSS, VALIDATION

KEPT_STEP = "kept_step"


@dataclass(slots=True)
class _Architecture:
    """An architecture, and the `scores` of its graphs by fingerprint."""

    built: Built
    scores: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


@dataclass(frozen=True, slots=True)
class _Work:
    """A trial on its architecture; the first `shared` steps of its recipe are common to other trials."""

    architecture: _Architecture
    recipe: Recipe
    shared: int
    name: str


@dataclass(frozen=True, slots=True)
class _LastTrial:
    """The model of the trial that ended last; `memo` holds the graphs of its steps."""

    order: Order
    info: SourceInfo
    graph: Graph
    store: OverlayStore
    memo: Memo


@dataclass(frozen=True, slots=True)
class TrialModel:
    """A trial's graphs by step with their tensors, so that it is written without training it again."""

    memo: Memo
    store: OverlayStore

    def in_store(self, store: WeightStore) -> AbstractContextManager[None]:
        """Make its tensors readable from `store` inside the block, without copying them."""
        return store.borrowing({k for r in self.memo.graphs.values() for k in keys_of(r.graph)}, self.store)


class Trained:
    """Runs the trials of a study. `recipe`: its first steps, before those of the choices."""

    def __init__(
        self, spec: SearchSpec, space: Space, recipe: Recipe, base: Graph, info: SourceInfo, context: Context,
        architect: Architect | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.space, self.want = spec, space, wanted(spec)
        self.plain = with_training(spec, recipe)
        self.base, self.context = base, context
        self.keys = {c.name: c.key for c in space.choices if c.kind == "config"}
        self.architect = architect or _architect(spec, self.keys, base, info, context)
        self._source = _Architecture(Built(info, base, context.store, dict(context.callables)))
        self._architectures: dict[str, _Architecture] = {}
        self._evaluator: Evaluator | None = None
        self._samples: dict[str, Any] = {}
        self._last_trial: _LastTrial | None = None
        self.noise: dict[str, Any] = {}  # interval data of the accuracy of the last trial
        self.losses: list[tuple[int, float]] = []  # (optimiser step, loss) of its own trainings
        self.bits: dict[str, Any] = {}  # the layer that dominates its average stored bits
        self._check()

    def _check(self) -> None:
        for choice in self.space.choices:
            if choice.kind == "config" and self.architect is not None:
                self.architect.origin.key(choice.key)
        trains = self.spec.train in ("after", "both") or (self.spec.train == "before" and self.keys)
        if self.spec.pruner == "rungs" and trains:
            raise OptionsError("The pruner rungs compares samples of a measurement, but here each trial trains.",
                               "Take the pruner median, halving or hyperband: they compare validations.")  # fmt: skip

    # -- the interface of a trial runner

    def key(self, order: Order) -> str:
        """The key of the architecture and the recipe."""
        work = self._work(order)
        text = json.dumps([work.name, recipe_key(work.recipe)])
        return xxhash.xxh3_128_hexdigest(text.encode())

    def costs(self, order: Order) -> dict[str, float]:
        """Static costs of the compressed model, which training does not change; empty if no limit needs them."""
        work = self._work(order)
        if not self.want.limits and self.want.measured:
            return {}
        untrained = Recipe(tuple(s for s in work.recipe.active if s.pass_name != FINETUNE))
        built = work.architecture.built
        context = self._context(order, work, OverlayStore(built.store))
        graph = replay(built.graph, untrained, context, Memo()).graph
        self.bits = dominant_fields(graph)
        return _static(graph)

    def figures(self, order: Order) -> dict[str, float]:
        """All figures, with accuracies before compression and before retraining; raises EndedEarly, Invalid."""
        self.losses = []
        work = self._work(order)
        built = work.architecture.built
        store = OverlayStore(built.store)
        memo = Memo(dict(built.memo.graphs))
        context = self._context(order, work, store)
        figures: dict[str, float] = {}
        graph, steps, trainings = built.graph, 0, 0
        active = work.recipe.active
        first = trained_first(self.spec, active)
        if first < 0:
            figures |= self._accuracy_and_loss("before", work, graph, context)
        for i, step in enumerate(active):
            if self._is_retraining(active, i):
                figures |= self._accuracy_and_loss("compressed", work, graph, context)
            graph, result = self._step(order, work, i, context, memo, steps)
            steps += int(result.report.summary.get("steps", 0)) if step.pass_name == FINETUNE else 0
            trainings += step.pass_name == FINETUNE and i >= work.shared
            figures |= _kept_step(active, i, result)
            if i == first:
                figures |= self._accuracy_and_loss("before", work, graph, context)
        self._last_trial = _LastTrial(order, built.info, graph, store, memo)
        last = self._final_figures(order, work, graph, context, trainings > 0)
        if self.spec.train == "before":
            figures |= {f"{k}_compressed": last[k] for k in self._staged(context) if k in last}
        return figures | last

    def samples(self, order: Order) -> Any:
        """(losses, correct) per sample of a trial that has run, which rungs compare with; None if unknown."""
        return self._samples.get(self.key(order))

    def keep(self, path: Path) -> None:
        """Write the model of the last trial to `path`; raises ProjectError."""
        assert self._last_trial is not None
        graph, store = self._last_trial.graph, WeightStore(path.parent)
        for key in keys_of(graph):
            store.hold(self._last_trial.store.get(key))
        save_project(Project(self._last_trial.info, graph, Recipe(), graph), store, path, everything=True)

    def last_model(self, params: Mapping[str, Any], begins: str) -> TrialModel | None:
        """The model of the last trial; None if it had other parameters or initial weights."""
        last = self._last_trial
        if last is None or (last.order.params, last.order.begins) != (dict(params), begins):
            return None
        return TrialModel(Memo(dict(last.memo.graphs)), last.store)

    # -- one trial

    def _work(self, order: Order) -> _Work:
        recipe = with_initial_weights(with_training(self.spec, order.recipe), order.begins)
        if not self.keys or self.architect is None:
            return _Work(self._source, recipe, self._shared(recipe, self.plain), "")
        active = {c.name for c in self.space.active(order.params)}
        values = {key: order.params[name] for name, key in self.keys.items() if name in active}
        name = self.architect.spec(values)
        try:
            built = self.architect.build(values)
        except Impossible as error:
            raise Invalid(error.message) from error
        architecture = self._architectures.get(name)
        if architecture is None or architecture.built is not built:
            self._architectures = {k: a for k, a in self._architectures.items() if self.architect.keeps(k)}
            architecture = self._architectures[name] = _Architecture(built)
        fitted = fitted_to(recipe, set(built.graph.nodes), square(built.graph))
        plain = fitted_to(self.plain, set(built.graph.nodes), square(built.graph))
        return _Work(architecture, fitted, self._shared(fitted, plain), name)

    def _shared(self, recipe: Recipe, plain: Recipe) -> int:
        """The number of first steps that trials have in common: those before any choice, and the training before
        compression, unless all choices come before it."""
        later = any(c.kind not in ("config", "identity") for c in self.space.choices)
        first = trained_first(self.spec, recipe.active) if later else -1
        return max(recipe.common(plain), first + 1)

    def _context(self, order: Order, work: _Work, store: OverlayStore) -> Context:
        return replace(work.architecture.built.context(order.context), store=store)

    def _is_retraining(self, active: tuple[Step, ...], i: int) -> bool:
        """Whether step `i` is the training after compression."""
        return self.spec.train in ("after", "both") and i == len(active) - 1

    def _step(
        self, order: Order, work: _Work, i: int, context: Context, memo: Memo, steps: int
    ) -> tuple[Graph, StepResult]:
        """Run step `i` of a trial after memoised earlier steps; results of shared steps are memoised for all trials."""
        shared = i < work.shared
        built = work.architecture.built
        recipe = Recipe(work.recipe.active[: i + 1])
        own_architecture = bool(self.keys) or work.recipe.active[0].pass_name == IDENTITIES
        reports = not shared or (own_architecture and work.recipe.active[i].pass_name == FINETUNE)
        inner = replace(context, metric=self._metric(order, steps)) if reports else context
        inner = replace(inner, store=built.store) if shared else inner
        with self._discarding_pruned(work, i, memo, inner), _frozen_garbage():
            replayed = replay(built.graph, recipe, inner, built.memo if shared else memo)
        result = replayed.results[-1]
        assert result is not None
        if shared:
            memo.graphs.update(built.memo.graphs)
        return replayed.graph, result

    def _metric(self, order: Order, offset: int) -> Any:
        """A `metric` callback that shows validations to the pruner and records training losses, by optimiser step."""
        figure = self.spec.goals[0].figure
        metric_shown = all_metrics().get(figure)
        shown = VALIDATION + metric_shown.title if metric_shown else None

        def metric(name: str, step: int, value: float) -> None:
            order.context.metric(name, step, value)
            if name == TRAINING_LOSS:
                self.losses.append((offset + step, value))
            if name == shown and step:
                order.show(PartialResult(offset + step, {figure: value}, unit="steps"))

        return metric

    @contextmanager
    def _discarding_pruned(self, work: _Work, i: int, memo: Memo, context: Context) -> Generator[None]:
        """Discard the checkpoint of a training that a pruner ends: it is never resumed."""
        from espalier.passes.search.trial_run import EndedEarly

        try:
            yield
        except EndedEarly:
            step = work.recipe.active[i]
            if step.pass_name == FINETUNE:
                base = work.architecture.built.graph
                before = replay(base, Recipe(work.recipe.active[:i]), context, memo).graph
                discard(before, step.options, step.seed, base)
            raise

    # -- figures

    def _accuracy_and_loss(self, suffix: str, work: _Work, graph: Graph, context: Context) -> dict[str, float]:
        """Intermediate accuracy and loss, named with `suffix`; equal graphs are measured once."""
        if not self.spec.score.data:
            return {}
        name = fingerprint(graph)
        scores = work.architecture.scores
        if name not in scores:
            scores[name] = self.evaluator(context).measure(graph)
        return {f"{k}_{suffix}": v for k, v in scores[name].items() if k in self._staged(context)}

    def _staged(self, context: Context) -> tuple[str, ...]:
        """The metrics that are told of each stage of a trial."""
        main = self.evaluator(context).task.main.name if self.spec.score.data else "accuracy"
        return tuple(dict.fromkeys((main, "accuracy", "loss")))

    def _final_figures(
        self, order: Order, work: _Work, graph: Graph, context: Context, trained: bool
    ) -> dict[str, float]:
        """The score and the costs of the resulting graph."""
        figures, self.bits = _static(graph), dominant_fields(graph)
        if self.spec.score.data and (self.want.measured or self.spec.train != "none"):
            evaluator = self.evaluator(context)
            show = order.show if self.spec.pruner == "rungs" and not trained else _ignore
            figures |= evaluator.measure(graph, show, KL in self.want.figures)
            self.noise = evaluator.noise
            if evaluator.rungs:
                self._samples[self.key(order)] = evaluator.samples[fingerprint(graph)]
        for name in self.want.figures:
            if name not in figures and name in COSTS:
                figures |= measured(name, graph, self.spec.score, context)
        if self.keys:
            figures["inherited"] = work.architecture.built.share
        return figures

    def evaluator(self, context: Context) -> Evaluator:
        """The evaluator, created on first use; its divergence is from the source's outputs."""
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


def _kept_step(active: tuple[Step, ...], i: int, result: StepResult) -> dict[str, float]:
    """The optimiser step whose weights a training kept, 0 if it did not help, named apart for an earlier training."""
    step = result.report.summary.get("kept_step") if active[i].pass_name == FINETUNE else None
    later = any(s.pass_name == FINETUNE for s in active[i + 1 :])
    return {} if step is None else {"kept_step_before" if later else KEPT_STEP: float(step)}


def _static(graph: Graph) -> dict[str, float]:
    """The score and the costs that need no data."""
    score = static_score(graph)
    values = {k: float(v) for k, v in asdict(score).items() if v is not None}
    return values | {k: float(v) for k, v in costs_of(graph, score).items()}


@contextmanager
def _frozen_garbage() -> Generator[None]:
    """Exclude existing objects from the garbage collections of each training (they cost 0.4 s a run)."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _ignore(result: PartialResult) -> None:
    """A trained trial is measured to its end."""
