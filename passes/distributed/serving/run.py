"""Serves a sharded model by ranks on this machine under a load, beside one process that gets the same load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espalier.model.errors import JobError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.leftovers import scratch
from espalier.passes.base import Context
from espalier.passes.distributed.job import Settings, Source, write_job
from espalier.passes.distributed.launch import environment, launch
from espalier.passes.distributed.rank import SERVED
from espalier.passes.distributed.run import RunOptions, batches_of, mesh_of, settings_of
from espalier.passes.distributed.serving.answers import Answers, answered
from espalier.passes.distributed.serving.load import MOST, Load, Samples
from espalier.passes.sharding.mesh import Mesh

DISTINCT = 64  # samples without a limit


@dataclass(frozen=True, slots=True)
class ServeOptions(RunOptions):
    """Data and load of a served model, and what happens when a rank ends."""

    request_rate: float = field(
        default=0.0,
        metadata={"min": 0, "max": 1e6, "help": "requests per second, at random intervals (Poisson); without it, "
                  "--batch-size clients, each of which waits for its answer"},
    )  # fmt: skip
    seconds: float = field(default=10.0, metadata={"min": 0.1, "max": 86400, "help": "how long requests are sent"})
    requests: int = field(default=0, metadata={"min": 0, "max": MOST, "help": "their number, instead of --seconds"})
    max_restarts: int = field(
        default=0, metadata={"min": 0, "max": 100, "help": "how often torchrun restarts the ranks after a failure"}
    )
    kill_rank: int = field(default=-1, metadata={"min": -1, "help": "kill this rank by SIGKILL, to see what happens"})
    after: float = field(default=2.0, metadata={"min": 0, "max": 86400, "help": "seconds until --kill-rank"})


def serve_sharded(
    graph: Graph, options: ServeOptions, context: Context, source: Source | None = None
) -> dict[str, Any]:
    """Answer requests by one process per device of the graph's mesh, then by one process, and compare them.

    Raises PassError for a graph without shardings, JobError for ranks that fail, OptionsError, DataError.
    """
    from espalier.passes.distributed.serving.report import report_of

    settings = settings_of(graph, options, context, source)
    number = options.limit or min(DISTINCT, options.requests or DISTINCT)
    batch = batches_of(graph, replace(options, batch_size=number, limit=number), context)[0]
    samples = Samples(graph, batch.inputs)
    settings = replace(settings, load=_load(options, samples, context.seed, mesh_of(graph).devices))
    with scratch() as folder:
        write_job(folder, graph, context.store, [replace(batch, labels=None)], settings)
        reports = _by_ranks(folder, settings, options, context)
        served = Answers(folder / SERVED)
        single, difference = _by_one(graph, settings, samples, served, folder / "single", context)
    return report_of(settings, served, single, difference, reports)


def _load(options: ServeOptions, samples: Samples, seed: int, ranks: int) -> Load:
    if options.request_rate * options.seconds > MOST and not options.requests:
        text = f"{options.request_rate:g} requests per second for {options.seconds:g} s are more than a million."
        raise OptionsError(text, "Lower --request-rate or --seconds.")
    if options.kill_rank >= ranks:
        raise OptionsError(f"There is no rank {options.kill_rank}.", f"--kill-rank is 0 to {ranks - 1}.")
    size = min(options.batch_size, samples.fixed) if samples.fixed else options.batch_size
    load = Load(size, options.request_rate, options.seconds, options.requests, seed, options.kill_rank, options.after)
    if load.rate and not load.arrivals():
        text = f"No request arrives in {load.seconds:g} s at a rate of {load.rate:g} per second."
        raise OptionsError(text, "Raise --seconds or --request-rate.")
    return load


def _by_ranks(folder: Path, settings: Settings, options: ServeOptions, context: Context) -> list[dict[str, Any]]:
    """The reports of ranks that have answered all requests."""
    load, ranks = settings.load, Mesh(settings.mesh).devices
    assert load is not None
    total = load.requests or len(load.arrivals())

    def follow() -> None:
        context.progress(answered(folder / SERVED), total, f"requests answered by {ranks} ranks")

    given = environment(settings.threads, settings.source)
    try:
        return launch(ranks, folder, given, context, restarts=options.max_restarts, follow=follow)
    except JobError as error:
        text = f"{error.message.rstrip('.')}; {answered(folder / SERVED)} requests were answered."
        raise JobError(text, _hint(error, options)) from error


def _hint(error: JobError, options: ServeOptions) -> str:
    if options.max_restarts or not error.message.startswith("Rank "):
        return error.hint
    if options.kill_rank >= 0 and error.message.startswith(f"Rank {options.kill_rank} ") and "SIGKILL" in error.message:
        return "This is what --kill-rank does; --max-restarts 1 would start the ranks again."
    return f"{error.hint} --max-restarts starts the ranks again after a failure."


def _by_one(
    graph: Graph, settings: Settings, samples: Samples, served: Answers, folder: Path, context: Context
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What one process answers under the same load, and how its results for the batches of the ranks differ."""
    from espalier.model.torch.build import build, parameters_of
    from espalier.model.torch.threads import torch_threads
    from espalier.passes.distributed.distribute import parts_bytes
    from espalier.passes.distributed.serving.loop import Queue, serve, warm_up

    load, device = settings.load, settings.device
    assert load is not None
    answers = Answers(folder)
    arrivals = load.arrivals()

    def progress(count: int, inputs: object) -> None:
        context.progress(answers.answered, load.requests or len(arrivals), "requests answered by one process")

    with torch_threads(settings.threads):
        module: Any = build(graph, context.store, context.callables)
        module.to(device)
        warm_up(load, samples, module, device)
        answers.start()
        serve(Queue(load, answers, arrivals), samples, module, device, progress)
        padded = Samples(graph, samples.inputs, load.batch_size)
        difference = _difference(served, padded, module, device, context)
    return {"answers": answers, "stored_bytes": parts_bytes(parameters_of(module))}, difference


def _difference(
    served: Answers, samples: Samples, model: Callable[..., Any], device: str, context: Context
) -> dict[str, Any]:  # fmt: skip
    """The largest difference of kept results from those of one process for the same batches."""
    from espalier.passes.distributed.serving.loop import answer
    from espalier.passes.distributed.step import Difference, difference

    worst, requests, equal = Difference(0.0, 0.0, True), 0, True
    for done, batch in enumerate(served.batches):
        actual = served.results(batch)
        if actual is None:
            continue
        context.progress(done, len(served.batches), "comparing results")
        results = answer(model, samples.batch(batch.first, batch.count, device))
        found = difference({str(i): t for i, t in enumerate(results)}, actual)
        requests, equal = requests + batch.count, equal and found.equal
        worst = max(worst, found, key=lambda d: d.relative)
    return {**replace(worst, equal=equal, worst="").to_json(), "requests": requests}
