"""The peak memory of a runtime with a file, in a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from espalier.model.leftovers import scratch
from espalier.model.orphans import python_command
from espalier.passes.export.checking.target import Inputs

CALLS = 3  # of the process whose memory is measured
SECONDS = 300  # that it may take
_BEGIN = """
import resource, sys
path, threads, inputs, calls = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
def peak():
    try:  # on Linux the number of getrusage begins with that of the process before exec
        with open("/proc/self/status") as file:
            return next(1024 * int(l.split()[1]) for l in file if l.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""


def peak_memory(script: str, path: Path, threads: int, inputs: Inputs) -> int | None:
    """Peak bytes of a script that opens and runs a file, over those of its imports; None where it failed.

    The script has `path`, `threads`, `inputs` (a .npz file), `calls` and `peak()`; it sets `before` to the peak after
    its imports.
    """
    import numpy as np

    with scratch() as folder:
        given = folder / "inputs.npz"
        np.savez(given, **{k: v.numpy() for k, v in inputs.items()})  # type: ignore[arg-type]
        text = f"{_BEGIN}\n{script}\nprint(peak() - before)\n"
        command = python_command(text, str(path), str(threads), str(given), str(CALLS))
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
            return int(done.stdout)
        except (subprocess.SubprocessError, ValueError):
            return None
