"""Collectives: bytes as torch calls them, seconds of rings by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from espalier.passes.sharding.collectives import Collective, collectives, possible, steps
from espalier.passes.sharding.mesh import Device

DEVICE = Device("toy", 1.0, 1.0, 1.0, (1e-3, 5e-3), (1e6, 2e6))


def test_rings_by_hand() -> None:
    """Four ranks with 4 000 bytes each: what a ring sends, and its messages."""
    moved = {kind: Collective(kind, 0, 4, 4000, 4000) for kind in (  # type: ignore[arg-type]
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all")}  # fmt: skip
    assert {k: c.sent() for k, c in moved.items()} == {
        "all_reduce": 6000, "all_gather": 12000, "reduce_scatter": 3000, "all_to_all": 3000}  # fmt: skip
    assert moved["all_reduce"].seconds(DEVICE) == pytest.approx(6 * 1e-3 + 6000 / 1e6)
    assert moved["all_gather"].seconds(DEVICE) == pytest.approx(3 * 1e-3 + 12000 / 1e6)


def test_formats_save_where_values_move() -> None:
    """An all-gather moves codes; a sum moves floats."""
    (gather,) = collectives(("S0",), ("R",), (2,), 4096, 1024)
    (reduce,) = collectives(("P",), ("R",), (2,), 4096, 1024)
    assert (gather.bytes, gather.wire) == (2048, 512)
    assert (reduce.bytes, reduce.wire) == (4096, 4096)


def test_a_whole_tensor_is_split_for_nothing() -> None:
    """Each rank keeps its part."""
    assert collectives(("R", "R"), ("S0", "S1"), (2, 4), 4096) == ()
    assert collectives(("S0", "R"), ("R", "R"), (1, 4), 4096) == ()


class _Calls(TorchDispatchMode):
    """The collectives that torch calls, with the bytes that a rank passes in."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        if func.namespace == "_c10d_functional" and not name.startswith("_wrap") and not name.startswith("wait"):
            self.found.append((name, args[0].numel() * args[0].element_size()))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def eight_ranks() -> Iterator[Any]:
    """A mesh of 2 × 4 ranks of which only this one runs: collectives do nothing."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    yield init_device_mesh("cpu", (2, 4))
    dist.destroy_process_group()


NAMES = {"all_reduce": ("all_reduce",), "reduce_scatter": ("reduce_scatter_tensor",),
         "all_gather": ("all_gather_into_tensor",),
         "all_to_all": ("all_gather_into_tensor", "all_to_all_single")}  # fmt: skip


def test_bytes_are_those_of_torch(eight_ranks: Any) -> None:
    """All pairs of placements on two axes: the same collectives in the same order with the same bytes.

    gloo has no all-to-all of a dimension, so torch gathers there with as many bytes passed in.
    """
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    def placement(text: str) -> Any:
        return Replicate() if text == "R" else Partial() if text == "P" else Shard(int(text[1:]))

    pairs = 0
    for before, after in itertools.product(itertools.product(("R", "S0", "S1", "P"), repeat=2), repeat=2):
        if "P" in after and before != after and any(a != "P" and b == "P" for a, b in zip(before, after, strict=True)):
            continue  # torch makes no partial sums of whole tensors
        shape = [16, 32]
        for n, p in zip((2, 4), before, strict=True):
            if p[0] == "S":
                shape[int(p[1:])] //= n
        x = DTensor.from_local(torch.zeros(shape), eight_ranks, [placement(p) for p in before], run_check=False)
        with _Calls() as calls:
            x.redistribute(placements=[placement(p) for p in after])
        ours = collectives(before, after, (2, 4), 16 * 32 * 4)
        assert [b for _, b in calls.found] == [c.bytes for c in ours], (before, after)
        assert all(name in NAMES[c.kind] for (name, _), c in zip(calls.found, ours, strict=True)), (before, after)
        pairs += 1
    assert pairs > 140


def test_a_nested_split_is_opened_from_within() -> None:
    """As DTensor: (S0, S0) → (R, S0) gathers the inner axis, then the outer one, and splits again."""
    assert steps(("S0", "S0"), ("R", "S0")) == ((1, "S0", "R"), (0, "S0", "R"), (1, "R", "S0"))
    assert not possible(("S0",), ("P",))
    assert possible(("R",), ("P",))
