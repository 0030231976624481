"""Compiles every Triton kernel for an H100-class GPU, which needs no GPU; prints how many there were.

Arguments: a seed and how many of the three types it draws for each kernel.
"""

from __future__ import annotations

import random
import sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from espalier.kernels.fake_quant import cuda
from tests.contract.format_cases import FORMS
from tests.kernels.test_fake_quant import DEFAULTS, SCALED

POINTERS = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*i16"}
ROWS = torch.randn(4, 32)
KINDS = {int: "i32", float: "fp32"}


def main() -> None:
    """One format a kernel, types as drawn, with a gate and without."""
    drawn, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    done: set[str] = set()
    target = GPUTarget("cuda", 90, 32)
    for fmt in [*DEFAULTS, *FORMS]:
        launch = cuda.launch_of(fmt)
        kind = None if launch is None else f"{launch.kernel.__name__} {sorted(launch.constants.items())}"
        if launch is None or kind is None or kind in done:
            continue
        kernel = launch.kernel
        kinds = [KINDS[type(c)] for c in launch.numbers] if launch.numbers else ["*fp32"]
        for pointer in drawn.sample(list(POINTERS.values()), count):
            for gated in (False, True):
                types = [pointer, pointer, "*u8" if gated else pointer, "i32", "fp32", *kinds]
                fixed = {"BLOCK": 16, "WIDTH": 16, "ROWS": 128, "GATED": gated, "BOUND": True, "CHIP": True}
                fixed |= launch.constants
                signature = dict(zip(kernel.arg_names, [*types, *["constexpr"] * len(fixed)], strict=True))
                triton.compile(ASTSource(kernel, signature, fixed), target=target)
        done.add(kind)
    for fmt in SCALED:
        kernel, constants, fixed = cuda.SCALED[type(fmt)](fmt, ROWS, fmt.scale_of(ROWS))
        if kernel.__name__ in done:
            continue
        kinds = ["*fp32" if isinstance(c, torch.Tensor) else "fp32" for c in constants]
        for pointer in drawn.sample(list(POINTERS.values()), count):
            for gated in (False, True):
                types = [pointer, pointer, "*u8" if gated else pointer, "i32", "fp32", *kinds, "i32", "i32", "i32"]
                held = {"BLOCK": 1, "WIDTH": 2048, "ROWS": 1, "GATED": gated, "BOUND": True, "CHIP": True, "CUT": 2}
                held |= fixed
                signature = dict(zip(kernel.arg_names, [*types, *["constexpr"] * len(held)], strict=True))
                triton.compile(ASTSource(kernel, signature, held), target=target)
        done.add(kernel.__name__)
    sys.stdout.write(f"RESULT{len(done)}")


if __name__ == "__main__":
    main()
