"""All rows of kernels on a CUDA GPU, at the sizes that fill it: `python -m tests.benchmarks.kernels_gpu -o FILE.json`.

Names choose kernels, as on the command line; --check only holds odd shapes in every dtype to their references.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from app.cli import main as command
from kernels.bench.results import Row
from kernels.bench.run import Request, run
from kernels.bench.spec import KERNELS

ODD = {
    "softmax": ("777x1000", "3x70001", "5x1"), "attention": ("2x3x200x64x1x0", "1x2x77x128x0x1", "1x2x130x80x1x1"),
    "linear_gelu": ("33x100x77",), "mxint8_linear": ("1x333x1000", "3x64x45", "17x129x256", "200x130x96"),
    "mxint4_linear": ("1x333x1000", "3x64x45", "17x129x256", "200x130x96"), "mxint8_matmul": ("33x70x100", "130x40x64"),
    "layer_norm": ("33x1000", "5x777"), "layer_norm_backward": ("33x1000", "500x777"),
}  # fmt: skip


def checked() -> list[Row]:
    """Rows at odd shapes, none of them timed for long."""
    rows: list[Row] = []
    for name in KERNELS:
        shapes = ODD.get(name, ("33x100",))
        asked = Request((name,), "cuda", ("float32", "bfloat16", "float16"), shapes, seconds=0.0, rounds=1)
        rows += run(replace(asked, ceilings=False)).rows
    return rows


def main() -> int:
    """Measure all, or only check."""
    if "--check" in sys.argv:
        rows = [r for r in checked() if r.version != "numba"]
        for row in rows:
            if row.problem:
                print(row.kernel, row.version, row.dtype, row.shape, row.problem)
        print(f"{sum(r.correct is True for r in rows)} of {len(rows)} rows are right")
        return int(any(r.correct is False for r in rows))
    return command(["kernels", *sys.argv[1:], "--device", "cuda"])


if __name__ == "__main__":
    sys.exit(main())
