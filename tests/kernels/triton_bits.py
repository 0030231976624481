"""Run with TRITON_INTERPRET=1: compares the Triton kernels with the definitions on small CPU tensors, prints what is
wrong as JSON. Arguments: a seed and the share of formats and types that it draws, at least one of each kernel.
"""

from __future__ import annotations

import json
import random
import sys

import torch

from espalier.kernels.fake_quant import cuda
from espalier.model.formats.base import Format
from espalier.model.formats.scaled_integer import ScaledInteger
from tests.contract.format_cases import FORMS, probes
from tests.kernels.test_fake_quant import DTYPES, OTHERS, SPECIAL, bits, tame


def cases(seed: int, share: float) -> list[tuple[Format, torch.dtype]]:
    """The share of all pairs that the seed draws; the first drawn of each kind of format is among them."""
    every = [(f, d) for f in [*FORMS, *OTHERS] if cuda.has_kernel(f) for d in DTYPES]
    random.Random(seed).shuffle(every)
    first = {fmt.name: (fmt, dtype) for fmt, dtype in reversed(every)}
    return [*first.values(), *(c for c in every[: round(share * len(every))] if c not in first.values())]


def main() -> None:
    """Contract inputs thinned to 64 programs, and rows with special values."""
    wrong, ran = [], set()
    for fmt, dtype in cases(int(sys.argv[1]), float(sys.argv[2])):
        x = tame(dtype)
        x[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
        probe = torch.from_numpy(probes(fmt, 400))
        thin = probe[:: -(-probe.numel() // 16384)].to(dtype)
        for case, value in (("rows", x), ("ragged", x[:, :77]), ("contract", thin)):
            found = cuda.quantize(fmt, value, True)
            if found is None:
                continue
            ran.add(fmt.name)
            got, gate = found
            want = fmt.define(value)
            if isinstance(fmt, ScaledInteger) and not fmt.symmetric:  # see test_fake_quant.agrees
                got, want = got + 0.0, want + 0.0
            bad = int((bits(got) != bits(want)).sum())
            alone = cuda.quantize(fmt, value, False)
            assert alone is not None
            bad += int((bits(alone[0] + 0.0 if got is not found[0] else alone[0]) != bits(want)).sum())
            if bad or not torch.equal(gate, fmt.inside(value)):
                wrong.append([str(fmt), str(dtype), case, bad])
    sys.stdout.write("RESULT" + json.dumps({"ran": sorted(ran), "wrong": wrong}))


if __name__ == "__main__":
    main()
