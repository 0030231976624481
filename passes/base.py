"""The interface of passes: functions (graph, options, context) → (graph, report), registered by name.

An analysis returns the same graph object; a transform returns a valid graph.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
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
    from espalier.model.sources.info import SourceInfo
    from espalier.passes.base import Context

Row = dict[str, Any]
Progress = Callable[[int, int, str], None]
Metric = Callable[[str, int, float], None]


def _no_progress(done: int, total: int, text: str) -> None:
    """Ignore progress."""


def _no_metric(name: str, step: int, value: float) -> None:
    """Ignore metrics."""


def _false() -> bool:
    return False


def _no_parts(part: object) -> None:
    """Ignore parts of the report."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a pass: a table and a few totals."""

    pass_name: str
    rows: tuple[Row, ...] = ()
    summary: Row = field(default_factory=dict)  # type: ignore[assignment]


@dataclass(slots=True)
class Context:
    """The environment of a pass. `progress` reports (done, total, text) and raises JobError in a cancelled job.

    `found` sends a part of an analysis's result, as a plain value, as soon as it is available. `metric` reports
    (name, step, value) of a long pass. `enough`: whether to stop and return the result so far. `paused`: whether the
    job is to pause; `progress` then waits. `base`: the graph before the recipe's first step. `reading`: how data are
    read for the model. `source`: what can be opened again for functions that a graph cannot store.
    """

    store: WeightStore
    seed: int = 0
    progress: Progress = _no_progress
    callables: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # type: ignore[assignment]
    reading: Reading = PLAIN
    found: Callable[[object], None] = _no_parts
    metric: Metric = _no_metric
    enough: Callable[[], bool] = _false
    paused: Callable[[], bool] = _false
    base: Graph | None = None
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class NoOptions:
    """A pass without options."""


Options = TypeVar("Options")
Run = Callable[[Graph, Any, Context], tuple[Graph, Report]]


@dataclass(frozen=True, slots=True)
class PassSpec:
    """A registered pass. `instant`: runs in the window's own process, without torch, in milliseconds.

    `lasting`: takes so long that projects store its result; only an edit of an earlier step runs it again. `timed`: it
    measures times, so that no other job may run beside it.
    """

    name: str
    kind: Literal["analysis", "transform"]
    options: type
    run: Run
    title: str
    doc: str
    instant: bool
    lasting: bool = False
    timed: bool = False


PassFunction = Callable[[Graph, Options, Context], tuple[Graph, Report]]


def _register(
    spec: Callable[[Run, str], PassSpec], replace: bool
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:
    def add(function: PassFunction[Options]) -> PassFunction[Options]:
        pass_spec = spec(cast("Run", function), (function.__doc__ or "").strip())
        PASSES.add(pass_spec.name, pass_spec, replace=replace)
        return function

    return add


def analysis(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False, timed: bool = False,
    replace: bool = False,
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:  # fmt: skip
    """Register an analysis. `replace`: allow to replace a built-in pass."""
    spec = partial(PassSpec, name, "analysis", options, title=title, instant=instant, timed=timed)
    return _register(lambda run, doc: spec(run=run, doc=doc), replace)


def transform(
    name: str, title: str, options: type = NoOptions, *, instant: bool = False, lasting: bool = False,
    replace: bool = False,
) -> Callable[[PassFunction[Options]], PassFunction[Options]]:  # fmt: skip
    """Register a transform. `replace`: allow to replace a built-in pass."""
    return _register(lambda run, doc: PassSpec(name, "transform", options, run, title, doc, instant, lasting), replace)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step; `seconds`: run time."""

    graph: Graph
    report: Report
    seconds: float


def run_step(graph: Graph, step: Step, context: Context) -> StepResult:
    """Run a step and check its result. Raises PassError, OptionsError or the errors of the pass."""
    if isinstance(step.options, Raw) and step.pass_name not in PASSES:
        hint = f"Load its plug-in or switch the step off. {nearest(step.pass_name, PASSES)}"
        raise PassError(f"The pass {step.pass_name} is not available.", hint)
    spec: PassSpec = PASSES.get(step.pass_name)
    options = decode(spec.options, step.options.data) if isinstance(step.options, Raw) else step.options
    if not isinstance(options, spec.options):
        raise PassError(f"Step {step.pass_name} has options of another pass.", "Remove the step and add it again.")
    start = time.perf_counter()
    context.seed = step.seed
    if getattr(options, "data", ""):
        fill_limits(context, graph)
    after, report = _returned(spec.name, spec.run(graph, options, context))
    if spec.kind == "analysis" and after is not graph:
        raise PassError(f"The analysis {spec.name} changed the graph.", "Register it as a transform.")
    if graph.runs == "module" and set(after.nodes) != set(graph.nodes):
        text = "This model was recorded from a run, so its nodes cannot be added, removed or rewired."
        raise PassError(text, "Use a model that torch.export can capture.")
    errors = [p for p in check(after, graph) if p.severity == "error"] if after is not graph else []
    if errors:
        raise PassError(
            f"{spec.name} returned an invalid graph: {errors[0].message}", "Correct the pass.", errors[0].node
        )
    if after is not graph and (wrong := undeclared(after, graph, context.store)):
        text = f"{spec.name} stores {wrong.tensor} as {wrong.stored}; the graph declares {wrong.declared}."
        raise PassError(text, "Convert the tensor in the pass, or declare its new dtype and shape.", wrong.node)
    return StepResult(after, report, time.perf_counter() - start)


def _returned(name: str, found: object) -> tuple[Graph, Report]:
    """What a pass returned, which a plug-in may have made wrongly."""
    match found:
        case (Graph() as graph, Report(rows=tuple(), summary=dict()) as report):
            rows = cast("tuple[object, ...]", report.rows)
            if all(isinstance(row, dict) for row in rows):
                return graph, report
            what = "a report whose rows are no dicts"
        case (Graph(), Report()):
            what = "a report with other rows or another summary"
        case _:
            what = f"a {type(found).__name__}"
    hint = f'Return (graph, Report("{name}", rows, summary)): rows is a tuple of dicts, summary a dict.'
    raise PassError(f"The pass {name} returned {what}.", hint)


def is_instant(step: Step) -> bool:
    """Whether a step runs in the window's own process: always for its pass, or with these options."""
    if step.pass_name not in PASSES:
        return False
    return PASSES.get(step.pass_name).instant or only_writes(step)


def only_writes(step: Step) -> bool:
    """Whether a step only changes annotations of nodes, so that it does not affect the model's results."""
    return bool(getattr(step.options, "only_writes", False))


def is_timed(name: str) -> bool:
    """Whether the pass `name` measures times."""
    return name in PASSES and PASSES.get(name).timed


def is_lasting(name: str) -> bool:
    """Whether projects store the result of the pass `name`."""
    return name in PASSES and PASSES.get(name).lasting


class Cancelled(JobError):
    """The user stopped the job."""


def fill_limits(context: Context, graph: Graph) -> None:
    """Set the limits of data from the graph if the project does not store them (old project files, packed models)."""
    reading = context.reading
    if reading.limits is None:
        from espalier.model.data.class_names import model_names
        from espalier.model.sources.limits import limits_of

        classes = reading.classes or model_names(reading.tokenizer)
        context.reading = replace(reading, limits=limits_of(graph, context.store), classes=classes)
