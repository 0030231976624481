"""Recipe → graph: run the steps on the base, from the first one that is not remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace

import xxhash

from espalier.model.document.project import step_to_json
from espalier.model.document.recipe import Recipe, Step, naming_step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Cancelled, Context, Report, StepResult, is_instant, is_lasting, only_writes, run_step
from espalier.passes.saved import gone


@dataclass(slots=True)
class Memo:
    """Graphs by the steps that led to them, so that undo and a changed step k re-run nothing before k."""

    graphs: dict[str, StepResult] = field(default_factory=dict)  # type: ignore[assignment]
    limit: int = 256

    def remember(self, steps: tuple[Step, ...], graph: Graph) -> None:
        """Take `graph` for the result of `steps` (one at least), unless more is known: it was saved, or came to be
        elsewhere."""
        key = prefix_keys(steps)[-1]
        if key not in self.graphs:
            self.put(key, StepResult(graph, Report(steps[-1].pass_name), 0.0))

    def put(self, key: str, result: StepResult) -> None:
        """Remember, forgetting the oldest past the limit; what took long stays longest."""
        self.graphs[key] = result
        while len(self.graphs) > self.limit:
            short = (k for k, r in self.graphs.items() if not is_lasting(r.report.pass_name))
            self.graphs.pop(next(short, next(iter(self.graphs))))


def milestones(recipe: Recipe, found: Sequence[StepResult | None]) -> dict[int, Graph]:
    """What a project keeps besides its last graph: number of active steps → graph after a lasting one, where known."""
    pairs = enumerate(zip(recipe.active, found, strict=True), 1)
    return {i: r.graph for i, (s, r) in pairs if r and is_lasting(s.pass_name) and i < len(recipe.active)}


@dataclass(frozen=True, slots=True)
class Replayed:
    """The graph, and one result per active step: None for one that only led to a remembered graph."""

    graph: Graph
    results: tuple[StepResult | None, ...]


def prefix_keys(steps: tuple[Step, ...]) -> list[str]:
    """One key per step: equal when all steps up to it are equal."""
    digest, keys = xxhash.xxh3_128(), list[str]()
    for step in steps:
        digest.update(_text(step) + b"\n")
        keys.append(digest.hexdigest())
    return keys


def recipe_key(recipe: Recipe) -> str:
    """Equal for recipes whose active steps are equal, but for those that only write on nodes."""
    return (prefix_keys(tuple(s for s in recipe.active if not only_writes(s))) or [""])[-1]


# Steps are frozen and mostly stay from edit to edit; a step of some hundred rules takes milliseconds to write.
_TEXTS: dict[int, tuple[Step, bytes]] = {}


def _text(step: Step) -> bytes:
    held = _TEXTS.get(id(step))
    if held is None or held[0] is not step:
        if len(_TEXTS) >= 256:
            _TEXTS.clear()
        held = _TEXTS[id(step)] = step, json.dumps(step_to_json(step), sort_keys=True).encode()
    return held[1]


def remembered(keys: list[str], memo: Memo) -> int:
    """How many of the first steps need not run: up to the last one whose graph is remembered."""
    return max((i for i, k in enumerate(keys, 1) if k in memo.graphs), default=0)


def _unwatched(index: int, step: Step) -> None:
    pass


def replay(
    base: Graph, recipe: Recipe, context: Context, memo: Memo | None = None,
    begins: Callable[[int, Step], None] = _unwatched,
) -> Replayed:  # fmt: skip
    """Run the active steps of `recipe` on `base`; raises the failing step's error, naming the step.

    `begins` hears of each step that runs, by its index in the recipe.
    """
    memo = memo if memo is not None else Memo()
    context.base = base if context.base is None else context.base
    keys = prefix_keys(recipe.active)
    known = remembered(keys, memo)
    graph = memo.graphs[keys[known - 1]].graph if known else base
    results = [memo.graphs.get(k) for k in keys[:known]]
    places = [i for i, s in enumerate(recipe.steps) if s.enabled]
    for i, step in enumerate(recipe.active[known:], known):
        context.progress(i, len(keys), step.pass_name)
        begins(places[i], step)
        done = _run(graph, step, context, places[i])
        memo.put(keys[i], done)
        results.append(done)
        graph = done.graph
    return Replayed(graph, tuple(results))


def check_ready(recipe: Recipe) -> None:
    """Raise the error of an active step whose options lack what its run needs, before a model is opened for it."""
    for index, step in enumerate(recipe.steps):
        if step.enabled and hasattr(step.options, "ready"):
            with naming_step(index, step.pass_name):
                step.options.ready()


def _check_writes_nothing(step: Step) -> None:
    """A recipe may come from anyone: it changes a graph, and no file of the user's."""
    for each in fields(step.options) if is_dataclass(step.options) else ():
        if each.metadata.get("writes") and (place := getattr(step.options, each.name)):
            text = f"A recipe cannot write files: its {each.name} is {str(place)[:200]!r}."
            raise OptionsError(text, f"Take {each.name} out of the step; {each.metadata['writes']} writes there.")


def _run(graph: Graph, step: Step, context: Context, index: int) -> StepResult:
    try:
        with naming_step(index, step.pass_name):
            _check_writes_nothing(step)
            return _noting_gone(run_step(graph, step, context), step, graph)
    except Cancelled as error:
        raise Cancelled("The job was cancelled.") from error


def _noting_gone(result: StepResult, step: Step, before: Graph) -> StepResult:
    """The result with a warning where a saved selection has nodes that the graph lacks."""
    if not (text := gone(step.options, before)):
        return result
    held = str(result.report.summary.get("warning", ""))
    summary = {**result.report.summary, "warning": " ".join(filter(None, (held, text)))}
    return replace(result, report=replace(result.report, summary=summary))


def instant(recipe: Recipe, memo: Memo) -> bool:
    """Whether what is not remembered of `recipe` can run without a worker."""
    keys = prefix_keys(recipe.active)
    return all(map(is_instant, recipe.active[remembered(keys, memo) :]))
