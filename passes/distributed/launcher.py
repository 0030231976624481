"""The process that runs torchrun for a parent, and ends with it; its ranks end with this process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from espalier.model.orphans import end_with_parent
from espalier.passes.distributed.rank import LAUNCHER

ENDED = "ended.json"  # {rank: [exit code, seconds after the first one]} of ranks that failed


def main(ranks: int, folder: Path, restarts: int) -> int:
    """Start the ranks by torchrun on this machine and wait for them; returns the exit code.

    `restarts`: how many times torchrun starts them again after a failure.
    """
    end_with_parent(0)  # standard input is a pipe that only the parent holds
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    os.environ[LAUNCHER] = str(os.getpid())
    module = "espalier.passes.jobs.rank"
    arguments = ["--standalone", "--nproc-per-node", str(ranks), "--local-addr", "127.0.0.1", "--monitor-interval",
                 "0.2", "--max-restarts", str(restarts), "--log-dir", str(folder / "logs"), "--redirects", "3",
                 "-m", module, str(folder)]  # fmt: skip
    try:
        torchrun(arguments)
    except ChildFailedError as error:
        first = min(failure.timestamp for failure in error.failures.values())
        codes = {str(r): [failure.exitcode, failure.timestamp - first] for r, failure in error.failures.items()}
        (folder / ENDED).write_text(json.dumps(codes), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
