"""The profile: each node that runs, in its order, with what it took; of graphs, of formats, of recorded models."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.kernels.bench import other_load
from espalier.model.document.recipe import Step
from espalier.model.errors import DataError, ExportError, OptionsError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.passes.analysis.compile import _counted
from espalier.passes.analysis.profile import ProfileOptions
from espalier.passes.base import Context, Report, run_step
from espalier.passes.timed.profiler_spans import AT, RUN, Profile, host_events
from espalier.passes.timed.timeline import timeline
from tests.model.zoo import Case, case


def told(found: Case, graph: Graph, options: ProfileOptions) -> Report:
    context = Context(found.store, callables=found.traced.callables)
    return run_step(graph, Step("profile", options), context).report


def test_each_node_is_told_in_the_order_of_the_run() -> None:
    mlp = case("mlp")
    report = told(mlp, mlp.graph, ProfileOptions(batch_size=7, runs=3))
    ran = [n.id for n in mlp.graph if n.call not in ("placeholder", "get_attr", "output")]
    assert [r["node"] for r in report.rows] == ran
    assert all(r["seconds"] > 0 and r["rounding"] == 0 and r["calls"] == 1 for r in report.rows)
    assert sum(r["share"] for r in report.rows) == pytest.approx(1)
    one = told(mlp, mlp.graph, ProfileOptions(batch_size=7, runs=1))  # of several runs sums of medians may be more
    assert 0 < sum(r["seconds"] for r in one.rows) <= one.summary["seconds"] + 1e-6
    linear = next(r for r in report.rows if r["op"] == "linear")
    out = mlp.graph.nodes[linear["node"]].out
    assert out is not None and linear["allocated_bytes"] == 4 * out.elements(dict(mlp.graph.symbols) | {"batch": 7})
    assert linear["largest"].startswith("aten::") and linear["gflop_s"] > 0
    assert report.summary["batch"] == 7 and report.summary["peak_bytes"] >= linear["allocated_bytes"]
    assert report.summary["weights_bytes"] == 4 * sum(w.elements for w in mlp.graph.weights.values())


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp, options = case("mlp"), ProfileOptions(batch_size=2, runs=1)
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.4)
    found = told(mlp, mlp.graph, options).summary
    assert found["others"] == 0.4 and "Other programs took 40" in found["about"]
    monkeypatch.setattr(other_load.OtherLoad, "share", lambda _: 0.02)
    assert "Other programs" not in told(mlp, mlp.graph, options).summary["about"]


def test_what_a_gpu_tells_again_counts_once() -> None:
    def event(name: str, device: str, microseconds: float, *below: Any) -> Any:
        kind = SimpleNamespace(name=device)
        return SimpleNamespace(name=name, device_type=kind, self_device_time_total=microseconds, cpu_children=below)

    host, gpu = "CPU", "CUDA"
    events = [event("aten::addmm", host, 30.0), event("gemm", gpu, 30.0), event("aten::gelu", host, 10.0),
              event("gelu_kernel", gpu, 10.0), event(RUN, gpu, 40.0)]  # fmt: skip
    assert _counted(events, device=True) == (0.75, 2)
    assert [e.name for e in host_events(events)] == ["aten::addmm", "aten::gelu"]


def test_rounding_is_told_apart() -> None:
    mlp = case("mlp")
    node = next(n for n in mlp.graph if n.op == "linear")
    graph = mlp.graph.replace(replace(node, precision={"data_in": Precision(Integer(8, 4))}))
    report = told(mlp, graph, ProfileOptions(batch_size=4, runs=2))
    rounds = {r["node"]: r["rounding"] for r in report.rows}
    assert rounds.pop(node.id) > 0 and not any(rounds.values())


def test_a_recorded_model_is_seen_by_its_modules() -> None:
    found = case("choosy")
    report = told(found, found.graph, ProfileOptions(batch_size=2, runs=2))
    modules = {n.id for n in found.graph if n.call == "call_module"}
    assert report.rows and {r["node"] for r in report.rows} <= modules


def test_the_trace_is_a_file_of_its_own(tmp_path: Path) -> None:
    mlp, file = case("mlp"), tmp_path / "trace.json"
    linear = next(n for n in mlp.graph if n.op == "linear")
    graph = mlp.graph.replace(replace(linear, precision={"data_in": Precision(Integer(8, 4))}))
    report = told(mlp, graph, ProfileOptions(runs=1, trace=str(file)))
    trace = json.loads(file.read_text())
    names = {str(e.get("name")) for e in trace["traceEvents"]}
    assert report.summary["trace"] == str(file) and "aten::addmm" in names and "host_name" not in trace
    # what a reader of Perfetto looks for is called as on the graph
    assert {RUN, f"{linear.id}: rounding an operand", *(r["node"] for r in report.rows)} <= names
    assert not any(n.startswith(AT) and n != RUN for n in names)
    with pytest.raises(ExportError, match="unknown file type"):
        told(mlp, mlp.graph, ProfileOptions(trace="x.txt"))
    with pytest.raises(ExportError, match="could not be written"):
        told(mlp, mlp.graph, ProfileOptions(runs=1, trace=str(tmp_path / "nowhere" / "x.json")))


def on_a_full_disk(path: Path, text: str, **_: object) -> int:
    """Half of it is written."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text[: len(text) // 2])
    raise OSError(28, "No space left on device")


