"""What a pass is: a function (graph, options, context) → (graph, report), registered by name.

An analysis returns the same graph object; a transform returns a legal graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from espalier.model.document.codec import decode
from espalier.model.document.recipe import Raw, Step
from espalier.model.errors import JobError, PassError, nearest
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.model.sources.reading import PLAIN, Reading
from espalier.model.store.weights import WeightStore
from espalier.passes.declared import undeclared

if TYPE_CHECKING:
    from espalier.model.graph.graph import Graph
    from espalier.passes.base import Context

Row = dict[str, Any]
Progress = Callable[[int, int, str], None]
Metric = Callable[[str, int, float], None]


def _silent(done: int, total: int, text: str) -> None:
    """No progress wanted."""


def _unplotted(name: str, step: int, value: float) -> None:
    """No figures wanted."""


def _never() -> bool:
    return False


def _unheard(found: object) -> None:
    """Nobody waits for parts of the report."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass found or did: a table and a few figures."""

    pass_name: str
    rows: tuple[Row, ...] = ()
    summary: Row = field(default_factory=dict)  # type: ignore[assignment]


@dataclass(slots=True)
class Context:
    """What a pass may use besides the graph. `progress` also is where a cancelled job stops (JobError).

    `found` hands on a part of what an analysis finds, as a plain value, as soon as it is known. `metric`: a figure
    (name, step, value) of a long pass. `enough`: whether the user wants what a long pass has so far. `paused`: whether
    it is to wait, which `progress` then does. `base`: the graph before the recipe's first step. `reading`: how data are
    read for the model.
    """

    store: WeightStore
    seed: int = 0
    progress: Progress = _silent
    callables: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # type: ignore[assignment]
    reading: Reading = PLAIN
    found: Callable[[object], None] = _unheard
    metric: Metric = _unplotted
    enough: Callable[[], bool] = _never
    paused: Callable[[], bool] = _never
    base: Graph | None = None


@dataclass(frozen=True, slots=True)
class NoOptions:
    """A pass without options."""


Options = TypeVar("Options")
Run = Callable[[Graph, Any, Context], tuple[Graph, Report]]


@dataclass(frozen=True, slots=True)
class PassSpec:
    """A registered pass. `instant`: runs in the window's own process, without torch, in milliseconds.

    `lasting`: takes so long that a project keeps its result, and nothing but an edit before it runs it again.
    """

    name: str
    kind: Literal["analysis", "transform"]
    options: type
    run: Run
    title: str
    doc: str
    instant: bool
    lasting: bool = False


PassFunction = Callable[[Graph, Options, Context], tuple[Graph, Report]]


def _register(
    spec: Callable[[Run, str], PassSpec], replace: bool
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    def add(function: PassFunction[Options]) -> PassFunction[Options]:
        made = spec(cast("Run", function), (function.__doc__ or "").strip())
        PASSES.add(made.name, made, replace=replace)
        return function

    return add


def analysis(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False, replace: bool = False
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    """Register an analysis; `replace`: in the place of a pass of ours."""
    return _register(lambda run, doc: PassSpec(name, "analysis", options, run, title, doc, instant), replace)


def transform(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False, lasting: bool = False,
    replace: bool = False,
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:  # fmt: skip
    """Register a transform; `replace`: in the place of a pass of ours."""
    return _register(lambda run, doc: PassSpec(name, "transform", options, run, title, doc, instant, lasting), replace)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step gave."""

    graph: Graph
    report: Report
    seconds: float


def run_step(graph: Graph, step: Step, context: Context) -> StepResult:
    """Run one step and check what it leaves; raises PassError, OptionsError or what the pass raises."""
    if isinstance(step.options, Raw) and step.pass_name not in PASSES:
        hint = f"Load its plug-in, or switch the step off. {nearest(step.pass_name, PASSES)}"
        raise PassError(f"The pass {step.pass_name} is not available.", hint)
    spec: PassSpec = PASSES.get(step.pass_name)
    options = decode(spec.options, step.options.data) if isinstance(step.options, Raw) else step.options
    if not isinstance(options, spec.options):
        raise PassError(f"Step {step.pass_name} holds options of another kind.", "Remove the step and add it again.")
    start = time.perf_counter()
    context.seed = step.seed
    if getattr(options, "data", ""):
        ask_limits(context, graph)
    after, report = spec.run(graph, options, context)
    if spec.kind == "analysis" and after is not graph:
        raise PassError(f"The analysis {spec.name} changed the graph.", "Register it as a transform.")
    if graph.runs == "module" and set(after.nodes) != set(graph.nodes):
        text = "This model was recorded from a run, so its nodes cannot be added, removed or re-wired."
        raise PassError(text, "Give a model that torch.export can capture.")
    faults = [p for p in check(after, graph) if p.severity == "error"] if after is not graph else []
    if faults:
        raise PassError(
            f"{spec.name} leaves an illegal graph: {faults[0].message}", "Correct the pass.", faults[0].node
        )
    if after is not graph and (wrong := undeclared(after, graph, context.store)):
        text = f"{spec.name} stores {wrong.tensor} as {wrong.stored}; the graph declares {wrong.declared}."
        raise PassError(text, "Convert the tensor in the pass, or declare its new dtype and shape.", wrong.node)
    return StepResult(after, report, time.perf_counter() - start)


def is_instant(step: Step) -> bool:
    """Whether a step runs in the window's own process: its pass does, or does with these options."""
    if step.pass_name not in PASSES:
        return False
    return PASSES.get(step.pass_name).instant or only_writes(step)


def only_writes(step: Step) -> bool:
    """Whether a step only writes texts on nodes, so that the model computes the same with and without it."""
    return bool(getattr(step.options, "only_writes", False))


def is_lasting(name: str) -> bool:
    """Whether the result of the pass `name` is kept in projects."""
    return name in PASSES and PASSES.get(name).lasting


class Cancelled(JobError):
    """The user stopped the job."""


def ask_limits(context: Context, graph: Graph) -> None:
    """Ask the graph what it takes where its project does not say: files of before, packed models."""
    reading = context.reading
    if reading.limits is None:
        from espalier.model.data.class_names import model_names
        from espalier.model.sources.limits import limits_of

        classes = reading.classes or model_names(reading.tokenizer)
        context.reading = replace(reading, limits=limits_of(graph, context.store), classes=classes)
