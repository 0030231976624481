"""The worker process: imports torch once and caches models and data between jobs."""

from __future__ import annotations

import importlib
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from espalier.model.document.project import keys_of, save_project
from espalier.model.errors import JobError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, is_project, needs_source, open_any, reopen
from espalier.model.registry import Registry
from espalier.model.sources.info import SourceInfo
from espalier.model.sources.torchao import quiet_import
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, is_instant, run_step
from espalier.passes.jobs.heap import give_back, keep_freed_memory
from espalier.passes.jobs.kept_tracebacks import drop_tracebacks
from espalier.passes.jobs.kernel import AnswerJob, KernelsJob, LabJob
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    ExportJob,
    Locations,
    OpenJob,
    OpenResult,
    PartialResult,
    PluginJob,
    ReplayJob,
    ReplayResult,
    SearchJob,
    SweepJob,
    TrialJob,
)  # fmt: skip
from espalier.passes.jobs.openmp import yield_processors
from espalier.passes.jobs.serving import Channel, serve
from espalier.passes.plugins.plugins import portable, reload_plugins
from espalier.passes.recipes.offered import PluginState
from espalier.passes.recipes.replay import Memo, replay
from espalier.passes.recipes.set_up import check_set_up, options_of
from espalier.passes.score import Scorer
from espalier.passes.sweep.run import run
from espalier.passes.training.checkpoint_folders import note_finished, until_saved

_Source = tuple[str, tuple[str, ...], int]  # spec, inputs, seed


@dataclass(slots=True)
class _State:
    """Caches between jobs: stores by working folder, replays by base, functions of opaque nodes by source."""

    stores: dict[Path, WeightStore] = field(default_factory=dict)  # type: ignore[assignment]
    memos: OrderedDict[str, Memo] = field(default_factory=OrderedDict)  # type: ignore[assignment]
    opened: OrderedDict[_Source, dict[str, Any]] = field(default_factory=OrderedDict)  # type: ignore[assignment]


_STATE = _State()
HANDLERS: Registry[type, Callable[[Any, Channel], Any]] = Registry("kind of job", JobError)
DIVERGENCE = "espalier.passes.analysis.divergence"  # its baselines hold the files of their document
LONG = 1.0  # seconds of a job, from which free memory is returned


def main(pipe: Connection) -> None:
    """Entry point of the spawned process: import the libraries, then serve."""
    keep_freed_memory()
    yield_processors()
    quiet_import()
    for name in ("torch", "torch.export", "transformers"):
        importlib.import_module(name)
    serve(pipe, _handle_and_clean)


def _drop_closed() -> None:
    """Drop the caches of closed documents, whose working folder is deleted."""
    closed = [f for f in _STATE.stores if not f.exists()]
    for folder in closed:
        del _STATE.stores[folder]
        _STATE.memos.pop(f"{folder}", None)
    if closed and (divergence := sys.modules.get(DIVERGENCE)):
        divergence.forget()


def _handle_and_clean(job: Any, channel: Channel) -> Any:
    """Run a job; after a long one return free memory to the system, which takes milliseconds."""
    begin = time.monotonic()
    _drop_closed()
    try:
        result = handle(job, channel)
        drop_tracebacks()
        return result
    finally:
        if time.monotonic() - begin > LONG:
            give_back()


def handle(job: Any, channel: Channel) -> Any:
    """Run a job by the handler of its type."""
    return HANDLERS[type(job)](job, channel)


def _store(workdir: Path, locations: Locations | None = None) -> WeightStore:
    store = _STATE.stores.setdefault(workdir, WeightStore(workdir))
    store.add(locations or {})
    return store


def _flush(store: WeightStore) -> Locations:
    return store.flush(f"tensors-{secrets.token_hex(8)}")  # other workers write into the same folder


@HANDLERS.register(OpenJob)
def _open(job: OpenJob, channel: Channel) -> OpenResult:
    channel.progress(0, 0, f"opening {job.spec}")
    version = Version.of(Path(job.spec)) if is_project(job.spec) else None
    opened = open_any(job.spec, job.workdir, job.inputs, job.seed, origin=job.origin)
    _STATE.stores[job.workdir] = opened.store
    if opened.callables:  # projects store none: their source is opened to run them
        _cache_callables(opened)
    channel.progress(0, 0, "storing the weights")
    _flush(opened.store)
    locations = opened.store.locate(keys_of(*opened.project.graphs))
    seconds = opened.capture.seconds if opened.capture else {}
    project = replace(opened.project, recipe=portable(opened.project.recipe))
    scorer, graphs = Scorer(), (project.base, *([project.graph] if project.graph is not project.base else []))
    scores = tuple((graph, scorer.score(graph)) for graph in graphs)
    return OpenResult(project, locations, opened.problems, seconds, scorer, scores, version)


def _cache_callables(opened: Opened) -> None:
    _STATE.opened[_key(opened.project.source)] = opened.callables
    while len(_STATE.opened) > 4:
        _STATE.opened.popitem(last=False)


def _key(source: SourceInfo) -> _Source:
    return source.spec, source.inputs, source.seed


def _callables(graph: Graph, source: SourceInfo, workdir: Path) -> dict[str, Any]:
    """The functions of opaque nodes; the source of a project is opened once to get them."""
    if not needs_source(graph):
        return {}
    key = _key(source)
    if key not in _STATE.opened:
        opened = reopen(source.spec, workdir, source.inputs, source.seed)
        _cache_callables(replace(opened, project=replace(opened.project, source=source)))
    return _STATE.opened[key]


