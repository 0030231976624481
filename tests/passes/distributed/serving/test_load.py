"""When requests arrive, how they are put into batches, and what a killed process leaves of its answers."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
import torch

from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.trust import Origin
from espalier.passes.distributed.serving.answers import ANSWERS, Answer, Answers, Batches, answered
from espalier.passes.distributed.serving.load import MOST, Load, Samples
from espalier.passes.distributed.serving.loop import END, Queue, serve
from espalier.passes.distributed.serving.report import figures, outages, sent

MODELS = Path(__file__).parents[1] / "models.py"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph with the input x [batch, 3, 18, 18]."""
    folder = tmp_path_factory.mktemp("digits")
    return open_any(f"{MODELS}:digits", folder, cached=False, origin=Origin.TYPED).project.graph


def test_arrivals_are_a_poisson_process_with_a_seed() -> None:
    load = Load(8, rate=200.0, seconds=50.0, seed=3)
    times = load.arrivals()
    gaps = torch.tensor(times).diff()
    assert times == Load(4, rate=200.0, seconds=50.0, seed=3).arrivals() != Load(8, 200.0, 50.0, seed=4).arrivals()
    assert 0 < times[0] < times[-1] < 50 and abs(len(times) - 10_000) < 500  # five standard deviations
    assert abs(float(gaps.std() / gaps.mean()) - 1) < 0.1
    assert len(Load(8, rate=0.5, seconds=1.0, requests=30).arrivals()) == 30
    assert not Load(8).arrivals()


def test_batches_are_filled_up_to_few_sizes(graph: Graph) -> None:
    values = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 3, 18, 18)
    name = graph.placeholders[0].target
    exact, padded = Samples(graph, {name: values}), Samples(graph, {name: values}, 6)
    assert exact.batch(4, 3, "cpu")[name][:, 0, 0, 0].tolist() == [4, 5, 0]
    assert padded.batch(4, 3, "cpu")[name][:, 0, 0, 0].tolist() == [4, 5, 0, 0]
    assert [padded.size(n) for n in range(1, 7)] == [1, 2, 4, 4, 6, 6]
    assert padded.empty(5, "cpu")[name].shape == (6, 3, 18, 18)
    assert [p.dtype for p in padded.parts(padded.batch(0, 1, "cpu"))] == [torch.uint8]


@pytest.mark.parametrize("load", [Load(4, rate=4000.0, requests=21), Load(4, requests=21)])
def test_every_request_is_answered_once_and_in_order(load: Load, graph: Graph, tmp_path: Path) -> None:
    name = graph.placeholders[0].target
    samples = Samples(graph, {name: torch.randn(5, 3, 18, 18)})
    answers, shared = Answers(tmp_path), list[int]()
    answers.start()
    serve(Queue(load, answers, load.arrivals()), samples, lambda **x: x[name] * 2, "cpu", lambda n, _: shared.append(n))
    assert [n for n in shared if n > 0] == [b.count for b in answers.batches] and shared[-1] == END
    assert [b.first for b in answers.batches] == [
        sum(b.count for b in answers.batches[:i]) for i in range(len(answers.batches))
    ]
    found = figures(load, answers)
    assert found["requests"] == 21 == answered(tmp_path)
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]
    results = answers.results(answers.batches[0])
    assert results is not None and torch.equal(
        results["0"], samples.batch(0, answers.batches[0].count, "cpu")[name] * 2
    )


def test_a_closed_loop_ends_after_so_many_requests(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = graph.placeholders[0].target
    samples, load, answers = Samples(graph, {name: torch.randn(5, 3, 18, 18)}), Load(4, seconds=60.0), Answers(tmp_path)
    monkeypatch.setattr("espalier.passes.distributed.serving.loop.MOST", 22)
    answers.start()
    serve(Queue(load, answers, []), samples, lambda **x: x[name], "cpu")
    assert answers.answered == 22 and [b.count for b in answers.batches] == [4, 4, 4, 4, 4, 2]
    ends = [answers.begin, *(b.end for b in answers.batches)]
    assert sent(load, answers).tolist() == [ends[i] for i, b in enumerate(answers.batches) for _ in range(b.count)]


def test_a_million_batches_take_little_memory() -> None:
    batches = Batches()
    tracemalloc.start()
    for number in range(MOST // 20):
        batches.append(Answer(number, 1, 0.5, 1.5))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 20 * size < 64 << 20 and batches[-1] == Answer(MOST // 20 - 1, 1, 0.5, 1.5)


def test_answers_go_on_after_a_killed_process(tmp_path: Path) -> None:
    load = Load(2, rate=1.0, requests=6)
    first = Answers(tmp_path)
    first.start()
    first.add(2, time.monotonic(), [torch.ones(2)])
    with (tmp_path / ANSWERS).open("ab") as file:
        file.write(b'{"first": 2, "cou')  # killed while it wrote
    assert answered(tmp_path) == 2
    again = Answers(tmp_path)
    again.start(1)
    again.add(2, time.monotonic(), [torch.ones(2)])
    read = Answers(tmp_path)
    assert [(b.first, b.count) for b in read.batches] == [(0, 2), (2, 2)]
    assert [(s.restart, s.answered) for s in read.starts] == [(0, 0), (1, 2)]
    (outage,) = outages(load, read)
    assert outage["restart"] == 1
    assert outage["seconds"] == pytest.approx(read.batches[1].end - read.batches[0].end)


def test_answers_before_many_starts_count(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.start()
    answers.add(3, time.monotonic(), [torch.zeros(3)])
    for restart in range(1, 30):
        Answers(tmp_path).start(restart)
    assert answered(tmp_path) == 3 == Answers(tmp_path).answered
