"""The process of one rank, started by torchrun with the folder of its job."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from espalier.passes.distributed.rank import main


def load(files: Sequence[str]) -> None:
    """Load the plug-ins that the program has loaded."""
    from espalier.passes.plugins.plugins import load_plugin

    for file in files:
        load_plugin(file)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), load)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's own end: a thread of gloo that lets go of a tensor there ends the process by SIGABRT.
    os._exit(code)
