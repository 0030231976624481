"""What ranks are given, as JSON and safetensors in a private folder: graph, places of weights, inputs and settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import reading
from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.errors import JobError
from espalier.model.files import explained
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import Location, WeightStore
from espalier.passes.distributed.serving.load import Load

if TYPE_CHECKING:
    from espalier.passes.distributed.step import Batch

SETTINGS, JOB, INPUTS = "settings.json", "job.json", "inputs.safetensors"
RESULTS, LABELS = "results.safetensors", "#labels"
DAMAGED = "is no job of a sharded run", "Start the run again."
RESULTS_NODE = "(results)"  # the gather of results for the comparison, which is no part of a plan


@dataclass(frozen=True, slots=True)
class Source:
    """The source that is opened again for functions which cannot be stored."""

    spec: str
    inputs: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """How ranks run. `timeout`: seconds that a collective waits for other ranks. `load`: requests to be answered."""

    mesh: tuple[int, ...]
    threads: int
    timeout: float
    device: str = "cpu"
    source: Source | None = None
    plugins: tuple[str, ...] = ()
    load: Load | None = None


def write_settings(folder: Path, settings: Settings) -> None:
    """Write how the ranks of a job run; raises JobError."""
    with explained(folder, JobError):
        (folder / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")


def read_settings(folder: Path) -> Settings:
    """How the ranks of a job run, without torch; raises JobError."""
    with reading(folder / SETTINGS, JobError, *DAMAGED):
        data: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        source, load = data["source"], data["load"]
        return Settings(
            tuple(data["mesh"]), data["threads"], data["timeout"], data["device"],
            Source(source["spec"], tuple(source["inputs"]), source["seed"]) if source else None,
            tuple(data["plugins"]), Load(**load) if load else None,
        )  # fmt: skip


def write_job(
    folder: Path, graph: Graph, store: WeightStore, batches: Iterable[Batch], settings: Settings,
    base: Graph | None = None,
) -> None:  # fmt: skip
    """Write a job. Tensors that are only in memory are written; all others are read where they are.

    `base`: a second graph, the teacher of a training.
    """
    from safetensors.torch import save_file

    graphs = (graph, base) if base is not None else (graph,)
    keys = {w.key for g in graphs for w in g.weights.values() if w.key}
    keys |= {s.mask for g in graphs for n in g for s in n.sparsity.values() if s.mask}
    store.flush(f"sharded-{folder.name}")
    places = store.elsewhere(keys, f"moved-{folder.name}")
    if missing := keys - places.keys():
        raise JobError(f"{len(missing)} tensors of the model are missing.", "Open the project's source again.")
    data = {
        "graph": graph_to_json(graph),
        "base": graph_to_json(base) if base is not None else None,
        "places": {k: [str(p.path), p.offset, p.dtype, list(p.shape)] for k, p in places.items()},
    }
    tensors = {f"{i}.{n}": v.contiguous() for i, b in enumerate(batches) for n, v in _named(b)}
    write_settings(folder, settings)
    with explained(folder, JobError):
        (folder / JOB).write_text(json.dumps(data), encoding="utf-8")
        save_file(tensors, folder / INPUTS)


def _named(batch: Batch) -> Iterable[tuple[str, Any]]:
    yield from batch.inputs.items()
    if batch.labels is not None:
        yield LABELS, batch.labels


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a rank reads it."""

    graph: Graph
    store: WeightStore
    batches: list[Batch]
    settings: Settings
    base: Graph | None = None


def callables_of(job: Job, folder: Path) -> dict[str, Any]:
    """The functions of the job's source that files cannot hold, by opening it again if it has any.

    Raises TrustError unless the process that wrote the job was allowed to run that code.
    """
    from espalier.model.opening import reopen

    source = job.settings.source
    return reopen(source.spec, folder / "again", source.inputs, source.seed).callables if source else {}


def read_job(folder: Path, settings: Settings, prepare: Callable[[Sequence[str]], object] = len) -> Job:
    """The job in a folder; raises JobError. `prepare` loads the plug-ins, whose formats the graph may have."""
    from safetensors.torch import load_file

    from espalier.passes.distributed.step import Batch

    with reading(folder / JOB, JobError, *DAMAGED):
        data: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
        prepare(settings.plugins)
        store = WeightStore(folder)
        store.add({k: Location(Path(p), o, d, tuple(s)) for k, (p, o, d, s) in data["places"].items()})
        grouped: dict[int, dict[str, Any]] = {}
        for name, value in load_file(folder / INPUTS).items():
            index, _, key = name.partition(".")
            grouped.setdefault(int(index), {})[key] = value
        batches = [Batch(values, values.pop(LABELS, None)) for _, values in sorted(grouped.items())]
        base = graph_from_json(data["base"]) if data["base"] else None
    return Job(graph_from_json(data["graph"]), store, batches, settings, base)
