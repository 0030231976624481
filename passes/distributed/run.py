"""Runs a sharded model by ranks on this machine and compares it with one process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import MissingCodeError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS
from espalier.model.leftovers import scratch
from espalier.model.memory import free
from espalier.model.opening import needs_source
from espalier.model.registry import PLUGIN_FILES
from espalier.model.trust import Origin, factory_of, require
from espalier.passes.base import Context
from espalier.passes.distributed.job import RESULTS, Settings, Source, write_job
from espalier.passes.distributed.launch import cores, environment, launch
from espalier.passes.running.example import batch_sizes, example_inputs
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.sharding.planned import amount

if TYPE_CHECKING:
    from espalier.passes.distributed.step import Batch

BATCHES = 2  # without a limit
MAX_RANKS = 8  # processes of a run that nobody has confirmed
PROCESS = 350 << 20  # bytes of a rank with Python and torch; measured: 337 MiB with a small model on Linux
COPIES = 3  # of the weights in this process: as stored, as module, and gradients


@dataclass(frozen=True, slots=True)
class RunOptions(EvaluateOptions):
    """Data of a sharded run, and how long its ranks wait for one another."""

    batch_size: int = field(default=8, metadata={"min": 1, "max": 4096})
    timeout: int = field(default=300, metadata={"min": 1, "help": "seconds that a rank waits for the others"})
    max_ranks: int = field(default=MAX_RANKS, metadata={"min": 1, "help": "processes that may be started here"})


def mesh_of(graph: Graph) -> Mesh:
    """The mesh for which the nodes of a graph are sharded; raises PassError."""
    shapes = {n.sharding.mesh for n in graph if n.sharding}
    if not shapes:
        raise PassError("The model is not sharded.", "Add the step shard with a mesh, such as 1x2.")
    if len(shapes) > 1:
        found = " and ".join(str(Mesh(s)) for s in sorted(shapes))
        raise PassError(f"Nodes are sharded for different meshes: {found}.", "Keep one step shard.")
    return Mesh(shapes.pop())


def run_sharded(
    graph: Graph, options: RunOptions, context: Context, source: Source | None = None,
    sizes: dict[str, int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a sharded graph by one process per device of its mesh and compare it with a single process.

    `sizes`: of random inputs, other than those of the trace.
    Raises PassError for a graph without shardings, JobError for ranks that fail, DataError.
    """
    from espalier.passes.distributed.prediction import prediction
    from espalier.passes.distributed.report import report_of, sizes_of

    mesh, settings = mesh_of(graph), settings_of(graph, options, context, source)
    batches = batches_of(graph, options, context, sizes)
    context.progress(0, 0, "predicting")
    predicted = prediction(graph, mesh, settings.device, settings.threads, sizes_of(graph, batches[0]))
    with scratch() as folder:
        single = single_process(graph, batches, settings.threads, context)
        write_job(folder, graph, context.store, batches, settings)
        reports = launch(mesh.devices, folder, environment(settings.threads, settings.source), context)
        from safetensors.torch import load_file

        actual = load_file(folder / RESULTS)
    notes = notes_of(settings)
    return report_of(graph, mesh, settings, single, reports, actual, batches, notes) | {"predicted": predicted}


