"""What ranks of a training are given beside the job, and the files by which they and the parent follow each other."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.borders import reading
from espalier.model.document.codec import decode, encode
from espalier.model.errors import JobError
from espalier.model.files import explained
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.training.gradual import Kind

TRAINING, TRAIN, CHECK, RESULT = "training.json", "train.safetensors", "check.safetensors", "result"
PROGRESS, METRICS, ENOUGH = "progress.json", "metrics.jsonl", "enough"
PAUSE, PAUSED, RESUME = "pause-{}", "paused-{}", "resume-{}"  # numbered, so that none is taken for an earlier one


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of a training. `checkpoints`: its folder, or None if another process uses it.

    `frozen`: names of weights; `kinds`: pattern of each gradually pruned weight; `data`: digest of the samples; `task`:
    its name; `classes`, `tables`: as those of the training and of the validation split.
    """

    options: FinetuneOptions
    seed: int
    checkpoints: Path | None
    frozen: tuple[str, ...]
    kinds: dict[str, Kind]
    data: str
    task: str
    classes: tuple[str, ...]
    tables: tuple[tuple[str, ...], tuple[str, ...]]


def write_training(folder: Path, training: Training, train: dict[str, Tensor], check: dict[str, Tensor] | None) -> None:
    """Write the settings and the samples into a job's folder."""
    from safetensors.torch import save_file

    place = training.checkpoints
    data = asdict(training) | {"options": encode(training.options), "checkpoints": str(place) if place else None}
    with explained(folder, JobError):
        for file, tensors in ((TRAIN, train), (CHECK, check)):
            if tensors is not None:
                save_file({n: t.contiguous() for n, t in tensors.items()}, folder / file)
        (folder / TRAINING).write_text(json.dumps(data), encoding="utf-8")


def read_training(folder: Path) -> tuple[Training, dict[str, Tensor], dict[str, Tensor] | None]:
    """The settings, the training and the validation samples; raises JobError."""
    from safetensors.torch import load_file

    with reading(folder / TRAINING, JobError, "is no job of a training", "Start the training again."):
        data: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        options: FinetuneOptions = decode(FinetuneOptions, data["options"])
        kinds: dict[str, Kind] = {n: (k, (s[0], s[1])) for n, (k, s) in data["kinds"].items()}
        place = Path(data["checkpoints"]) if data["checkpoints"] else None
        tables = tuple(data["tables"][0]), tuple(data["tables"][1])
        training = Training(options, data["seed"], place, tuple(data["frozen"]), kinds, data["data"], data["task"],
                            tuple(data["classes"]), tables)  # fmt: skip
        check = load_file(folder / CHECK) if (folder / CHECK).exists() else None
        return training, load_file(folder / TRAIN), check
