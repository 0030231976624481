"""Starts Espalier from a checkout, installed or not."""

import sys
from pathlib import Path

# In place of this folder, whose `kernels`, `model` and `app` are ours only as `espalier.…`.
sys.path[0] = str(Path(__file__).resolve().parent / "roots")

from espalier.__main__ import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
