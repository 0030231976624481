"""Values of scaled elements that are packed give their codes and scales again, in every type of the weight."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from espalier.model.formats.scaled_element import ScaledElement

ELEMENTS = ("int8", "int4", "int3", "int2", "e4m3", "e2m1")
FORMATS = [
    *(ScaledElement(e, g, 8) for e in ELEMENTS for g in ("tensor", "channel", "group")),
    *(ScaledElement(e, "group", 8, d) for e in ("int8", "int4", "e4m3") for d in ("bfloat16", "float16")),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_preimage_encodes_to_what_it_is_made_of(fmt: ScaledElement, dtype: str) -> None:
    x = torch.randn(40, 24, generator=torch.Generator().manual_seed(1)) * 0.05
    x[0], x[1, 3:] = 0, 0
    x[2] = x[2].abs()
    held = x.to(getattr(torch, dtype)).float().numpy()
    encoded = fmt.encode(held)
    again = fmt.encode(torch.from_numpy(fmt.preimage(encoded, dtype)).to(getattr(torch, dtype)).float().numpy())
    live = encoded.codes != 0
    np.testing.assert_array_equal(again.shared[0].values, encoded.shared[0].values)
    np.testing.assert_array_equal(again.codes[live], encoded.codes[live])


def test_the_scale_by_hand() -> None:
    """Largest magnitude at −8 or 7.5: of two ends of one size, the negative one has a code of its own."""
    fmt = ScaledElement("int4", "channel")
    x = np.array([[7.5, -7.5, 1.0, 0.4]], np.float32)
    encoded = fmt.encode(x)
    assert fmt.stored_scale(encoded).tolist() == [[1.0]]
    assert encoded.codes.tolist() == [[7, -8, 1, 0]]
    assert ScaledElement("e4m3").encode(np.array([[448.0, -0.2]], np.float32)).shared[0].values.view(np.float32) == 1
    assert (ScaledElement("int8").reach, ScaledElement("e4m3").reach, ScaledElement("e2m1").reach) == (127.5, 448, 6)
