"""A kernel that is wrong on this card is found before its first value is used."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from espalier.kernels.fake_quant import trusted as module
from espalier.model.formats.base import parse_format

TEXTS = (
    "integer(width=8, frac_width=4)",
    "mxint",
    "minifloat_ieee(width=8, exponent_width=4)",
    "scaled_integer",
    "ternary",
)


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HELD", {})


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_definition_itself_is_trusted_and_asked_once(text: str, dtype: torch.dtype) -> None:
    fmt, calls = parse_format(text), []

    def kernel(x: Tensor) -> tuple[Tensor, Tensor | None]:
        calls.append(x)
        return fmt.define(x), fmt.inside(x)

    x = torch.zeros(3, dtype=dtype)
    assert module.verified(fmt, x, True, kernel) and module.verified(fmt, x, True, kernel)
    assert len(calls) == 1 and calls[0].dtype == dtype and bool(calls[0].isfinite().all())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("wrong", ["one value", "one gate", "ties up"])
def test_what_differs_anywhere_is_not_used(text: str, wrong: str) -> None:
    fmt = parse_format(text)

    def kernel(x: Tensor) -> tuple[Tensor, Tensor | None]:
        value, gate = fmt.define(x).clone(), fmt.inside(x).clone()
        if wrong == "one value":
            value[5, 5] = value[5, 5] + 1
        elif wrong == "one gate":
            gate[5, 5] = ~gate[5, 5]
        else:
            value = fmt.define(x * (1 + 2**-20))
        return value, gate

    with pytest.warns(RuntimeWarning, match="the definition is used"):
        assert not module.verified(fmt, torch.zeros(1), True, kernel)
    assert not module.verified(fmt, torch.zeros(1), True, kernel), "and remembered"
