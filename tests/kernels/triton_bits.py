"""Run with TRITON_INTERPRET=1: compares the Triton kernels with the definitions on small CPU tensors, prints what is
wrong as JSON.
"""

from __future__ import annotations

import json
import sys

import torch

from espalier.kernels.fake_quant import cuda
from espalier.model.formats.scaled_integer import ScaledInteger
from tests.contract.format_cases import FORMS, probes
from tests.kernels.test_fake_quant import DTYPES, OTHERS, SPECIAL, bits, tame


def main() -> None:
    """Contract inputs thinned to 64 programs, and rows with special values."""
    wrong, ran = [], set()
    for fmt in [*FORMS, *(f for f in OTHERS if cuda.has_kernel(f))]:
        for dtype in DTYPES:
            x = tame(dtype)
            x[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
            probe = torch.from_numpy(probes(fmt, 400))
            thin = probe[:: -(-probe.numel() // 16384)].to(dtype)
            for case, value in (("rows", x), ("ragged", x[:, :77]), ("contract", thin)):
                found = cuda.quantized(fmt, value, True)
                if found is None:
                    continue
                ran.add(fmt.name)
                got, gate = found
                want = fmt.define(value)
                if isinstance(fmt, ScaledInteger) and not fmt.symmetric:  # see test_fake_quant.agrees
                    got, want = got + 0.0, want + 0.0
                bad = int((bits(got) != bits(want)).sum())
                alone = cuda.quantized(fmt, value, False)
                assert alone is not None
                bad += int((bits(alone[0] + 0.0 if got is not found[0] else alone[0]) != bits(want)).sum())
                if bad or not torch.equal(gate, fmt.inside(value)):
                    wrong.append([str(fmt), str(dtype), case, bad])
    sys.stdout.write("RESULT" + json.dumps({"ran": sorted(ran), "wrong": wrong}))


if __name__ == "__main__":
    main()