def _context(
    store: WeightStore, source: SourceInfo, callables: Mapping[str, Callable[..., Any]], channel: Channel
) -> Context:
    return Context(store, progress=channel.progress, callables=callables, reading=source.reading,
                   enough=channel.enough, paused=channel.paused, source=source)  # fmt: skip


@HANDLERS.register(ReplayJob)
def _replay(job: ReplayJob, channel: Channel) -> ReplayResult:
    store = _store(job.workdir, job.locations)
    memo = _STATE.memos.setdefault(f"{job.workdir}", Memo())
    callables = _callables(job.base, job.source, job.workdir)
    context = replace(_context(store, job.source, callables, channel), metric=channel.metric)
    if job.cached:
        steps = job.recipe.active[: job.cached[0]]
        memo.remember(steps, job.cached[1])
    todo = job.recipe.active[job.cached[0] if job.cached else 0 :]
    if len(todo) > 1:  # a single step checks its set-up itself
        check_set_up(options_of(todo), job.base, context)
    with until_saved() as trained:
        result = replay(job.base, job.recipe, context, memo)
        _flush(store)
    for folder in trained:
        note_finished(job.workdir, folder, time.monotonic())
    graphs = [result.graph, *(r.graph for r in result.results if r)]
    return ReplayResult(result.graph, result.results, store.locate(keys_of(*graphs)))


@HANDLERS.register(AnalyseJob)
def _analyse(job: AnalyseJob, channel: Channel) -> Any:
    store = _store(job.workdir, job.locations)
    callables = {} if is_instant(job.step) else _callables(job.graph, job.source, job.workdir)
    context = _context(store, job.source, callables, channel)
    context = replace(context, found=lambda part: channel.send(PartialResult(part)), base=job.base)
    return run_step(job.graph, job.step, context).report


@HANDLERS.register(SweepJob)
def _sweep(job: SweepJob, channel: Channel) -> int:
    """Run the points and send each outcome; returns their number."""
    store = _store(job.workdir, job.locations)
    memo = _STATE.memos.setdefault(f"{job.workdir}", Memo())
    for steps, graph in job.graphs:
        memo.remember(steps, graph)
    callables = _callables(job.base, job.source, job.workdir)
    context = _context(store, job.source, callables, channel)
    count = 0
    for outcome in run(job.sweep, job.base, context, memo, job.outcomes):
        _flush(store)
        channel.send(PartialResult(outcome))
        count += 1
    return count


@HANDLERS.register(SearchJob)
def _search(job: SearchJob, channel: Channel) -> str:
    from espalier.passes.jobs.search import serve_search

    store, memo = _store(job.workdir, job.locations), _STATE.memos.setdefault(f"{job.workdir}", Memo())
    callables = _callables(job.search.base, job.source, job.workdir)
    context = _context(store, job.source, callables, channel)
    return serve_search(job, context, memo, lambda trial: channel.send(PartialResult(trial)), lambda: _flush(store))


@HANDLERS.register(TrialJob)
def _trial(job: TrialJob, channel: Channel) -> Path:
    from espalier.passes.search.architecture.trial_project import chosen

    store = _store(job.workdir, job.locations)
    callables = _callables(job.search.base, job.source, job.workdir)
    context = _context(store, job.source, callables, channel)
    project = chosen(job.search, job.space, job.params, context, job.begins)
    save_project(project, store, job.path, everything=True)
    return job.path


@HANDLERS.register(ExportJob)
def _export(job: ExportJob, channel: Channel) -> Any:
    from espalier.passes.export import checked_export, export
    from espalier.passes.export.settings import Settings

    store = _store(job.workdir, job.locations)
    channel.progress(0, 0, f"exporting to {job.path.name}")
    what = job.project, store, job.form, job.path, Settings(job.leave_float, channel.progress, job.onnx)
    if job.check is None:
        return export(*what)
    source = job.project.source
    callables = _callables(job.project.graph, source, job.workdir)
    return checked_export(*what, job.check, _context(store, source, callables, channel))


@HANDLERS.register(PluginJob)
def _plugins(job: PluginJob, channel: Channel) -> tuple[PluginState, ...]:
    channel.progress(0, 0, "loading plug-ins")
    _STATE.memos.clear()  # computed by the old code
    return reload_plugins(job.places)


@HANDLERS.register(LabJob)
def _lab(job: LabJob, channel: Channel) -> Any:
    from espalier.kernels.bench.catalogue import lab

    channel.progress(0, 0, "listing the kernels")
    return lab()


@HANDLERS.register(KernelsJob)
def _kernels(job: KernelsJob, channel: Channel) -> int:
    from espalier.kernels.bench.run import results_of, run_part

    if not job.first:
        channel.send(PartialResult(results_of(job.request, ())))
    return run_part(
        job.request, channel.progress, lambda part: channel.send(PartialResult(part)), job.first, job.limits,
        channel.enough,
    )  # fmt: skip


@HANDLERS.register(AnswerJob)
def _answer(job: AnswerJob, channel: Channel) -> None:
    from espalier.kernels.bench.answers.measure import measure

    measure(job.question, job.device, channel.progress, lambda part: channel.send(PartialResult(part)))