def test_a_trace_that_cannot_be_read_or_written_again_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ints or not at all; torch's own file is better than an end of the profile."""
    mlp, file = case("mlp"), tmp_path / "trace.json"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", on_a_full_disk)
        with pytest.raises(ExportError, match="No space"):
            told(mlp, mlp.graph, ProfileOptions(runs=1, trace=str(file)))
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("torch.profiler.profile.export_chrome_trace", lambda _, path: Path(path).write_text('{"a\\'))
    assert told(mlp, mlp.graph, ProfileOptions(runs=1, trace=str(file))).rows
    assert file.read_text() == '{"a\\' and list(tmp_path.iterdir()) == [file]


def test_bad_wishes() -> None:
    mlp = case("mlp")
    with pytest.raises(OptionsError, match="no device 'tpu'"):
        told(mlp, mlp.graph, ProfileOptions(device="tpu"))
    with pytest.raises(DataError, match="no"):
        told(mlp, mlp.graph, ProfileOptions(data="nothing.csv"))


def heard(found: Case, graph: Graph, options: ProfileOptions) -> tuple[Report, dict[str, Any]]:
    parts: list[Any] = []
    context = Context(found.store, callables=found.traced.callables, found=parts.append)
    report = run_step(graph, Step("profile", options), context).report
    return report, parts[0]["timeline"]


def test_the_timeline_is_of_one_run() -> None:
    mlp = case("mlp")
    report, told_ = heard(mlp, mlp.graph, ProfileOptions(batch_size=7, runs=1))
    nodes = [s for s in told_["spans"] if s[0] == "node"]
    assert [s[3] for s in nodes] == [r["node"] for r in report.rows]
    assert all(s[4] >= 0 and s[4] + s[5] <= told_["seconds"] + 1e-9 for s in told_["spans"])
    assert all(a[4] + a[5] <= b[4] + 1e-9 for a, b in itertools.pairwise(nodes))
    operations = [s for s in told_["spans"] if s[0] == "operation"]
    spots = {s[3]: s for s in nodes}
    assert operations and all(spots[s[3]][4] <= s[4] + 1e-9 for s in operations)
    assert {s[1] for s in operations} <= {1, 2, 3} and "aten::linear" in {s[2] for s in operations}
    sizes = [size for _, size in told_["held"]]
    assert max(sizes) == report.summary["peak_bytes"] and any(b < a for a, b in itertools.pairwise(sizes)), "freed too"
    assert json.loads(json.dumps(told_)) == told_


def test_kernels_of_a_device_belong_to_the_node_within() -> None:
    def event(name: str, device: str, begin: float, end: float) -> Any:
        span = SimpleNamespace(start=begin, end=end, elapsed_us=lambda: end - begin)
        return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device), time_range=span, cpu_children=[])

    events = [event(RUN, "CPU", 100, 200), event(f"{AT}0", "CPU", 110, 120), event(f"{AT}1", "CPU", 120, 130),
              event(RUN, "CUDA", 130, 190), event(f"{AT}0", "CUDA", 140, 160), event("gemm", "CUDA", 141, 159),
              event(f"{AT}1", "CUDA", 165, 180), event("gelu", "CUDA", 165, 175),
              event("copy", "CUDA", 185, 188)]  # fmt: skip
    made = timeline(
        Profile(0.0, events, [("a", False), ("b", True)], [(50.0, 9), (120.0, 64), (130.0, -64)]), cuda=True
    )
    assert [s[2:4] for s in made["spans"] if s[0] == "device"] == [["gemm", "a"], ["gelu", "b"], ["copy", ""]]
    assert [s[0] for s in made["spans"] if s[3] == "b"] == ["device", "rounding"]
    assert made["held"] == [[0.0, 0.0], [20e-6, 64.0], [30e-6, 0.0]]


def test_sizes_are_as_written() -> None:
    bert = case("bert")
    report, _ = heard(bert, bert.graph, ProfileOptions(batch_size=3, runs=1, sizes="seq=5"))
    longer, _ = heard(bert, bert.graph, ProfileOptions(batch_size=3, runs=1, sizes="seq=10"))
    first, second = (next(r for r in found.rows if r["op"] == "layer_norm") for found in (report, longer))
    assert second["allocated_bytes"] == 2 * first["allocated_bytes"] > 0
    for wrong, words in (("sqe=5", "no size 'sqe'. Did you mean 'seq'.$"), ("seq", "sizes has")):
        with pytest.raises(OptionsError, match=words):
            heard(bert, bert.graph, ProfileOptions(sizes=wrong))
    with pytest.raises(OptionsError, match="cannot be combined with data"):
        heard(bert, bert.graph, ProfileOptions(sizes="seq=5", data="some.csv"))
    with pytest.raises(DataError, match="cannot take inputs of seq=5000"):
        heard(bert, bert.graph, ProfileOptions(sizes="seq=5000", runs=1))
