"""A training that was broken off goes on from its last checkpoint as if there had been no break: bit for bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from espalier.app.jobs.runner import JobRunner
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report, run_step
from espalier.passes.jobs import worker
from espalier.passes.jobs.kinds import TERMINAL, Done, Failed, JobEvent, Metric, OpenJob, ReplayJob
from espalier.passes.jobs.serving import Channel
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.checkpoint import Checkpoints, read, write
from espalier.passes.training.checkpoint_folders import (
    DAYS,
    clear_finished,
    discard,
    folder_of,
    home,
    interrupted_run,
    latest,
    until_saved,
)
from tests.patience import until

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 12, "batch_size": 16, "train_limit": 96,
                           "validation_limit": 60, "learning_rate": 2e-3, "evaluate_every": 4,
                           "checkpoint_every": 3}  # fmt: skip


class Killed(Exception):
    """The process is gone, as far as the training can tell."""


class Drops(nn.Module):
    """Dropout draws chance, a batch norm keeps running statistics: both must survive."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(64, 32), nn.BatchNorm1d(32)
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.first(x.flatten(1))))))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    return home()


@cache
def drops() -> tuple[Graph, WeightStore]:
    store = WeightStore(Path(tempfile.mkdtemp(prefix="espalier-tests-")))
    torch.manual_seed(0)
    return trace(Drops().eval(), {"x": torch.zeros(4, 1, 8, 8)}, store).graph, store


def made(**options: Any) -> Any:
    return decode_options("finetune", OPTIONS | options)


def finetuned(graph: Graph, store: WeightStore, options: Any, **hooks: Any) -> tuple[Graph, Report]:
    done = run_step(graph, Step("finetune", options, 1), Context(store, **hooks))
    return done.graph, done.report


def killed(graph: Graph, store: WeightStore, options: Any, at: int, **hooks: Any) -> None:
    """Train until step `at` and die there."""

    def die(name: str, step: int, value: float) -> None:
        if step >= at:
            raise Killed

    with pytest.raises(Killed):
        finetuned(graph, store, options, metric=die, **hooks)


def compressed(graph: Graph, store: WeightStore) -> Graph:
    """Learned scales on the weights, and masks."""
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "scaled_integer(width=4)"}}
    for name, options in (("quantize", {"rules": [rule]}), ("learn_scales", {}), ("prune", {"sparsity": 0.4})):
        graph = run_step(graph, Step(name, decode_options(name, options)), Context(store)).graph
    return graph


