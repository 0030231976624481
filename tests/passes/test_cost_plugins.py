"""Costs from outside: a plug-in's estimates of hardware are budgets, limits and figures as any other; so are times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ops import macs, spec
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin
from espalier.passes.analysis.layer_latency import LayerLatencyOptions
from espalier.passes.base import Context, run_step
from espalier.passes.costs.base import Cost, cost, figures
from espalier.passes.plugins.plugins import unload_plugins
from espalier.passes.score import static_score
from espalier.passes.timed import layer_times

MLP = "demo:digits-mlp"
PLUGIN = '''
"""What a multiplier of these widths takes in an array of a multiplier for each weight, as a synthesis might tell."""
from espalier.model.graph.ops import spec
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.score import one_sample, port_bits

PORTS = ("data_in", "weight")


def widths(node, graph):
    sizes = one_sample(graph)
    return [min(port_bits(node, p, sizes), 32.0) for p in PORTS]


def many(node, graph):
    return sum(graph.weights[w].elements for p, w in node.weights.items() if p == "weight")


def luts(node, graph):
    if not spec(node.op).macs:
        return 0.0
    a, b = widths(node, graph)
    return many(node, graph) * (0.0 if max(a, b) > 8 else a * b + 4.0)


def dsps(node, graph):
    return float(many(node, graph)) if spec(node.op).macs and max(widths(node, graph)) > 8 else 0.0


def turns(graph, score):
    """Of the slowest stage of a pipeline: no sum, so no budget, but a limit of a search."""
    return max((many(n, graph) / 64.0 for n in graph if spec(n.op).macs), default=0.0)


def add(name, title, unit, of):
    total = lambda graph, score: sum(of(n, graph) for n in graph)
    COSTS.add(name, Cost(name, title, unit, "low", "estimated", of=total, shares=Shares(node=of, ports=PORTS)))


add("luts", "LUTs", "LUT", luts)
add("dsps", "DSPs", "DSP", dsps)
COSTS.add("turns", Cost("turns", "Cycles", "", "low", "of the slowest layer", of=turns))
'''
FORMATS = "integer(width=2|4|8|16)"


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_any(MLP, tmp_path_factory.mktemp("mlp"), origin=Origin.TYPED)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    path = tmp_path / "hardware.py"
    path.write_text(PLUGIN)
    yield path
    unload_plugins()


def told(capsys: pytest.CaptureFixture[str], *words: object) -> dict:  # type: ignore[type-arg]
    assert main([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_estimates_of_hardware_are_budgets_and_limits(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--plugin", plugin, "--data", MLP, "--limit", 64, "--ports", "weight,data_in")
    words = ("allocate", MLP, "--budget", "luts<=200000", "--budget", "dsps<=0", "--formats", FORMATS, *common)
    made = told(capsys, *words)
    assert 50_000 < made["figures"]["luts"] <= 200_000 and made["figures"]["dsps"] == 0
    assert made["figures"]["turns"] > 0, "what is no sum is told all the same"
    assert not any("width=16" in c["format"] for c in made["chosen"]), "that would take DSPs"
    assert main(["allocate", MLP, "--budget", "turns<=1", *map(str, common)]) == 2
    assert "is not a sum over layers" in capsys.readouterr().err


def test_estimates_of_hardware_limit_a_search(plugin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec_file = tmp_path / "s.toml"
    spec_file.write_text(
        'goals = ["luts"]\nwithin = ["dsps<=0", "turns<=1000"]\nsampler = "grid"\ntrials = 3\n[[space]]\nper = "all"\n'
        'ports = ["weight", "data_in"]\nvalues = "integer(width=4|8|16)"\n'
    )
    found = told(capsys, "search", MLP, spec_file, "--plugin", plugin)
    assert found["best"]["params"] == {"all.weight+data_in": "integer(width=4)"}
    feasible = {t["params"]["all.weight+data_in"]: t["feasible"] for t in found["trials"]}
    assert feasible["integer(width=8)"] and not feasible["integer(width=16)"]
    spec_file.write_text(spec_file.read_text().replace("dsps<=0", "luts<=1"))
    assert main(["search", MLP, str(spec_file), "--plugin", str(plugin), "--study", "t"]) == 2
    assert "luts<=1 cannot be held: the least possible is" in capsys.readouterr().err


# -- times of layers


def of(graph: Graph, name: str, **formats: str) -> tuple[Graph, Node]:
    held = {p: Precision(parse_format(f)) for p, f in formats.items()}
    node = replace(graph[name], precision=held)
    return graph.replace(node), node


def test_the_times_of_layers_add_up(mlp: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    graph, wish = mlp.project.base, cost("layer_latency")
    assert wish.shares and wish.shares.node and wish.of
    assert math.isnan(wish.of(graph, static_score(graph))) and "layer_latency" not in figures(
        graph, static_score(graph)
    )
    with pytest.raises(OptionsError, match="take on this machine has not been measured"):
        wish.shares.node(graph["fc1"], graph)
    formats = tuple(map(parse_format, ("integer(width=4)", "mxint(width=8)")))
    step = Step("layer_latency", LayerLatencyOptions(MLP, batch_size=8, formats=formats))
    report = run_step(graph, step, Context(mlp.store, base=graph)).report
    assert report.summary["batch"] == 8 and "simulated" in report.summary["about"]
    times = {r["node"]: r["seconds"] for r in report.rows if not r["port"]}
    layers = [n.id for n in graph if spec(n.op).macs and macs(n, {"batch": 1})]
    assert set(layers) <= set(times) and all(times[n] > 0 for n in layers)
    assert wish.of(graph, static_score(graph)) == pytest.approx(sum(times.values()))
    plain = wish.shares.node(graph["fc1"], graph)
    _, stored = of(graph, "fc1", weight="integer(width=4, frac_width=3)")
    assert wish.shares.node(stored, graph) == plain, "a stored weight is rounded once"
    _, flows = of(graph, "fc1", data_in="integer(width=4, frac_width=1)")
    assert wish.shares.node(flows, graph) > plain, "what flows in is rounded each time, wherever its binary point is"
    other, strange = of(graph, "fc1", data_in="integer(width=5)")
    with pytest.raises(OptionsError, match="has not been measured"):
        wish.shares.node(strange, graph)
    assert math.isnan(wish.of(other, static_score(other)))
    assert wish.measure is not None
    assert wish.measure(other, LayerLatencyOptions(MLP, batch_size=8), Context(mlp.store, base=graph)) > 0
    assert wish.of(graph, static_score(graph)) > 0 and layer_times.known() is not None, "what was known stays"


def test_a_file_of_times_that_is_broken_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    for text in ("{", "[]", '{"batch": 1}', '{"batch": 1, "layers": [], "rounding": {}, "formats": []}'):
        layer_times.path().write_text(text)
        layer_times._read = (("", 0), None)
        assert layer_times.known() is None


def test_times_are_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_CACHE", str(tmp_path))
    words = ("allocate", MLP, "--data", MLP, "--formats", "integer(width=4), mxint(width=8)", "--ports", "data_in")
    front = told(capsys, *words, "--front", 8, "--cost", "layer_latency")["front"]
    assert front[0]["layer_latency"] > 0
    budget = front[-1]["layer_latency"] * 3
    made = told(capsys, *words, "--budget", f"layer_latency<={budget}")
    assert 0 < made["figures"]["layer_latency"] <= budget


def test_a_cost_says_which_way_is_better() -> None:
    with pytest.raises(OptionsError, match="The cost traffic has better='lower'") as found:
        Cost("traffic", "Traffic", "bytes", "lower", "bytes read", of=lambda graph, score: 0.0)  # type: ignore[arg-type]
    assert "'low' or 'high'" in found.value.hint
