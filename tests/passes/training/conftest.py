"""The demo of digits as it was opened."""

from __future__ import annotations

import pytest

from espalier.model.graph.graph import Graph
from tests.passes.training.digits import opened


@pytest.fixture
def base() -> Graph:
    return opened().project.base