CASES: list[tuple[int, dict[str, Any]]] = [
    (2, {}),
    (7, {}),  # within an epoch
    (7, {"batch_size": 32}),  # at the end of one
    (8, {"optimiser": "sgd", "keep": "last"}),
    (8, {"optimiser": "adafactor", "schedule": "cosine", "warm_up": 0.3}),
    (8, {"accumulation": 2, "keep": "loss", "patience": 9}),
    (8, {"precision": "bfloat16"}),
    (8, {"validate": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("at", "options"), CASES, ids=str)
def test_it_goes_on_bit_for_bit(at: int, options: dict[str, Any]) -> None:
    graph, store = drops()
    whole = made(**options)
    want, report = finetuned(graph, store, whole)
    assert interrupted_run(graph, whole, 1) is None
    killed(graph, store, whole, at)
    left = interrupted_run(graph, whole, 1)
    last = (at - 1) // 3 * 3
    assert (left is None) == (at == 2) and (left is None or (left.step, left.steps) == (last, 12))
    heard: list[tuple[str, int, float]] = []
    torch.manual_seed(99)
    got, again = finetuned(graph, store, whole, metric=lambda *figure: heard.append(figure))
    assert got == want and again.rows == report.rows
    assert again.summary.get("resumed_from") == (last or None)
    for name in ("training loss", "learning rate"):
        assert [s for n, s, _ in heard if n == name] == list(range(1, 13))
    assert interrupted_run(graph, whole, 1) is None and not list(home().glob("*"))


@pytest.mark.slow
def test_checkpoints_stay_until_the_result_is_saved() -> None:
    """A death between the end of a training and the save of its result costs the steps since the last of them."""
    graph, store = drops()
    with until_saved() as ended:
        want, _ = finetuned(graph, store, made())
    (folder,) = ended
    assert latest(folder) is not None
    got, report = finetuned(graph, store, made())
    assert got == want and report.summary["resumed_from"] and not list(home().glob("*"))


def test_the_window_clears_what_a_worker_left_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker ends after two idle minutes, maybe before the result is saved; what it finished is not broken off."""
    work, (ours, theirs) = tmp_path / "work", multiprocessing.Pipe()
    work.mkdir()
    monkeypatch.setattr(worker, "_STATE", worker._State())
    opened = worker.handle(OpenJob("demo:digits-mlp", work), Channel(ours))
    base, recipe, begun = opened.project.base, Recipe((Step("finetune", made(), 1),)), time.monotonic()
    worker.handle(ReplayJob(base, recipe, opened.locations, work, SourceInfo("demo", "")), Channel(ours))
    monkeypatch.setattr(worker, "_STATE", worker._State())  # another process
    clear_finished(work, begun)
    assert interrupted_run(base, made(), 1) is not None, "the copy was begun before the training ended"
    clear_finished(work, time.monotonic() + 1)
    assert interrupted_run(base, made(), 1) is None and not list(home().glob("*"))
    theirs.close()


@pytest.mark.slow
def test_scales_masks_and_several_deaths() -> None:
    graph, store = drops()
    graph = compressed(graph, store)
    whole = made(keep="last")
    want, report = finetuned(graph, store, whole)
    for at in (5, 8, 9, 11):
        killed(graph, store, whole, at)
    got, again = finetuned(graph, store, whole)
    assert got == want and again.rows == report.rows and again.summary["resumed_from"] == 9
    moved = [n for n in graph.weights if n.endswith("scale")]
    assert moved and all(got.weights[n] != graph.weights[n] for n in moved)


@pytest.mark.slow
def test_another_training_does_not_go_on_from_it() -> None:
    graph, store = drops()
    killed(graph, store, made(), 8)
    for other in (made(learning_rate=1e-3), made(max_steps=13)):
        assert interrupted_run(graph, other, 1) is None
    assert interrupted_run(graph, made(), 2) is None and interrupted_run(compressed(graph, store), made(), 1) is None
    _, report = finetuned(graph, store, made(train_limit=90))
    assert "resumed_from" not in report.summary
    assert interrupted_run(graph, made(checkpoint_every=5, resume=False), 1) is not None  # the same in all that counts


@pytest.mark.slow
def test_the_beginning_can_be_asked_for() -> None:
    graph, store = drops()
    killed(graph, store, made(), 8)
    _, report = finetuned(graph, store, made(resume=False))
    assert "resumed_from" not in report.summary and not list(home().glob("*"))
    killed(graph, store, made(), 8)
    discard(graph, made(), 1)
    assert interrupted_run(graph, made(), 1) is None
    assert "resumed_from" not in finetuned(graph, store, made())[1].summary


@pytest.mark.slow
def test_other_samples_are_another_training(tmp_path: Path) -> None:
    """The file has changed since: the checkpoint is of no use."""
    graph, store = drops()
    options = made()
    killed(graph, store, options, 8)
    folder = latest(folder_of(graph, options, 1))
    assert folder is not None
    held = read(folder) | {"data": "other"}
    write(folder, held)
    assert "resumed_from" not in finetuned(graph, store, options)[1].summary


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["cut", "no json", "gone", "other keys"])
def test_a_damaged_checkpoint_is_a_new_beginning(harm: str) -> None:
    graph, store = drops()
    want, _ = finetuned(graph, store, made())
    killed(graph, store, made(), 8)
    folder = latest(folder_of(graph, made(), 1))
    assert folder is not None
    tensors, text = folder / "tensors.safetensors", folder / "state.json"
    match harm:
        case "cut":
            tensors.write_bytes(tensors.read_bytes()[:-100])
        case "no json":
            text.write_text("{")
        case "gone":
            tensors.unlink()
        case _:
            text.write_text('{"step": 6, "steps": 12, "held": {"items": [["step", 6]]}}')
    got, report = finetuned(graph, store, made())
    assert got == want and "resumed_from" not in report.summary
    assert "could not be read" in report.summary["warning"]


def test_a_checkpoint_that_was_cut_short_does_not_count(tmp_path: Path) -> None:
    """It gets its name when it is whole; the one before is deleted after that."""
    held = {
        "step": 3,
        "steps": 9,
        "data": "",
        "weights": {},
        "optimiser": {},
        "schedule": {},
        "chance": {},
        "parts": {},
    }
    for name in ("step-000000003", "step-000000006.part"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, held)
    assert latest(tmp_path) == tmp_path / "step-000000003" and read(tmp_path / "step-000000003") == held
    (tmp_path / "step-000000009").mkdir()  # nothing in it
    assert latest(tmp_path) == tmp_path / "step-000000003"


def test_all_kinds_of_values_come_back(tmp_path: Path) -> None:
    ones, low = torch.ones(2), torch.ones(3, dtype=torch.bfloat16)
    values = {0: [None, True, 1, -2.5, "x", (1, 2)], "t": ones, "same": ones, "low": low,
              "no": {"score": float("-inf")}, "scalar": torch.tensor(3.0)}  # fmt: skip
    write(tmp_path, {"step": 0, "steps": 0, "weights": values} | dict.fromkeys(
        ("data", "optimiser", "schedule", "chance", "parts")))  # fmt: skip
    found = read(tmp_path)["weights"]
    assert found[0] == values[0] and found["no"] == values["no"] and list(found) == list(values)
    for name in ("t", "same", "low", "scalar"):
        assert torch.equal(found[name], values[name]) and found[name].dtype == values[name].dtype
    with pytest.raises(TypeError, match="object"):
        write(tmp_path, {"step": 0, "steps": 0, "weights": object()})


def test_nothing_on_disk_could_run_code() -> None:
    graph, store = drops()
    killed(graph, store, made(), 8)
    files = [p for p in home().rglob("*") if p.is_file()]
    assert {p.name for p in files} == {"lock", "state.json", "tensors.safetensors", "trainer_state.json"}


@pytest.mark.slow
def test_a_full_disk_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, store = drops()
    want, _ = finetuned(graph, store, made())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("espalier.passes.training.checkpoint.write", full)
    got, report = finetuned(graph, store, made())
    assert got == want and "No space left" in report.summary["warning"]


def test_one_training_a_folder(state: Path) -> None:
    """A second process that trains the same writes no checkpoints, and takes none."""
    graph, store = drops()
    folder = folder_of(graph, made(), 1)
    first = Checkpoints(folder, Context(store), dict, 1, "")
    second = Checkpoints(folder, Context(store), dict, 1, "")
    assert not first.failed and "Another process" in second.failed and second.load(True) is None
    second.end(True)
    assert folder.is_dir()
    first.end(True)
    assert not folder.is_dir()


@pytest.mark.slow
def test_what_is_left_for_long_is_deleted(state: Path) -> None:
    graph, store = drops()
    killed(graph, store, made(), 8)
    (old,) = home().glob("*")
    past = time.time() - (DAYS + 1) * 24 * 3600
    for path in (*old.glob("*"), old):
        os.utime(path, (past, past))
    finetuned(graph, store, made(learning_rate=1e-3))
    assert not old.exists()


@pytest.mark.slow
def test_a_pause_writes_a_checkpoint_and_waits() -> None:
    graph, store = drops()
    want, _ = finetuned(graph, store, made(checkpoint_every=1000))
    asked, found = [False], list[Any]()

    def figure(name: str, step: int, value: float) -> None:
        asked[0] = asked[0] or (step == 7 and not found)

    def progress(done: int, total: int, text: str) -> None:
        if asked[0] and text == "training":
            found.append(interrupted_run(graph, made(), 1))
            asked[0] = False

    hooks: dict[str, Callable[..., Any]] = {"metric": figure, "progress": progress, "paused": lambda: asked[0]}
    got, _ = finetuned(graph, store, made(checkpoint_every=1000, accumulation=1), **hooks)
    assert [f.step for f in found] == [8] and got == want


@pytest.mark.slow
@pytest.mark.parametrize("at", [4, 8])
def test_a_pause_within_an_evaluation_begins_after_it(at: int) -> None:
    """Whoever dies while it waits loses nothing, the evaluation's figures included."""
    graph, store = drops()
    want, report = finetuned(graph, store, made(checkpoint_every=1000))
    asked = [False]

    def wait(done: int, total: int, text: str) -> None:
        if asked[0]:
            raise Killed
        asked[0] = text == "validating" and done == at

    with pytest.raises(Killed):
        finetuned(graph, store, made(checkpoint_every=1000), progress=wait, paused=lambda: asked[0])
    left = interrupted_run(graph, made(), 1)
    assert left is not None and left.step == at
    got, again = finetuned(graph, store, made())
    assert got == want and again.rows == report.rows and again.summary["resumed_from"] == at


# -- a real process


@cache
def digits() -> Opened:
    return open_source("demo:digits-mlp", Path(tempfile.mkdtemp(prefix="espalier-tests-")))


@pytest.fixture
def heard() -> list[JobEvent]:
    return []


@pytest.fixture
def runner(heard: list[JobEvent]) -> Iterator[JobRunner]:
    made = JobRunner(heard.append)
    yield made
    made.close()


@pytest.mark.slow
def test_a_killed_worker_loses_the_steps_since_its_checkpoint(
    runner: JobRunner, heard: list[JobEvent], tmp_path: Path
) -> None:
    def events(job: Any) -> list[Any]:
        return [e.event for e in list(heard) if e.job.id == job.id]

    def end(job: Any) -> Any:
        until(lambda: any(isinstance(e, TERMINAL) for e in events(job)))
        return events(job)[-1]

    def figures(job: Any) -> int:
        return sum(isinstance(e, Metric) and e.name == "training loss" for e in events(job))

    options = made(max_steps=400, checkpoint_every=5, keep="last")
    opened = end(runner.submit("open", OpenJob("demo:digits-mlp", tmp_path / "work"))).result
    base = opened.project.base
    job = ReplayJob(
        base, Recipe((Step("finetune", options, 1),)), opened.locations, tmp_path / "work", SourceInfo("demo", "")
    )
    first = runner.submit("train", job)
    until(lambda: figures(first) > 12)
    os.kill(runner.worker_pid or 0, signal.SIGKILL)
    assert isinstance(end(first), Failed)
    left = interrupted_run(base, options, 1)
    assert left is not None and left.step >= figures(first) - 5 - 2
    second = runner.submit("train", replace(job))
    until(lambda: figures(second) > left.step)
    runner.pause(second.id)
    until(lambda: second.state == "paused")
    done = figures(second)
    time.sleep(0.2)
    assert figures(second) == done
    runner.resume(second.id)
    result = end(second)
    assert isinstance(result, Done), result
    summary = result.result.results[-1].report.summary
    assert summary["resumed_from"] == left.step and summary["steps"] == 400
    assert [s for s, _ in second.metrics["training loss"]] == list(range(1, 401))
    store = digits().store
    want, _ = finetuned(digits().project.base, store, options)
    mine = WeightStore(tmp_path)
    mine.add(result.result.locations)
    for name, weight in result.result.graph.weights.items():
        assert torch.equal(to_torch(mine.get(weight.key)), to_torch(store.get(want.weights[name].key))), name
