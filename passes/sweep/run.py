"""Runs a sweep point by point; shared steps run once, and points with known outcomes are skipped."""

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
from espalier.passes.sweep.results import KEPT_STEP, Outcome, point_text
from espalier.passes.sweep.sweep import Point, Sweep, points

# Exceptions of torch and numpy if a model does not support a point; recorded as the point's error.
FAULTS = (RuntimeError, ValueError, ArithmeticError, LookupError, TypeError, MemoryError)


def point_key(base: str, point: Point, sweep: Sweep, contents: Mapping[str, str]) -> str:
    """Hash of the model, the steps and the data of the score.

    `contents`: a hash of the files of each data name, if it has any.
    """
    facts: list[Any] = [base, recipe_key(point.recipe), point.seed, encode(sweep.score)]
    names = {getattr(o, "data", "") for o in (*options_of(point.recipe.active), sweep.score)}
    facts += [hashes] if (hashes := {n: contents[n] for n in names if contents.get(n)}) else []
    return xxhash.xxh3_128(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _contents(sweep: Sweep, todo: Iterable[Point]) -> dict[str, str]:
    """Name of data → a hash of its files."""
    from espalier.model.data.recent import content_of

    named = (getattr(o, "data", "") for p in todo for o in (*options_of(p.recipe.active), sweep.score))
    return {n: content_of(n) for n in dict.fromkeys(named) if isinstance(n, str)}


Scores = dict[str, dict[str, Any]]  # by graph: recipes with the same graph are measured once


def run(
    sweep: Sweep, base: Graph, context: Context, memo: Memo | None = None, known: Iterable[Outcome] = ()
) -> Iterator[Outcome]:
    """Yield each point's outcome; raises OptionsError for an invalid sweep, Cancelled if cancelled.

    `known`: outcomes of an earlier run. After `context.enough` no further point is run.
    """
    memo = memo if memo is not None else Memo()
    todo, outcomes, name = points(sweep), {o.key: o for o in known if not o.error}, fingerprint(base)
    scores: Scores = {}
    contents = _contents(sweep, todo)
    keys = [point_key(name, p, sweep, contents) for p in todo]
    _check_data(sweep, [p for p, key in zip(todo, keys, strict=True) if key not in outcomes], base, context)
    ended = False
    for done, (point, key) in enumerate(zip(todo, keys, strict=True)):
        if key not in outcomes:
            ended = ended or context.enough()
            if ended:
                continue
            inner = _inner(context, sweep, point, done, len(todo))
            outcomes[key] = _outcome(key, point, sweep, base, inner, memo, scores)
            yield outcomes[key]
        else:
            yield replace(outcomes[key], variant=point.variant, x=point.x, seed=point.seed, reused=True, seconds={})
    context.progress(len(todo), len(todo), "done")


def _check_data(sweep: Sweep, todo: list[Point], base: Graph, context: Context) -> None:
    """Raise DataError if the data of no point can be read; otherwise unreadable data are the points' own errors."""
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
    """Context of one point's steps: progress is the sweep's, and `enough` does not interrupt them."""
    words = point_text(sweep, Outcome("", point.variant, point.x, point.seed))

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
    """(the point's graph, selected step of its last training); adds the seconds of each step that was run."""
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
    """Static costs of the graph and, with data, its metrics."""
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
    """Whether the graph has stochastic formats, so that its score depends on the seed."""
    return any(p.format.stochastic for n in graph for p in n.precision.values())


# -- duration


@dataclass(frozen=True, slots=True)
class Estimate:
    """Points to run, number of runs of each pass, seconds of those that have been timed, the others."""

    points: int
    runs: dict[str, int]
    seconds: float
    untimed: tuple[str, ...]


def estimate(sweep: Sweep, timed: Mapping[str, float], done: Iterable[Outcome] = ()) -> Estimate:
    """Estimate the duration; shared steps count once. `timed`: seconds by pass; raises OptionsError."""
    finished = {o.place for o in done if not o.error}
    todo = [p for p in points(sweep) if (p.variant, p.x, p.seed) not in finished]
    keys = {k: s.pass_name for p in todo for k, s in zip(prefix_keys(p.recipe.active), p.recipe.active, strict=True)}
    runs: dict[str, int] = {}
    for name in keys.values():
        runs[name] = runs.get(name, 0) + 1
    if sweep.score.data:
        runs["evaluate"] = len({recipe_key(p.recipe) for p in todo})
    seconds = sum(timed.get(n, 0.0) * count for n, count in runs.items())
    return Estimate(len(todo), runs, seconds, tuple(n for n in runs if n not in timed))
