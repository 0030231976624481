"""What a runtime gives for a check of its files, and the registry of runtimes by the form of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.registry import Registry
from espalier.model.store.weights import WeightStore
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from torch import Tensor

Inputs = dict[str, "Tensor"]


@dataclass(frozen=True, slots=True)
class CheckOptions(EvaluateOptions):
    """Data of the accuracy, and how runs are timed."""

    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "samples of a batch"})
    threads: int = field(default=1, metadata={"min": 1, "max": 256, "help": "threads of the runtime"})
    runs: int = field(default=30, metadata={"min": 1, "max": 10000, "help": "timed runs of each file"})


@dataclass(frozen=True, slots=True)
class Baseline:
    """A file that the same runtime has of the same model, or why there is none. `name`: how it came to be."""

    name: str
    path: Path | None
    reason: str = ""


class Runner(Protocol):
    """A file that is open in its runtime."""

    def __call__(self, inputs: Inputs) -> Sequence[Tensor]:
        """The results of a batch."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime. `name`: with its version, as reports name it. `missing`: the package to install, or empty.

    `opened`: (file, threads) → runner. `baselines`: (project, store, folder, batches of calibration) → files.
    `beside`: file → the one with its tensors, which need not exist.
    `memory`: (file, threads, inputs) → peak bytes of a fresh process over those of the runtime without the file.
    `timed`: (files, threads, inputs, runs) → median seconds, of a runtime in another process.
    `comparable`: a result of the model → what the runtime gives of it, where that is not the same.
    `runnable`: generated inputs → those that the runtime can run, where it cannot run all.
    """

    name: Callable[[], str]
    missing: Callable[[], str]
    opened: Callable[[Path, int], Runner]
    baselines: Callable[[Project, WeightStore, Path, Sequence[Inputs]], Iterator[Baseline]]
    memory: Callable[[Path, int, Inputs], int | None]
    beside: Callable[[Path], Path]
    timed: Callable[[Sequence[Path], int, Inputs, int], list[float]] | None = None
    comparable: Callable[[Tensor], Tensor] | None = None
    runnable: Callable[[Inputs], Inputs] | None = None


TARGETS: Registry[str, Target] = Registry("form that can be checked", ExportError, ("espalier.passes.export.checking",))
