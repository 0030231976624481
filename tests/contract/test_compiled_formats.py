"""torch.compile sees through every format: one graph without breaks, equal values, equal gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from espalier.model.formats.base import Format
from espalier.model.graph.meta import Precision
from espalier.model.registry import FORMATS
from tests.model.zoo import case, tensors

ALL = [n for n in FORMATS if not FORMATS.get(n)().stochastic]


def built(fmt: Format) -> torch.nn.Module:
    """The first of two layers in the format: what comes in has both signs, and is given gradients through `data_in`."""
    found = case("mlp")
    chosen = {"weight": Precision(fmt), "data_in": Precision(fmt)}
    return found.build(found.graph.replace(replace(found.graph["first"], precision=chosen)))


def gradients(module: torch.nn.Module, inputs: dict[str, Tensor]) -> list[Tensor]:
    given = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    tensors(module(**given))[0].sum().backward()
    found = [x.grad for x in (*given.values(), *module.parameters()) if x.grad is not None]
    module.zero_grad(set_to_none=True)
    return found


@pytest.fixture(autouse=True)
def forgotten() -> None:
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.sampled(0.34)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # the compiler does
@pytest.mark.parametrize("name", ALL)
def test_it_compiles_whole(name: str) -> None:
    module, inputs = built(FORMATS.get(name)()), case("mlp").fresh(4, 1)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(*(tensors(m(**inputs))[0] for m in (module, compiled)))
    one, other = gradients(module, inputs), gradients(compiled, inputs)
    assert len(one) > len(inputs) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
