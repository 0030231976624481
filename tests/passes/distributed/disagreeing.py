"""A rank of trainings in which ranks see other figures: torchrun -m tests.passes.distributed.disagreeing FOLDER."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

NAN_AT = 3  # the training step of which one rank's loss is not finite


def other_losses(real: Callable[..., Tensor], shifts: bool, breaks: bool) -> Callable[..., Tensor]:
    """The cross-entropy plus constants, so that gradients stay equal: of each validation more, of one step NaN."""
    calls = {True: 0, False: 0}

    def cross_entropy(scores: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        loss, training = real(scores, labels, reduction=reduction), torch.is_grad_enabled()
        if training and reduction == "none":  # of the metrics of a training step
            return loss
        calls[training] += 1
        if training:
            return loss + float("nan") if breaks and calls[True] == NAN_AT else loss
        return loss + 10.0 * calls[False] * shifts

    return cross_entropy


def main(folder: Path) -> None:
    """Train the job of each folder in `folder`; its name ends with the rank whose loss breaks."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    from espalier.model.orphans import end_with_parent
    from espalier.passes.distributed import training_rank
    from espalier.passes.distributed.job import read_job, read_settings

    end_with_parent()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank, real = dist.get_rank(), functional.cross_entropy
    callbacks_of, full = training_rank.callbacks_of, training_rank.full
    seen: dict[str, Any] = {}

    def noted(watch: Any, checkpoints: Any, gradual: Any) -> Any:
        seen.update(watch=watch, gradual=gradual)
        return callbacks_of(watch, checkpoints, gradual)

    training_rank.callbacks_of = noted
    training_rank.full = lambda value: full(value) + rank * torch.linspace(0, 1, value.numel()).view(value.shape)
    for inner in sorted(p for p in folder.iterdir() if (p / "job.json").exists()):
        job = read_job(inner, read_settings(inner))
        functional.cross_entropy = other_losses(real, rank == 1, inner.name == f"breaks-{rank}")
        training_rank.train_rank(job, inner, init_device_mesh("cpu", job.settings.mesh))
        watch, gradual = seen["watch"], seen["gradual"]
        found = {"kept_step": watch.kept_step, "ended": watch.ended, "rows": watch.rows}
        found["masks"] = {n: gradual.masks[n][0].mask.int().tolist() for n in gradual.kinds} if gradual else {}
        (inner / f"watch-{rank}.json").write_text(json.dumps(found))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
