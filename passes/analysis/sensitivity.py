"""Sensitivity of the outputs to every format at every port: predicted from one gradient pass, and measured."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import DataError, OptionsError, PassError, nearest
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.format_sqnr import usual_formats
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.choices.quantize import PORTS
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select, chosen
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.ports import FormatPort, decompose_attentions, expansion, expansion_name, format_ports
from espalier.passes.sensitivity.table import Predictions, Sensitivity
from espalier.passes.tasks.base import task_of

MIN_SAMPLES = 32  # for measuring sampled candidates; with time for fewer, none is measured
TIMED_SAMPLES = 8  # samples for an estimate of the duration
UNFINISHED = "unfinished"  # summary key of a run that ended early; the same run resumes
PART = 0.6  # duration of measuring a candidate, relative to a run of the model

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.passes.sensitivity.gradient_statistics import GradientStatistics
    from espalier.passes.sensitivity.measure import Baseline, Measured


@dataclass(frozen=True, slots=True)
class SensitivityOptions(EvaluateOptions):
    """Candidates, ports and data, and the number of measured candidates."""

    limit: int = field(default=256, metadata={"min": 0, "help": "samples for the gradients; 0 = all"})
    formats: tuple[Format, ...] = field(
        default=(), metadata={"help": "formats to try; empty: all at their usual widths"}
    )
    ports: tuple[str, ...] = field(
        default=(), metadata={"help": "ports, such as weight, data_in; empty: all that take formats"}
    )
    sparsities: tuple[float, ...] = field(
        default=(), metadata={"help": "sparsities of weights and layer inputs to try as well, such as 0.5"}
    )
    select: Select = field(default=Select(), metadata={"help": "which nodes"})
    measure: int = field(
        default=24, metadata={"min": 0, "help": "number of measurements that correct the predictions; 0: none"}
    )
    configurations: int = field(
        default=8,
        metadata={"min": 0, "help": "number of whole configurations measured, to correct joint effects"},
    )
    exact: bool = field(default=False, metadata={"help": "measure every candidate, one at a time"})
    seconds: float = field(
        default=0.0,
        metadata={"min": 0, "help": "time limit of the gradients, and of the measurements; the next run resumes; "
                  "0 = no limit"},
    )  # fmt: skip
    AGAINST_BASE: ClassVar[bool] = True  # the baseline has none of the chosen masks and formats

    def __post_init__(self) -> None:
        for port in self.ports:
            if port not in PORTS:
                raise OptionsError(f"ports: {port!r} is not a port.", nearest(port, PORTS))
        for share in self.sparsities:
            if not 0 < share <= 1:
                raise OptionsError(f"sparsities: {share:g} is not a share.", "Use numbers above 0, up to 1.")


@analysis("sensitivity", "Sensitivity", SensitivityOptions)
def sensitivity(graph: Graph, options: SensitivityOptions, context: Context) -> tuple[Graph, Report]:
    """Per layer, port and format: the predicted KL divergence of the outputs from the baseline's, nats a sample.

    The baseline is the graph of the gradients: the model as opened or, if steps changed its weights, the present
    weights in float; `baseline` names it.
    KL ≈ ½·E[(g·δ)²]: δ the error of the format, g the gradient of the outputs' own log-likelihood (Fisher information,
    labels drawn from the model, none of the data's). Some candidates are also measured and correct the others.
    """
    start = time.perf_counter()
    if not options.data:
        raise DataError("Sensitivities need data, and none are given.",
                        "Give demo:NAME, hub:NAME, a file or a folder; random inputs do not suffice.")  # fmt: skip
    try:
        work = _Work(graph, options, _ending(context))
        rows = work.rows()
    except _Enough:
        return graph, Report("sensitivity", (), {UNFINISHED: True})
    report = Report("sensitivity", work.lines(rows), work.summary(rows, start))
    return graph, report


class _Enough(Exception):
    """Another job has priority: the next run resumes from the checkpoint."""


def _ending(context: Context) -> Context:
    """A context whose progress also raises _Enough when the job is to end."""

    def progress(done: int, total: int, text: str) -> None:
        context.progress(done, total, text)
        if context.enough():
            raise _Enough

    return replace(context, progress=progress)


def gather(graph: Graph, options: SensitivityOptions, context: Context) -> bool:
    """Run only the gradient pass, within the time limit; returns whether its statistics are complete."""
    work = _Work(graph, options, context)
    return work.evidence.samples >= len(work.split)


def flat(row: Sensitivity) -> list[Row]:
    """A row of the report for each candidate."""
    return [
        {"node": row.node, "port": row.port, "candidate": c.label, "format": str(c.format) if c.format else None,
         "sparsity": c.sparsity, "predicted": kl if math.isfinite(kl) else None, "noise": noise, "measured": measured}
        for c, kl, noise, measured in zip(row.candidates, row.predicted, row.noise, row.measured, strict=True)
    ]  # fmt: skip


class _Work:
    def __init__(self, graph: Graph, options: SensitivityOptions, context: Context) -> None:
        from espalier.passes.running.splits import load_split

        self.options, self.context = options, context
        self.baseline_name = expansion_name(graph, context.base)
        self.base = expansion(graph, context.base)
        if any(w.key is None for w in self.base.weights.values()):
            raise PassError(
                "The model was opened without weights, so there is nothing to measure.", "Open it with weights."
            )
        split = load_split(replace(options, limit=0), context)
        count = min(options.limit or len(split), len(split))
        self.split, self.further = split.take(count), _further(split, count)
        self.run, self.parts = decompose_attentions(self.base)
        ids = {n.id for n in chosen(self.base, options.select, lambda n: n.call != "output", "analysed")}
        self.places = tuple(p for p in format_ports(self.base, self.run, self.parts)
                            if p.node in ids and (not options.ports or p.port in options.ports))  # fmt: skip
        if not self.places:
            raise PassError(
                "None of the selected nodes has a port that takes a format.", "Select others, or more ports."
            )
        begun = time.perf_counter()
        self.path, self.evidence = self._evidence()
        self.evidence_seconds, self.seconds = time.perf_counter() - begun, 0.0
        self.metrics: dict[tuple[int, int], float | None] = {}  # the task's main one
        self.baseline: Row = {}
        self.correction = self.whole = Correction()

    def _evidence(self) -> tuple[str, GradientStatistics]:
        """(path, statistics) of all ports, from the file of these weights and samples, or collected now.

        Resumes from a checkpoint; incomplete statistics have a separate file.
        """
        from espalier.model.document.graph_json import fingerprint
        from espalier.passes.sensitivity.checkpoint import GradientCheckpoint
        from espalier.passes.sensitivity.collect import collect
        from espalier.passes.sensitivity.gradient_statistics import PART, load, save, statistics_path

        name = fingerprint(self.run)
        batched = (self.options.batch_size,) if task_of(self.split).batched else ()
        key = self._key(self.split, self.context.seed, *batched)
        path, part = statistics_path(key), statistics_path(f"{key}{PART}")
        if path.is_file():
            return str(path), load(path)
        every, checkpoint = format_ports(self.base, self.run, self.parts), GradientCheckpoint(path)
        collected = collect(
            self.run, every, self.split, self.context, checkpoint, self.options.seconds, self.options.batch_size
        )
        complete = collected.samples >= len(self.split)
        save(replace(collected, reference=name), path if complete else part)
        if complete:
            checkpoint.remove()
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return str(path if complete else part), load(path if complete else part)

    def _key(self, split: Split, *more: Any) -> str:
        """Cache key of results with these weights on these samples."""
        from espalier.model.document.graph_json import fingerprint
        from espalier.passes.sensitivity.gradient_statistics import key_of

        return key_of(fingerprint(self.run), *more, *(v for kv in sorted(split.inputs.items()) for v in kv))

    def rows(self) -> list[Sensitivity]:
        """All rows; sent on as they are predicted, and again after measurement and correction."""
        from espalier.passes.sensitivity.full_table import rows_of_table

        formats = self.options.formats or usual_formats()
        rows: list[Sensitivity] = []
        begun = time.perf_counter()
        self.context.progress(0, len(self.places), "preparing the formats")  # the first row compiles their kernels
        stream = rows_of_table(
            self.evidence, self.places, self.run, self.context.store, formats, self.options.sparsities
        )
        for i, row in enumerate(stream):
            self.context.progress(i, len(self.places), f"{row.node} {row.port}")
            self.context.found(row)
            rows.append(row)
        self.seconds = time.perf_counter() - begun
        self.context.found(Predictions(self.path))
        return self._measured(rows)

    def _measured(self, rows: list[Sensitivity]) -> list[Sensitivity]:
        """Measure all candidates or a sample, and correct the predictions."""
        from espalier.passes.sensitivity import measured_candidates
        from espalier.passes.sensitivity.candidate_cache import CandidateCache

        count = self.options.measure
        cells = (
            measured_candidates.all_cells(rows)
            if self.options.exact
            else measured_candidates.sample_cells(rows, count, self.context.seed)
        )
        until = self._until()
        further = self._in_time(len(cells)) if cells else None
        if further is None:
            return rows
        known: dict[int, dict[int, float]] = {}
        main = task_of(further).main.name

        def on_result(cell: tuple[int, int], result: Measured) -> None:
            known.setdefault(cell[0], {})[cell[1]] = result.kl
            self.metrics[cell] = result.figures.get(main)
            row = rows[cell[0]]
            if self.options.exact and len(known[cell[0]]) == len(row.candidates):
                self.context.found(measured_candidates.with_measurements(row, known[cell[0]]))

        at = {(p.node, p.port): p for p in self.places}
        size = self.options.batch_size
        cache = CandidateCache(self._key(further, size, further.labels, further.task, further.table))
        before = sum(cache.get(rows[r].node, rows[r].port, rows[r].candidates[c]) is not None for r, c in cells)
        self.baseline = {"measured_before": before} if before else {}
        baseline = measured_candidates.measure_cells(
            rows, cells, at, self.run, further, size, self.context, on_result, cache, until
        )
        self.baseline |= {
            "measured_samples": baseline.samples,
            f"{main}_of_measured_samples": baseline.figures().get(main),
        }
        rows = [measured_candidates.with_measurements(row, known.get(i, {})) for i, row in enumerate(rows)]
        self.correction = measured_candidates.table_correction(rows)
        rows = [measured_candidates.corrected_row(row, self.correction) for row in rows]
        for row in rows:
            self.context.found(row)
        self.baseline |= measured_candidates.rank_agreement(rows)
        if time.perf_counter() <= until:
            self.whole = self._configurations(rows, at, baseline)
        return rows

    def _until(self) -> float:
        """End of measuring all candidates; sampled candidates instead use fewer data samples."""
        limited = self.options.exact and self.options.seconds
        return time.perf_counter() + self.options.seconds if limited else math.inf

    def _in_time(self, cells: int) -> Split | None:
        """The samples on which so many candidates can be measured in the time limit; None if too few.

        All samples if every candidate is measured: the next run resumes with the remaining candidates.
        """
        from espalier.passes.sensitivity.measure import Baseline

        if not self.options.seconds or self.options.exact:
            return self.further
        tried = self.further.take(TIMED_SAMPLES)
        begun = time.perf_counter()
        Baseline(self.run, tried, self.options.batch_size, self.context)
        each = (time.perf_counter() - begun) / max(len(tried), 1)
        room = int(self.options.seconds / (each * (1 + PART * cells)))
        if room >= len(self.further):
            return self.further
        return self.further.take(1 << (room.bit_length() - 1)) if room >= MIN_SAMPLES else None

    def _configurations(
        self, rows: list[Sensitivity], at: dict[tuple[str, str], FormatPort], baseline: Baseline
    ) -> Correction:
        """Fit a correction to measured configurations."""
        from espalier.passes.sensitivity import measured_candidates
        from espalier.passes.sensitivity.correction import fit_correction

        columns = len(self.options.formats or usual_formats())
        mixed = measured_candidates.sample_configurations(rows, self.options.configurations, self.context.seed, columns)
        pairs = measured_candidates.measure_configurations(rows, mixed, at, baseline, self.context)
        return fit_correction([(p, 0.0, m) for p, m in pairs])

    def lines(self, rows: list[Sensitivity]) -> tuple[Row, ...]:
        """A row of the report for each candidate, with the task's main metric if all are measured."""
        lines = [line for row in rows for line in flat(row)]
        if self.options.exact:
            cells = [(r, c) for r, row in enumerate(rows) for c in range(len(row.candidates))]
            main = task_of(self.further).main.name
            lines = [{**line, main: self.metrics.get(cell)} for line, cell in zip(lines, cells, strict=True)]
        return tuple(lines)

    def summary(self, rows: list[Sensitivity], start: float) -> Row:
        """Units, data, file of the statistics, and durations."""
        from espalier.passes.running.data_fit import text_facts
        from espalier.passes.running.splits import length_of

        tried = sum(len(r.candidates) for r in rows)
        fixed = self.correction
        told = {"error_factor": fixed.factor, "error_factor_before": fixed.before} if fixed.count else {}
        if self.whole.count:
            told |= {"configurations": self.whole.count, "configuration_factor": self.whole.factor,
                     "configuration_factor_before": self.whole.before}  # fmt: skip
        if self.evidence.samples < len(self.split):
            told["of_samples"] = len(self.split)
        read = {"split": self.split.name,
                **text_facts(self.split, length_of(self.options, self.context))}  # fmt: skip
        return {"divergence": self.evidence.words, "baseline": self.baseline_name, "places": len(rows), "tried": tried,
                **read, "samples": min(self.evidence.samples, len(self.split)), **self.baseline, **told,
                "correction": [fixed.level, fixed.steep, fixed.loud],
                "configuration_correction": [self.whole.level, self.whole.steep], "evidence": self.path,
                "evidence_seconds": round(self.evidence_seconds, 3), "table_seconds": round(self.seconds, 3),
                "seconds": round(time.perf_counter() - start, 3)}  # fmt: skip


def _further(split: Split, count: int) -> Split:
    """As many samples outside the gradient pass, if there are enough; otherwise the same ones."""
    left = len(split) - count
    return split.rows(slice(count, min(len(split), 2 * count))) if left >= min(count, 32) else split.take(count)


def gradient_ports(graph: Graph, base: Graph | None) -> tuple[Graph, Graph, tuple[FormatPort, ...]]:
    """(graph of the gradients, the same with decomposed attentions, its ports), as predictions need them."""
    bare = expansion(graph, base)
    run, parts = decompose_attentions(bare)
    return bare, run, format_ports(bare, run, parts)
