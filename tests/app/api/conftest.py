"""A small network, traced once, and data for it."""

from __future__ import annotations

import pytest
import torch

import espalier as es
from tests.app.api.nets import CLASSES, FEATURES, N, Net


@pytest.fixture(scope="session")
def net() -> Net:
    torch.manual_seed(3)
    return Net().eval()


@pytest.fixture(scope="session")
def traced(net: Net) -> es.Model:
    return es.trace(net, torch.randn(2, FEATURES))


@pytest.fixture
def m(traced: es.Model) -> es.Model:
    return traced.copy()


@pytest.fixture(scope="session")
def xy() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(N, FEATURES, generator=generator), torch.randint(0, CLASSES, (N,), generator=generator)
