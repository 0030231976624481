"""What a pass is: a function (graph, options, context) → (graph, report), registered by name.

An analysis returns the same graph object; a transform returns a legal graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from model.check import check
from model.errors import JobError, PassError
from model.graph import Graph
from model.recipe import Step
from model.registry import PASSES
from model.weights import WeightStore

Row = dict[str, Any]
Progress = Callable[[int, int, str], None]


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass found or did: a table and a few figures."""

    pass_name: str
    rows: tuple[Row, ...] = ()
    summary: Row = field(default_factory=dict)  # type: ignore[assignment]


@dataclass(slots=True)
class Context:
    """What a pass may use besides the graph. `progress` also is where a cancelled job stops (JobError)."""

    store: WeightStore
    seed: int = 0
    progress: Progress = _silent
    callables: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # type: ignore[assignment]
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True)
class NoOptions:
    """A pass without options."""


Options = TypeVar("Options")
Run = Callable[[Graph, Any, Context], tuple[Graph, Report]]


@dataclass(frozen=True, slots=True)
class PassSpec:
    """A registered pass. `instant`: runs in the window's own process, without torch, in milliseconds."""

    name: str
    kind: Literal["analysis", "transform"]
    options: type
    run: Run
    title: str
    doc: str
    instant: bool


PassFunction = Callable[[Graph, Options, Context], tuple[Graph, Report]]


def _register(
    kind: Literal["analysis", "transform"], name: str, title: str, options: type, instant: bool
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    def add(function: PassFunction[Options]) -> PassFunction[Options]:
        doc = (function.__doc__ or "").strip()
        PASSES.add(name, PassSpec(name, kind, options, cast("Run", function), title, doc, instant))
        return function

    return add


def analysis(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    """Register an analysis."""
    return _register("analysis", name, title, options, instant)


def transform(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    """Register a transform."""
    return _register("transform", name, title, options, instant)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave."""

    graph: Graph
    report: Report
    seconds: float


def run_step(graph: Graph, step: Step, context: Context) -> StepResult:
    """Run one step and check what it leaves; raises PassError, OptionsError or what the pass raises."""
    spec: PassSpec = PASSES.get(step.pass_name)
    if not isinstance(step.options, spec.options):
        raise PassError(f"Step {step.pass_name} holds options of another kind.", "Remove the step and add it again.")
    start = time.perf_counter()
    context.seed = step.seed
    after, report = spec.run(graph, step.options, context)
    if spec.kind == "analysis" and after is not graph:
        raise PassError(f"The analysis {spec.name} changed the graph.", "Register it as a transform.")
    if graph.runs == "module" and set(after.nodes) != set(graph.nodes):
        text = "This model was recorded from a run, so its nodes cannot be added, removed or re-wired."
        raise PassError(text, "Give a model that torch.export can capture.")
    faults = [p for p in check(after) if p.severity == "error"] if after is not graph else []
    if faults:
        raise PassError(
            f"{spec.name} leaves an illegal graph: {faults[0].message}", "Correct the pass.", faults[0].node
        )
    return StepResult(after, report, time.perf_counter() - start)


def is_instant(step: Step) -> bool:
    """Whether a step needs neither torch nor a worker."""
    return step.pass_name in PASSES and PASSES.get(step.pass_name).instant


class Cancelled(JobError):
    """The user stopped the job."""
