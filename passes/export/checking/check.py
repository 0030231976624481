"""Runs a file and its baselines on the same samples: accuracy, difference of results, time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.data.base import ALL
from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.leftovers import scratch
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.export.alternating import alternated
from espalier.passes.export.checking.row import OWN, CheckRow
from espalier.passes.export.checking.target import TARGETS, Baseline, CheckOptions, Inputs, Runner, Target

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData

CALIBRATION = 128  # samples for the runtime's own quantiser


@dataclass(frozen=True, slots=True)
class Check:
    """What a check measured. The first row is Espalier's own module, the second the file."""

    runtime: str
    rows: tuple[CheckRow, ...]
    packed_bytes: int
    batch_size: int
    threads: int
    runs: int
    others: float | None = None

    def to_json(self) -> dict[str, Any]:
        """For reports and the command line."""
        return {**asdict(self), "rows": [r.to_json() for r in self.rows]}


def ready(form: str) -> None:
    """Raise ExportError for a form whose files no registered runtime checks, or whose runtime is not installed."""
    target = TARGETS.find(form)
    if target is None:
        raise ExportError(f"Files of the form {form} are not checked in a runtime.",
                          f"Export without the check, or as {', '.join(sorted(TARGETS))}.")  # fmt: skip
    if missing := target.missing():
        raise ExportError(f"The check needs {missing}, which is not installed.", f"Install it: pip install {missing}.")


def check_data(
    project: Project, store: WeightStore, options: CheckOptions, context: Context
) -> tuple[TaskData, Split] | None:
    """The data of a check and the measured split; None without data.

    Raises DataError where the model cannot take them; it runs on the first batch.
    """
    import torch

    from espalier.model.torch.build import build
    from espalier.passes.running.batches import batches, fit_error
    from espalier.passes.running.splits import choose_split, load_task

    if not options.data:
        return None
    data = load_task(options, context.reading, whole=options.split in ("", ALL))
    split = choose_split(data, options.split, options.limit)
    inputs, _ = next(batches(split, project.graph, options.batch_size))
    with torch.no_grad(), fit_error(inputs):
        build(project.graph, store, context.callables)(**inputs)
    return data, split


def check(
    project: Project, store: WeightStore, form: str, path: Path, options: CheckOptions, context: Context,
    loaded: tuple[TaskData, Split] | None,
) -> Check:  # fmt: skip
    """Measure an exported file on what `check_data` loaded; raises ExportError, DataError."""
    from espalier.kernels.bench.other_load import OtherLoad
    from espalier.passes.export.checking.scores import rows_of
    from espalier.passes.score import static_score

    ready(form)
    target, split = TARGETS.get(form), loaded[1] if loaded else None
    with scratch() as folder:
        context.progress(0, 4, "writing the baselines")
        calibration = _calibration(project, loaded, target, options, context)
        files = [Baseline(OWN, path), *target.baselines(project, store, folder, calibration)]
        runners = {f.name: target.opened(f.path, options.threads) for f in files if f.path is not None}
        inputs = _batch(project, split, target, options, context)
        context.progress(1, 4, "timing")
        load = OtherLoad()
        times = _times(target, [f.path for f in files if f.path is not None], runners, inputs, options)
        others = load.share()
        seconds = dict(zip(runners, times, strict=True))
        context.progress(2, 4, "measuring")
        rows = rows_of(project, store, split, files, runners, inputs, seconds, options, context, target.comparable)
        paths = {f.name: f.path for f in files if f.path is not None}
        peaks = {name: target.memory(path, options.threads, inputs) for name, path in paths.items()}
        sizes = {name: _size({path, target.beside(path)}) for name, path in paths.items()}
    rows = tuple(replace(r, bytes=sizes.get(r.name), peak_bytes=peaks.get(r.name)) for r in rows)
    size = static_score(project.graph).size_bytes
    return Check(target.name(), rows, size, options.batch_size, options.threads, options.runs, others)


def _times(
    target: Target, paths: Sequence[Path], runners: Mapping[str, Runner], inputs: Inputs, options: CheckOptions
) -> list[float]:
    if target.timed is not None:
        return target.timed(paths, options.threads, inputs, options.runs)
    return alternated([partial(r, inputs) for r in runners.values()], options.runs)


def _size(paths: set[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.exists())


def _batch(project: Project, split: Split | None, target: Target, options: CheckOptions, context: Context) -> Inputs:
    """The batch that is timed: the first of the data, or generated values."""
    from espalier.passes.running.batches import batches
    from espalier.passes.running.example import batch_sizes, example_inputs

    if split is not None:
        return next(batches(split, project.graph, options.batch_size))[0]
    made = example_inputs(project.graph, batch_sizes(project.graph, options.batch_size), context.seed)
    return target.runnable(made) if target.runnable else made


def _calibration(
    project: Project, loaded: tuple[TaskData, Split] | None, target: Target, options: CheckOptions, context: Context
) -> list[Inputs]:
    """Batches for a quantiser that needs some: of the training data where there are any, else of those given."""
    from espalier.passes.running.batches import batches
    from espalier.passes.running.splits import TRAIN, choose_split

    if loaded is None:
        return [_batch(project, None, target, options, context)]
    data, split = loaded
    source = choose_split(data, TRAIN, CALIBRATION) if TRAIN in data.splits else split.take(CALIBRATION)
    return [inputs for inputs, _ in batches(source, project.graph, options.batch_size)]
