"""A rank that runs many jobs in one process group: torchrun -m tests.passes.distributed.many FOLDER."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path


def main(folder: Path) -> None:
    """Run the job of each folder in `folder`."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    from espalier.model.orphans import end_with_parent
    from espalier.passes.distributed.job import read_job, read_settings
    from espalier.passes.distributed.rank import measured

    end_with_parent()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for inner in sorted(p for p in folder.iterdir() if (p / "job.json").exists()):
        job = read_job(inner, read_settings(inner))
        report = measured(job, inner, dist.get_rank(), init_device_mesh("cpu", job.settings.mesh), runs=1)
        (inner / f"report-{dist.get_rank()}.json").write_text(json.dumps(report))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
