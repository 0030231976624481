"""Dropout of DTensors draws what one process draws, in whatever order its values lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from espalier.passes.distributed.placements import full
from espalier.passes.distributed.split_dropout import WholeDropout, draws


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("function", [F.dropout, F.dropout1d, F.alpha_dropout, torch.dropout])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)], ids=str)
def test_masks_follow_the_order_of_memory(
    mesh: DeviceMesh, function: Callable[..., Any], order: tuple[int, ...]
) -> None:
    x = torch.randn(6, 5, 4).permute(order)
    torch.manual_seed(3)
    want = function(x, 0.4, True)
    torch.manual_seed(3)
    with WholeDropout():
        split = DTensor.from_local(x, mesh, [Shard(0)], run_check=False)
        got = function(split, 0.4, True)
    assert torch.equal(full(got), want) and not torch.equal(want, x)


def test_other_functions_that_draw_are_known() -> None:
    assert draws(torch.ops.aten.rand_like.default) and draws(torch.ops.aten.bernoulli.p)
    assert not draws(torch.ops.aten.relu.default) and not draws(torch.ops.aten.dropout.default)
