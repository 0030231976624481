"""Bytes of a backward pass that follow from placements are those that torch counts, node by node."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from espalier.model.document.recipe import Raw, Step
from espalier.model.opening import Opened, open_any
from espalier.model.torch.build import build
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.distributed.distribute import distribute, in_stored
from espalier.passes.distributed.interpreter import ShardedModel
from espalier.passes.distributed.report import gaps, on_device, sizes_of
from espalier.passes.distributed.run import RunOptions, batches_of, mesh_of
from espalier.passes.distributed.step import passes
from espalier.passes.distributed.volumes import Volumes
from espalier.passes.sharding.backward import Backward

MODELS = Path(__file__).with_name("models.py")
FORMATS = {"data_in": "mxint(width=8, block=4)", "weight": "mxint(width=8, block=4)"}


@cache
def _opened(name: str) -> Opened:
    return open_any(f"{MODELS}:{name}", Path(tempfile.mkdtemp()), cached=False, origin=Origin.TYPED)


@pytest.fixture
def ranks(mesh: str) -> Iterator[Any]:
    """A mesh of which only rank 0 runs: collectives do nothing, but are called with the tensors of a run."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    shape = tuple(map(int, mesh.split("x")))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=shape[0] * shape[1])
    yield init_device_mesh("cpu", shape)
    dist.destroy_process_group()


def _counted(name: str, mesh: str, strategy: str, ranks: Any, *steps: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    """Rows that follow from the placements, rows that torch counts, and gaps between them."""
    opened = _opened(name)
    context = Context(opened.store, callables=opened.callables, base=opened.project.base)
    graph = opened.project.graph
    for kind, options in (*steps, ("shard", {"mesh": mesh, "strategy": strategy})):
        graph = run_step(graph, Step(kind, Raw(options), 0), context).graph
    batch = batches_of(graph, RunOptions(batch_size=8), context)[0]
    module: Any = build(graph, context.store, context.callables)
    tensors = distribute(module, graph, ranks)
    model, volumes = ShardedModel(module, graph, ranks), Volumes()
    trained = {n: t for n, t in tensors.items() if t.requires_grad}
    names = {id(t): n for n, t in reversed(trained.items())}

    def settle(gradient: Any, tensor: Any) -> Any:
        volumes.node = names[id(tensor)]
        return in_stored(gradient, tensor)

    model.volumes = volumes
    with volumes:
        passes(model, graph, [batch], trained, settle)
    assert mesh_of(graph).shape == tuple(ranks.shape)
    planned = [{"node": r.target, "collective": on_device(r.collective, "cpu"), "bytes": r.bytes}
               for r in Backward(graph, sizes_of(graph, batch))]  # fmt: skip
    report = {"step_collectives": list(volumes.rows()), "gathered": model.gathered}
    counted = [r for r in report["step_collectives"] if r["pass"] == "backward"]
    return planned, counted, gaps(graph, planned, report)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["1x2", "2x2"])
@pytest.mark.parametrize("strategy", ["data", "fsdp", "megatron"])
@pytest.mark.parametrize("name", ["writer", "digits", "gpt2", "llama"])
def test_bytes_of_a_backward_pass_follow_from_the_placements(name: str, strategy: str, mesh: str, ranks: Any) -> None:
    planned, counted, different = _counted(name, mesh, strategy, ranks)
    assert not different
    totals = [{k: sum(r["bytes"] for r in rows if r["collective"] == k) for k in {r["collective"] for r in rows}}
              for rows in (planned, counted)]  # fmt: skip
    assert totals[0] == totals[1] and sum(totals[0].values()) > 1000
    kind = {"data": "all_reduce", "fsdp": "reduce_scatter", "megatron": "all_gather"}[strategy]
    assert totals[0].get(kind, 0) > 0 or (name, strategy) == ("llama", "megatron")


@pytest.mark.parametrize("mesh", ["1x2"])
@pytest.mark.slow
def test_a_node_whose_bytes_differ_is_named_with_the_reason(mesh: str, ranks: Any) -> None:
    linear = {"by": "type", "values": ["linear"]}
    steps = (("quantize", {"rules": [{"select": linear, "formats": FORMATS}]}), ("lora", {"rank": 4, "alpha": 8}))
    planned, counted, different = _counted("writer", mesh, "megatron", ranks, *steps)
    assert different and sum(r["bytes"] for r in planned) != sum(r["bytes"] for r in counted)
    assert all(row["node"] and row["why"] and row["planned"] != row["bytes"] for row in different)
    assert any("adapter" in row["why"] for row in different)
