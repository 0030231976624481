"""Sharded runs equal one process: outputs, gradients, and bytes of collectives beside the plan."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from espalier.model.document.recipe import Raw, Step
from espalier.model.errors import EspalierError, JobError, OptionsError, PassError
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.base import Context, run_step
from espalier.passes.distributed.job import RESULTS, Settings, write_job
from espalier.passes.distributed.launch import environment
from espalier.passes.distributed.report import report_of
from espalier.passes.distributed.run import RunOptions, batches_of, mesh_of, run_sharded, single_process

MODELS = Path(__file__).with_name("models.py")
FIXED = "integer(width=8, frac_width=5)"


def _formats(fmt: str, *ops: str) -> tuple[str, dict[str, Any]]:
    select = {"by": "type", "values": list(ops or ("linear",))}
    return "quantize", {"rules": [{"select": select, "formats": {"data_in": fmt, "weight": fmt}}]}


PRUNED, LORA = ("prune", {"sparsity": 0.5}), ("lora", {"rank": 4, "alpha": 8})


def _shard(mesh: str, strategy: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "shard", {"mesh": mesh, "strategy": strategy, **more}


Steps = tuple[tuple[str, dict[str, Any]], ...]
TWO: dict[str, tuple[str, Steps]] = {
    "columns": ("writer", (_shard("1x2", "megatron"),)),
    "samples": ("writer", (_formats(FIXED), PRUNED, LORA, _shard("2", "data"))),
    "stored": ("writer", (_formats(FIXED), LORA, _shard("2", "fsdp"))),
    "blocks": ("writer", (_formats("mxint(width=8, block=4)"), PRUNED, LORA, _shard("2", "megatron"))),
    "scales": ("reader", (_formats("scaled_integer(width=8)"), _shard("2", "megatron"))),
    "channels": ("digits", (_formats("mxint(width=8)", "conv2d", "linear"), PRUNED, _shard("1x2", "megatron"))),
    "images": ("digits", (_formats(FIXED, "conv2d", "linear"), _shard("2", "data"))),
    "lstm": ("reader", (_shard("2", "data"),)),
    "gpt2": ("gpt2", (_formats(FIXED), PRUNED, LORA, _shard("2", "megatron"))),
    "llama": ("llama", (_shard("2", "megatron"),)),
    "planned": ("writer", (_formats(FIXED), _shard("1x2", "auto"))),
}
FOUR: dict[str, tuple[str, Steps]] = {
    "both": ("writer", (_shard("2x2", "megatron"),)),
    "mixed": ("gpt2", (_formats("mxint(width=6, block=8)"), PRUNED, LORA, _shard("2x2", "megatron"))),
}


@cache
def _opened(name: str) -> Opened:
    """A model, opened once for all cases."""
    return open_any(f"{MODELS}:{name}", Path(tempfile.mkdtemp()), cached=False, origin=Origin.TYPED)


def _graph(name: str, steps: Steps) -> tuple[Any, Context]:
    opened = _opened(name)
    context = Context(opened.store, callables=opened.callables, base=opened.project.base)
    graph = opened.project.graph
    for kind, options in steps:
        graph = run_step(graph, Step(kind, Raw(options), 0), context).graph
    return graph, context


@cache
def _reports(ranks: int, folder: Path) -> dict[str, dict[str, Any]]:
    """The reports of all cases of so many ranks, by one process group."""
    from safetensors.torch import load_file

    jobs: dict[str, Any] = {}
    for name, (model, steps) in (TWO if ranks == 2 else FOUR).items():
        graph, context = _graph(model, steps)
        inner = folder / name
        inner.mkdir()
        batches = batches_of(graph, RunOptions(batch_size=4), context)
        settings = Settings(mesh_of(graph).shape, 1, 60.0)
        single = single_process(graph, batches, 1, context)
        write_job(inner, graph, context.store, batches, settings)
        jobs[name] = graph, settings, single, batches
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]
    command = [*torchrun, "-m", "tests.passes.distributed.many", str(folder)]
    given = environment(1, None) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=170, check=False)
    assert not done.returncode, done.stderr[-9000:]
    found: dict[str, dict[str, Any]] = {}
    for name, (graph, settings, single, batches) in jobs.items():
        reports = [_json(folder / name / f"report-{r}.json") for r in range(ranks)]
        actual = load_file(folder / name / RESULTS)
        found[name] = report_of(graph, mesh_of(graph), settings, single, reports, actual, batches, [])
    return found


def _json(path: Path) -> Any:
    import json

    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Path]]:
    """A folder for each number of ranks."""
    yield {n: tmp_path_factory.mktemp(f"ranks{n}") for n in (2, 4)}
    _reports.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "name"), [*((2, n) for n in TWO), *((4, n) for n in FOUR)])
def test_a_sharded_run_equals_one_process(ranks: int, name: str, folders: dict[int, Path]) -> None:
    report = _reports(ranks, folders[ranks])[name]
    for kind in ("outputs", "gradients"):
        assert report["compared"][kind] > 0
        assert report["difference"][kind]["relative"] <= 1e-5, (kind, report["difference"])
    assert [m["rank"] for m in report["memory"]] == list(range(ranks))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["samples", "stored", "images"])
def test_outputs_are_equal_bit_for_bit_where_only_samples_are_split(name: str, folders: dict[int, Path]) -> None:
    assert _reports(2, folders[2])[name]["difference"]["outputs"]["equal"]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "name"), [(2, "columns"), (2, "llama"), (4, "both")])
def test_the_bytes_of_a_forward_run_are_those_that_follow_from_the_placements(
    ranks: int, name: str, folders: dict[int, Path]
) -> None:
    report = _reports(ranks, folders[ranks])[name]
    planned: dict[str, int] = {}
    for row in report["planned"]:
        planned[row["collective"]] = planned.get(row["collective"], 0) + row["bytes"]
    assert planned == {k: v["bytes"] for k, v in report["forward_totals"].items()}


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "name"), [(2, "columns"), (2, "llama"), (2, "lstm"), (4, "both")])
def test_the_bytes_of_a_backward_pass_are_those_that_follow_from_the_placements(
    ranks: int, name: str, folders: dict[int, Path]
) -> None:
    report = _reports(ranks, folders[ranks])[name]
    planned: dict[str, int] = {}
    for row in report["planned_backward"]:
        planned[row["collective"]] = planned.get(row["collective"], 0) + row["bytes"]
    assert planned == {k: v["bytes"] for k, v in report["backward_totals"].items()} and planned
    assert not report["backward_gaps"]


@pytest.mark.slow
def test_a_rank_stores_a_part_of_the_weights(folders: dict[int, Path]) -> None:
    reports = _reports(2, folders[2])
    whole = reports["lstm"]["memory"][0]
    assert whole["split_tensors"] == 0
    parts, all_of_it = reports["stored"]["memory"][0], reports["samples"]["memory"][0]
    assert parts["stored_bytes"] < 0.7 * all_of_it["stored_bytes"]


@pytest.mark.slow
def test_the_report_names_what_ran_on_whole_tensors(folders: dict[int, Path]) -> None:
    reports = _reports(2, folders[2])
    assert any("lstm" in row["node"] for row in reports["lstm"]["gathered"])
    assert any("would cut" in row["why"] for row in reports["channels"]["gathered"])
    assert not reports["columns"]["gathered"]


def test_a_graph_without_shardings_is_refused() -> None:
    graph, context = _graph("reader", ())
    with pytest.raises(PassError, match="not sharded") as error:
        run_sharded(graph, RunOptions(), context)
    assert "shard" in error.value.hint


@pytest.mark.slow
def test_a_rank_that_fails_is_named_and_nothing_is_left() -> None:
    import psutil

    _opened.cache_clear()
    graph, context = _graph("reader", (_shard("2", "data"),))
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    key = next(w.key for w in graph.weights.values() if w.key)

    def damage(done: int, total: int, text: str) -> None:
        """Damage a weight's file before the ranks read it."""
        if text == "running in one process":
            context.store.flush("weights")
            place = context.store.places()[key]
            with place.path.open("r+b") as file:
                file.seek(place.offset)
                file.write(b"\x7f" * 8)

    context.progress = damage
    with pytest.raises(EspalierError, match=r"Rank [01] of 2 failed|damaged") as error:
        run_sharded(graph, RunOptions(timeout=30), context)
    assert error.value.hint
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before
    _opened.cache_clear()  # the damaged weights


@pytest.mark.slow
def test_a_killed_rank_is_named() -> None:
    import psutil

    graph, context = _graph("reader", (_shard("2", "data"),))

    def kill(done: int, total: int, text: str) -> None:
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                ranked = child.cmdline()[-2:-1] == ["espalier.passes.jobs.rank"]
                if ranked and child.environ().get("RANK") == "1":
                    child.kill()

    context.progress = kill
    with pytest.raises(JobError, match="Rank 1 of 2 was ended by SIGKILL"):
        run_sharded(graph, RunOptions(timeout=30), context)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mesh": "1x5", "strategy": "megatron"}, "2 devices would"),
        ({"mesh": "0x2"}, "mesh"),
        ({"rules": [{"select": {"by": "name", "values": ["up"]}, "placements": "weight=R,S9"}]}, "no dimension 9"),
        ({"mesh": "1x3", "strategy": "replicated",
          "rules": [{"select": {"by": "name", "values": ["up"]}, "placements": "weight=R,S0"}]}, "2, 4, 8, 11"),
    ],
)  # fmt: skip
def test_bad_shardings_say_what_would_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionsError, PassError)) as error:
        _graph("writer", (("shard", options),))
    assert message in f"{error.value.message} {error.value.hint}"
