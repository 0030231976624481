"""Scores a folder's model, or runs a recipe on it and writes the result, with one segment in memory at a time."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, ExportError, OptionsError
from espalier.model.files import explained, make_folder, sync_folder
from espalier.model.leftovers import scratch
from espalier.passes.base import Context, Progress, Row
from espalier.passes.export.mixed_folders import check_for_model
from espalier.passes.streaming.model import StreamedModel, open_streamed
from espalier.passes.streaming.record import NAME, Record, alone_in, open_record
from espalier.passes.streaming.shard_writer import ShardWriter
from espalier.passes.streaming.sweep import Sweep, identity, planned

if TYPE_CHECKING:
    from espalier.passes.running.splits import EvaluateOptions

UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a job writes and measures.

    `output`: the compressed-tensors folder to write. `work`: the working folder; by default beside the output, without
    one a temporary folder, from which no later run goes on. `score`: the data to measure on. `baseline`: also measure
    the model as opened. `leave_float`: keep in float what compressed-tensors cannot hold.
    """

    output: Path | None = None
    work: Path | None = None
    score: EvaluateOptions | None = None
    baseline: bool = True
    leave_float: bool = False


@dataclass(frozen=True, slots=True)
class Streamed:
    """The result of a job.

    `before`, `after`: scores as of the analysis `evaluate`; None where they were not measured. `steps`: name of a stage
    and its rows. `files`, `tensors`: what was written. `largest`: bytes of the parameters of the largest of `segments`;
    `total`: of all. `resumed`: segments that an earlier run had done.
    """

    before: dict[str, Any] | None
    after: dict[str, Any] | None
    steps: tuple[tuple[str, tuple[Row, ...]], ...]
    files: tuple[Path, ...]
    tensors: tuple[Row, ...]
    notes: tuple[str, ...]
    segments: int
    resumed: int
    largest: int
    total: int
    seconds: float


def _quiet(done: int, total: int, text: str) -> None:
    """Ignore progress."""


def stream(spec: str, recipe: Recipe, options: StreamOptions, progress: Progress = _quiet, **reading: Any) -> Streamed:
    """Run a recipe on the model of a Hugging Face folder, segment by segment, and measure and write the result.

    The results equal those of the passes and the export of the model in memory. A job that was ended goes on from its
    last finished segment. `reading`: tokenizer and columns of the data, as `SourceInfo` has them. Raises OptionsError
    where there is nothing to do, SourceError, PassError, DataError and ExportError before the first segment;
    ExportError and ProjectError where the disk is full or the working folder is another job's.
    """
    if options.output is None and options.score is None:
        raise OptionsError("There is nothing to do.", "Give data to measure on, or a folder to write.")
    begun = time.monotonic()
    with scratch() as folder:
        progress(0, 0, f"opening {spec}")
        model = open_streamed(spec, folder)
        model = replace(model, project=replace(model.project, source=model.project.source.taking(**reading)))
        work = options.work or (_beside(options.output) if options.output else folder / "work")
        with alone_in(work):
            try:
                return _run(model, recipe, options, work, progress, begun)
            except EspalierError as error:
                if (work / NAME).exists() and work.parent != folder:
                    error.hint = f"{error.hint} What is done is kept in {work}: repeat the command to go on.".strip()
                raise


def _beside(output: Path) -> Path:
    return output.with_name(output.name + UNFINISHED)


def _run(
    model: StreamedModel, recipe: Recipe, options: StreamOptions, work: Path, progress: Progress, begun: float
) -> Streamed:
    context = Context(model.store, 0, progress, reading=model.project.source.reading, base=model.graph,
                      source=model.project.source)  # fmt: skip
    plan = planned(model.graph, recipe, options.score, context, baseline=options.baseline)
    if options.output:
        _check_output(options.output)
    others = options.output is not None, options.leave_float, options.baseline
    record = open_record(work, identity(model, recipe, options.score, plan, *others))
    writer = None
    if options.output:
        writer = ShardWriter(model, plan.formatted, record.shards, len(plan.segments), leave_float=options.leave_float)
    resumed = record.done
    sweep = Sweep(model, plan, record, context, writer)
    sweep.run()
    files: tuple[Path, ...] = ()
    if options.output and writer:
        writer.finish()
        files = _placed(record, options.output)
    record.remove()
    return _result(sweep, files, resumed, time.monotonic() - begun)


def _check_output(output: Path) -> None:
    """Raise ExportError for an output that exists."""
    check_for_model(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ExportError(f"{output} exists already.", "Choose another folder, or delete it.")
    make_folder(output.parent, ExportError)


def _placed(record: Record, output: Path) -> tuple[Path, ...]:
    """Move the finished folder to its place; returns its files."""
    with explained(output, ExportError):
        if output.exists():
            output.rmdir()
        os.replace(record.shards, output)
        sync_folder(output.parent)
    return tuple(sorted(output.iterdir()))


def _result(sweep: Sweep, files: tuple[Path, ...], resumed: int, seconds: float) -> Streamed:
    from espalier.model.trace.weight_checks import weight_warning

    plan, record, weights = sweep.plan, sweep.record, sweep.model.graph.weights
    return Streamed(
        before=record.results.get("before"),
        after=record.results.get("after"),
        steps=tuple((s.title, tuple(s.rows)) for s in plan.stages if s.rows),
        files=files,
        tensors=tuple(record.written),
        notes=(*(sweep.writer.notes if sweep.writer else ()), *weight_warning(record.non_finite)),
        segments=len(plan.segments),
        resumed=resumed,
        largest=plan.largest,
        total=sweep.model.bytes_of(weights),
        seconds=seconds,
    )