def settings_of(
    graph: Graph, options: RunOptions, context: Context, source: Source | None, *, raisable: bool = True,
    base: Graph | None = None,
) -> Settings:  # fmt: skip
    """How the ranks of a graph run on this machine; raises PassError for a graph that cannot be split.

    `base`: the teacher of a training, which is whole on each rank.
    """
    mesh = mesh_of(graph)
    _check_splits(graph, context)
    _check_ranks(mesh, options.max_ranks, graph, raisable)
    source = source if needs_source(graph) or (base is not None and needs_source(base)) else None
    if source is not None and (found := factory_of(source.spec)) is not None:  # this process may not have opened it
        require(Path(found[0]).expanduser(), f"the function {found[1]}", Origin.FILE)
    return Settings(
        mesh.shape, max(1, cores() // mesh.devices), float(options.timeout), device_for(mesh.devices),
        source, tuple(PLUGIN_FILES),
    )  # fmt: skip


def notes_of(settings: Settings) -> list[str]:
    """How far the times of a run hold."""
    ranks, available, notes = Mesh(settings.mesh).devices, cores(), list[str]()
    if available < ranks and settings.device == "cpu":
        shared = f"{available} cores" if available > 1 else "one core"
        notes.append(f"{ranks} ranks share {shared}, so the times are no estimate of {ranks} devices.")
    if settings.threads == 1 and available > 1:
        notes.append("Each process, the single one too, uses one thread.")
    return notes


def _check_splits(graph: Graph, context: Context) -> None:
    """Raise PassError or MissingCodeError for a graph that ranks cannot run."""
    if graph.runs == "module":
        text = "This model was recorded from a run, so its operations cannot be split over ranks."
        raise PassError(text, "Use a model that torch.export can capture.")
    for node in graph:
        if node.call == "opaque" and node.target not in context.callables:
            raise MissingCodeError(f"{node.id} is opaque, and its function is not loaded.",
                                   "Open the model's source again.", node.id)  # fmt: skip


def weight_bytes(graph: Graph) -> int:
    """Bytes of all stored tensors."""
    return sum(w.elements * BITS.get(w.dtype, 32) // 8 for w in graph.weights.values())


def _check_ranks(mesh: Mesh, limit: int, graph: Graph, raisable: bool) -> None:
    """Raise PassError for more processes than are allowed, or than there is memory for."""
    ranks = mesh.devices
    if ranks > limit:
        text = f"The mesh {mesh} would start {ranks} processes on this machine; at most {limit} may be started."
        more = ", or raise max_ranks" if raisable else ""
        raise PassError(text, f"Use a mesh of at most {limit} devices{more}.")
    weights = weight_bytes(graph)
    need, present = ranks * (PROCESS + weights) + COPIES * weights, free()
    if need > present:
        text = f"{ranks} processes with this model need about {amount(need)}; {amount(present)} are free."
        raise PassError(text, "Shard over fewer devices, or close other programs.")


def device_for(ranks: int) -> str:
    """cuda where each rank has a GPU, else cpu."""
    import torch

    return "cuda" if torch.cuda.is_available() and torch.cuda.device_count() >= ranks else "cpu"


def batches_of(graph: Graph, options: RunOptions, context: Context, sizes: dict[str, int] | None = None) -> list[Batch]:
    """The batches of the data, by default two; without data one of valid random inputs of `sizes`."""
    from espalier.passes.distributed.step import Batch
    from espalier.passes.running.batches import batches

    if not options.data:
        sizes = batch_sizes(graph, options.batch_size) | (sizes or {})
        return [Batch(example_inputs(graph, sizes, context.seed))]
    split = load_split(options, context)
    pairs: Iterable[Any] = batches(split, graph, options.batch_size)
    return [Batch(inputs, labels) for inputs, labels in (pairs if options.limit else islice(pairs, BATCHES))]


def single_process(graph: Graph, batches: list[Batch], threads: int, context: Context) -> dict[str, Any]:
    """Results, gradients and times of one process with as many threads as a rank."""
    import torch

    from espalier.model.torch.build import build, parameters_of
    from espalier.model.torch.threads import torch_threads
    from espalier.passes.distributed.step import passes, timed

    context.progress(0, 0, "running in one process")
    with torch_threads(threads):
        module: Any = build(graph, context.store, context.callables)
        trained = {n: t for n, t in parameters_of(module).items() if t.requires_grad}
        results, gradients = passes(module, graph, batches, trained)
        named = {f"result.{i}.{j}": v for i, values in enumerate(results) for j, v in enumerate(values)}
        named |= {f"gradient.{n}": g for n, g in gradients.items()}

        def forward() -> None:
            """Run the first batch without gradients."""
            with torch.no_grad():
                module(**batches[0].inputs)

        found: dict[str, Any] = {"forward_seconds": timed(forward, lambda: None)}
        if trained:
            found["step_seconds"] = timed(lambda: passes(module, graph, batches[:1], trained), lambda: None)
    return found | {"tensors": named}
