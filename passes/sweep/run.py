"""Run a sweep point by point; what points share runs once, and what is known already does not run again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import xxhash

from espalier.model.document.codec import encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, EspalierError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Cancelled, Context, run_step
from espalier.passes.recipes.replay import Memo, prefix_keys, recipe_key, remembered, replay
from espalier.passes.recipes.set_up import check_set_up, options_of, reads
from espalier.passes.score import static_score
from espalier.passes.sweep.outcome import KEPT_STEP, Outcome, point_words
from espalier.passes.sweep.sweep import Point, Sweep, points

# What torch and numpy raise where a model cannot do what is asked of it: one point's misfortune, told with it.
FAULTS = (RuntimeError, ValueError, ArithmeticError, LookupError, TypeError, MemoryError)


def point_key(base: str, point: Point, sweep: Sweep, contents: Mapping[str, str]) -> str:
    """Equal where the same model gets the same steps and is scored on the same data.

    `contents`: a hash of the files behind each name of data, where there are some.
    """
    facts: list[Any] = [base, recipe_key(point.recipe), point.seed, encode(sweep.score)]
    names = {getattr(o, "data", "") for o in (*options_of(point.recipe.active), sweep.score)}
    facts += [held] if (held := {n: contents[n] for n in names if contents.get(n)}) else []
    return xxhash.xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _contents(sweep: Sweep, todo: Iterable[Point]) -> dict[str, str]:
    """Name of data → a hash of its files."""
    from espalier.model.data.recent import content_of

    named = (getattr(o, "data", "") for p in todo for o in (*options_of(p.recipe.active), sweep.score))
    return {n: content_of(n) for n in dict.fromkeys(named) if isinstance(n, str)}


Scores = dict[str, dict[str, Any]]  # by the graph that has them: recipes that give one graph are measured once


def run(
    sweep: Sweep, base: Graph, context: Context, memo: Memo | None = None, known: Iterable[Outcome] = ()
) -> Iterator[Outcome]:
    """Each point's outcome as soon as it is there; raises OptionsError for an impossible sweep, Cancelled when stopped.

    `known` are outcomes of an earlier run. After `context.enough` nothing more is run.
    """
    memo = memo if memo is not None else Memo()
    todo, found, name = points(sweep), {o.key: o for o in known if not o.error}, fingerprint(base)
    scores: Scores = {}
    contents = _contents(sweep, todo)
    keys = [point_key(name, p, sweep, contents) for p in todo]
    _check_data(sweep, [p for p, key in zip(todo, keys, strict=True) if key not in found], base, context)
    ended = False
    for done, (point, key) in enumerate(zip(todo, keys, strict=True)):
        if key not in found:
            ended = ended or context.enough()
            if ended:
                continue
            found[key] = _outcome(key, point, sweep, base, _inner(context, sweep, point, done, len(todo)), memo, scores)
            yield found[key]
        else:
            yield replace(found[key], variant=point.variant, x=point.x, seed=point.seed, reused=True, seconds={})
    context.progress(len(todo), len(todo), "done")


def _check_data(sweep: Sweep, todo: list[Point], base: Graph, context: Context) -> None:
    """Raise DataError where no point could be run for want of readable data; where some can, the others say why."""
    faults: dict[Any, DataError | None] = {}
    for point in todo:
        subjects = [*options_of(point.recipe.active), *([sweep.score] if sweep.score.data else [])]
        for options in (s for s in subjects if reads(s) and s not in faults):
            faults[options] = None
            try:
                check_set_up([options], base, context)
            except DataError as error:
                faults[options] = error
        if not any(faults.get(s) for s in subjects if reads(s)):
            return
    if error := next((e for e in faults.values() if e), None):
        raise error


def _inner(context: Context, sweep: Sweep, point: Point, done: int, total: int) -> Context:
    """What the steps of one point run in: their progress is told as the sweep's, and they are never cut short."""
    words = point_words(sweep, Outcome("", point.variant, point.x, point.seed))

    def progress(inner: int, of: int, text: str) -> None:
        context.progress(done, total, f"{words}: {text}")

    plain = Context(context.store)
    return replace(context, seed=point.seed, progress=progress, metric=plain.metric, found=plain.found,
                   enough=plain.enough)  # fmt: skip


def _outcome(
    key: str, point: Point, sweep: Sweep, base: Graph, context: Context, memo: Memo, scores: Scores
) -> Outcome:
    seconds: dict[str, float] = {}
    plain = Outcome(key, point.variant, point.x, point.seed, seconds=seconds)
    try:
        context.progress(0, 1, "starting")
        graph, kept = _replayed(point, base, context, memo, seconds)
        return replace(plain, score=_score(graph, point, sweep, context, scores, seconds) | kept)
    except Cancelled:
        raise
    except EspalierError as error:
        return replace(plain, error=error.message, hint=error.hint)
    except FAULTS as error:
        return replace(plain, error=f"{type(error).__name__}: {str(error).strip()[:300]}")


def _replayed(
    point: Point, base: Graph, context: Context, memo: Memo, seconds: dict[str, float]
) -> tuple[Graph, dict[str, int]]:
    """The point's graph, and the step that its last training kept; notes how long each step took that had to run."""
    active = point.recipe.active
    before = remembered(prefix_keys(active), memo)
    done = replay(base, point.recipe, context, memo)
    for step, result in list(zip(active, done.results, strict=True))[before:]:
        if result:
            seconds[step.pass_name] = seconds.get(step.pass_name, 0.0) + result.seconds
    kept = [r.report.summary[KEPT_STEP] for r in done.results if r and KEPT_STEP in r.report.summary]
    return done.graph, {KEPT_STEP: int(kept[-1])} if kept else {}


def _score(
    graph: Graph, point: Point, sweep: Sweep, context: Context, scores: Scores, seconds: dict[str, float]
) -> dict[str, Any]:
    """What the graph costs and, with data, achieves."""
    if not sweep.score.data:
        return asdict(static_score(graph))
    name = f"{fingerprint(graph)} {point.seed if _random(graph) else ''}"
    if name not in scores:
        start = time.perf_counter()
        report = run_step(graph, Step("evaluate", sweep.score, point.seed), context).report
        seconds["evaluate"] = time.perf_counter() - start
        scores[name] = dict(report.summary)
    return dict(scores[name])


def _random(graph: Graph) -> bool:
    """Whether a run of the graph draws random numbers, so that its score hangs on the seed."""
    return any(p.format.stochastic for n in graph for p in n.precision.values())


# -- how long it will take


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to run: points, and of each pass how often; seconds where each has been timed, and what has not."""

    points: int
    runs: dict[str, int]
    seconds: float
    untimed: tuple[str, ...]


def estimate(sweep: Sweep, timed: Mapping[str, float], done: Iterable[Outcome] = ()) -> Estimate:
    """How much work the sweep is; steps that points share count once. `timed`: seconds by pass; raises OptionsError."""
    there = {o.place for o in done if not o.error}
    todo = [p for p in points(sweep) if (p.variant, p.x, p.seed) not in there]
    keys = {k: s.pass_name for p in todo for k, s in zip(prefix_keys(p.recipe.active), p.recipe.active, strict=True)}
    runs: dict[str, int] = {}
    for name in keys.values():
        runs[name] = runs.get(name, 0) + 1
    if sweep.score.data:
        runs["evaluate"] = len({recipe_key(p.recipe) for p in todo})
    seconds = sum(timed.get(n, 0.0) * count for n, count in runs.items())
    return Estimate(len(todo), runs, seconds, tuple(n for n in runs if n not in timed))
