"""Recipe → graph: run the steps on the base, from the first one that is not remembered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from model.errors import EspalierError
from model.graph import Graph
from model.project import step_to_json
from model.recipe import Recipe, Step
from passes.base import Cancelled, Context, Report, StepResult, is_instant, run_step


@dataclass(slots=True)
class Memo:
    """Graphs by the steps that led to them, so that undo and a changed step k re-run nothing before k."""

    graphs: dict[str, StepResult] = field(default_factory=dict)  # type: ignore[assignment]
    limit: int = 256

    def put(self, key: str, result: StepResult) -> None:
        """Remember, forgetting the oldest past the limit."""
        self.graphs[key] = result
        while len(self.graphs) > self.limit:
            self.graphs.pop(next(iter(self.graphs)))


@dataclass(frozen=True, slots=True)
class Replayed:
    """The graph, and one result per active step."""

    graph: Graph
    results: tuple[StepResult, ...]

    @property
    def reports(self) -> tuple[Report, ...]:
        """Reports in order."""
        return tuple(r.report for r in self.results)


def prefix_keys(steps: tuple[Step, ...]) -> list[str]:
    """One key per step: equal when all steps up to it are equal."""
    texts = [json.dumps(step_to_json(s), sort_keys=True) for s in steps]
    return ["\n".join(texts[: i + 1]) for i in range(len(texts))]


def replay(base: Graph, recipe: Recipe, context: Context, memo: Memo | None = None) -> Replayed:
    """Run the active steps of `recipe` on `base`; raises the failing step's error, naming the step."""
    graph, results = base, []
    memo = memo or Memo()
    places = [i for i, s in enumerate(recipe.steps) if s.enabled]
    for i, (step, key) in enumerate(zip(recipe.active, prefix_keys(recipe.active), strict=True)):
        if key not in memo.graphs:
            context.progress(i, len(recipe.active), step.pass_name)
            memo.put(key, _run(graph, step, context, places[i]))
        results.append(memo.graphs[key])
        graph = memo.graphs[key].graph
    return Replayed(graph, tuple(results))


def _run(graph: Graph, step: Step, context: Context, index: int) -> StepResult:
    try:
        return run_step(graph, step, context)
    except Cancelled:
        raise
    except EspalierError as error:
        error.message = f"Step {index + 1} ({step.pass_name}): {error.message}"
        raise


def instant(recipe: Recipe, memo: Memo) -> bool:
    """Whether what is not remembered of `recipe` can run without a worker."""
    keys = prefix_keys(recipe.active)
    return all(k in memo.graphs or is_instant(s) for s, k in zip(recipe.active, keys, strict=True))
