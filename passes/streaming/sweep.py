"""One sweep over a model's segments: each is changed, measured and written before the next is read."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import xxhash

from espalier.model.document.project import APP, step_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.registry import PASSES
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, PassSpec, run_step
from espalier.passes.streaming.autoround import AutoroundStage
from espalier.passes.streaming.channel_scales import AwqStage, SmoothquantStage
from espalier.passes.streaming.choices import ChoiceStage
from espalier.passes.streaming.gptq import GptqStage
from espalier.passes.streaming.record import Record
from espalier.passes.streaming.score import ScoreStage
from espalier.passes.streaming.segments import Segment, parameter_bytes, segments_of
from espalier.passes.streaming.shard_writer import ShardWriter
from espalier.passes.streaming.stages import Stage, Work
from espalier.passes.streaming.states import Flow, States

if TYPE_CHECKING:
    from espalier.passes.running.splits import EvaluateOptions
    from espalier.passes.streaming.model import StreamedModel

STAGES: dict[str, Callable[[Graph, Any, Context], Stage]] = {
    "smoothquant": SmoothquantStage, "awq": AwqStage, "gptq": GptqStage,
    "autoround": AutoroundStage,
}  # fmt: skip
_LATE = ("awq", "gptq", "autoround")
BEFORE = {"awq": _LATE, "smoothquant": _LATE}  # which steps may not precede one


@dataclass(frozen=True, slots=True)
class Plan:
    """`stages` in order, the `segments` that fit them all, and the graph with all formats, without values.

    `before`, `after`: the stages among them that measure the model as opened and with the recipe.
    """

    stages: tuple[Stage, ...]
    segments: tuple[Segment, ...]
    formatted: Graph
    before: ScoreStage | None
    after: ScoreStage | None

    @property
    def largest(self) -> int:
        """Bytes of the parameters of the largest segment."""
        return max(parameter_bytes(s.nodes, self.formatted) for s in self.segments)


def planned(
    graph: Graph, recipe: Recipe, score: EvaluateOptions | None, context: Context, *, baseline: bool = True
) -> Plan:
    """The stages of the recipe, then of the score; raises PassError for a step that cannot be streamed.

    `baseline`: also measure the model as opened, in the same sweep.
    """
    stages: list[Stage] = []
    before = ScoreStage(graph, score, context, "score before") if score and baseline and recipe.active else None
    stages += [before] if before else []
    now, names = graph, list[str]()
    for step in recipe.active:
        spec: PassSpec = PASSES.get(step.pass_name)
        if wrong := [n for n in names if n in BEFORE.get(step.pass_name, ())]:
            raise PassError(f"{step.pass_name} after {wrong[0]} is not streamed.", f"Put {step.pass_name} before it.")
        if step.pass_name in STAGES:
            stages.append(STAGES[step.pass_name](now, step.options, replace(context, seed=step.seed)))
        elif spec.kind == "transform" and spec.instant:
            after = run_step(now, step, context).graph
            stages.append(ChoiceStage(now, after, spec.title))
            now = after
        else:
            allowed = ", ".join((*STAGES, *(n for n, s in PASSES.items() if s.kind == "transform" and s.instant)))
            raise PassError(f"{step.pass_name} is not streamed.", f"Use {allowed}, or run the recipe in memory.")
        names.append(step.pass_name)
    _check_formats(now)
    after_stage = ScoreStage(now, score, context, "score") if score else None
    stages += [after_stage] if after_stage else []
    bonds = [bond for stage in stages for bond in stage.bonds]
    return Plan(tuple(stages), tuple(segments_of(graph, bonds)), now, before, after_stage)


def _check_formats(graph: Graph) -> None:
    for node in graph:
        for port, chosen in node.precision.items():
            if chosen.format.stochastic:
                raise PassError(f"{node.id} {port} rounds at random ({chosen.label}), which is not streamed.",
                                "Choose a format without chance.", node.id)  # fmt: skip


def identity(
    model: StreamedModel, recipe: Recipe, score: EvaluateOptions | None, plan: Plan, *others: bool
) -> dict[str, str]:
    """What two runs must have in common so that one can go on where the other ended. `others`: further options."""
    import torch
    import transformers

    from espalier.model.document.codec import encode

    config = (model.shards.folder / "config.json").read_bytes()
    steps = [step_to_json(s) for s in recipe.active]
    text = json.dumps([steps, encode(score) if score else None, others], sort_keys=True)
    data = xxhash.xxh3_128()
    for stage in plan.stages:
        for inputs in stage.samples:
            for name, value in sorted(inputs.items()):
                data.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
                data.update(value.contiguous().numpy().tobytes())
    return {
        "source": f"{model.shards.fingerprint()} {xxhash.xxh3_128(config).hexdigest()}",
        "recipe": xxhash.xxh3_128(text.encode()).hexdigest(),
        "data": data.hexdigest(),
        "program": f"Espalier {APP}, torch {torch.__version__}, transformers {transformers.__version__}",
    }


@dataclass(slots=True)
class Sweep:
    """Runs a plan from the first segment that the record does not have. `whole`: the graph as far as it is done."""

    model: StreamedModel
    plan: Plan
    record: Record
    context: Context
    writer: ShardWriter | None = None
    whole: Graph = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.plan.formatted
        for index in range(self.record.done):
            self._merge(self.plan.segments[index], self.record.graph(index))
        if self.record.done:
            for stage, rows in zip(self.plan.stages, self.record.rows, strict=True):
                stage.rows = rows
        else:
            self.record.states = [[] for _ in self.plan.stages]

    def run(self) -> None:
        """Do all segments. Raises the errors of stages, ExportError and ProjectError; what is done stays."""
        segments, begun = self.plan.segments, time.monotonic()
        first = self.record.done
        for index in range(first, len(segments)):
            text = f"segment {index + 1} of {len(segments)}{_left(begun, index - first, len(segments) - index)}"
            self.context.progress(index, len(segments), text)
            self._segment(index)
        self.context.progress(len(segments), len(segments), "writing" if self.writer else "scoring")

    def _segment(self, index: int) -> None:
        from espalier.model.trace.weight_checks import non_finite

        segment, record = self.plan.segments[index], self.record
        store = WeightStore(record.folder)
        part = self.model.with_values(segment.part(self.model.graph), store)
        record.non_finite |= non_finite(part, store)
        states: list[list[States]] = []
        for number, stage in enumerate(self.plan.stages):
            self.context.progress(index, len(self.plan.segments), f"segment {index + 1}: {stage.title}")
            given = stage.begins(record.folder, number, index)
            old = record.states[number] or [None] * stage.count
            flows = [Flow(stage.samples, segment.before, s) for s in old]
            part = stage.run(Work(segment, part, store, flows, given))
            states.append([] if segment.after is None else given)
            gc.collect()  # a built module refers to itself
        if self.writer:
            record.written += self.writer.write(segment, part, store, index)
        record.keep_graph(index, part)
        self._merge(segment, part)
        record.states, record.rows = states, [s.rows for s in self.plan.stages]
        record.done = index + 1
        if segment.after is None:
            record.results = self._results()
        record.save()
        record.clear_states()
        store.close()
        del part, store
        gc.collect()

    def _merge(self, segment: Segment, part: Graph) -> None:
        nodes = {i: part.nodes[i] for i in segment.nodes}
        scales: dict[str, Weight] = {k: w for k, w in part.weights.items() if k not in self.whole.weights}
        self.whole = replace(self.whole, nodes={**self.whole.nodes, **nodes}, weights={**self.whole.weights, **scales})

    def _results(self) -> dict[str, Any]:
        plan = self.plan
        return {
            **({"before": plan.before.summary(self.model.graph)} if plan.before else {}),
            **({"after": plan.after.summary(self.whole)} if plan.after else {}),
        }


def _left(begun: float, done: int, more: int) -> str:
    """The estimated time for what is left, from the mean of the segments that were done in this run."""
    if not done:
        return ""
    seconds = (time.monotonic() - begun) / done * more
    return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
