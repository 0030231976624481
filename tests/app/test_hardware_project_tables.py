"""What a project keeps of its hardware: tables that survive, marked by the circuit that they are of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from espalier.app.features.hardware.state.project_tables import Front, RunResult, from_bytes, to_bytes
from espalier.app.session.circuit_identity import circuit_fingerprint, is_same_circuit
from espalier.model.errors import OptionsError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Parallel, Precision
from espalier.passes.analysis.balance_front import BalanceFrontOptions
from espalier.passes.analysis.hardware import HardwareOptions
from tests.gui.conftest import small_graph

SUMMARY = {"modules": ["linear"], "lint": {"tools": [], "findings": []}, "interval": 4.0, "cycles": 9,
           "bottleneck": "a", "instances": 1}  # fmt: skip
ROW = {"node": "fc1", "instance": "fc1", "module": "linear", "cycles": 64, "busy": 1.0, "waits": None, "lut": 7}

DESIGN = {"multipliers": 2, "interval": 9, "lut": 1, "dsp": 0, "fifos": {"lut": 1}}


def changed(graph: Graph, **what: object) -> Graph:
    return graph.replace(replace(graph.nodes["fc1"], **what))


def test_tables_come_back_without_the_files() -> None:
    graph = small_graph()
    made = RunResult("simulate", graph, HardwareOptions("/some/where", "chip", modules={"linear": "x"}), (ROW,),
                     SUMMARY,
                     {"top.sv": "text"})  # fmt: skip
    front = Front(graph, BalanceFrontOptions(8, "seq=4"), (DESIGN,))
    raw = to_bytes(made, front)
    assert raw is not None and b"/some/where" not in raw and b"text" not in raw
    again, chart = from_bytes(raw)
    assert again and chart and again.graph is None and again.mark == circuit_fingerprint(graph)
    assert (again.verb, again.rows, again.summary, again.name) == ("simulate", (ROW,), SUMMARY, "chip")
    assert again.copies == {"linear": "x"} and again.used({"linear": "y", "fifo": "z"}) == {"linear": "y"}
    assert (
        chart.rows == front.rows
        and chart.options == front.options
        and chart.mark == circuit_fingerprint(graph, parallel=False)
    )
    assert to_bytes(again, chart) == raw, "and stays as it is where nothing is run"
    assert to_bytes(None, None) is None


def test_an_edit_that_matters_is_told_from_one_that_does_not() -> None:
    graph = small_graph()
    for same in (changed(graph, source="elsewhere.py:3"), changed(graph, module_path="other")):
        assert is_same_circuit(same, graph) and circuit_fingerprint(same) == circuit_fingerprint(graph)
    chosen = {"weight": Precision(Integer(4, 2))}
    faster = changed(graph, parallel=Parallel(2, 1))
    for other in (changed(graph, precision=chosen), faster, changed(graph, op="conv1d")):
        assert not is_same_circuit(other, graph) and circuit_fingerprint(other) != circuit_fingerprint(graph)
    weights = {**graph.weights, "fc1.weight": replace(graph.weights["fc1.weight"], key="another")}
    assert not is_same_circuit(graph.with_weights(weights), graph) and circuit_fingerprint(
        graph.with_weights(weights)
    ) != circuit_fingerprint(graph)
    assert is_same_circuit(faster, graph, parallel=False) and circuit_fingerprint(
        faster, parallel=False
    ) == circuit_fingerprint(graph, parallel=False)


@pytest.mark.parametrize("raw", [
    b"", b"[]", b'{"version": 2}', b'{"version": 1, "made": {"verb": "check"}}',
    b'{"version": 1, "made": {"verb": "burn", "summary": {}, "rows": [], "options": {}}}',
    b'{"version": 1, "front": {"rows": [{"interval": "x", "fifos": {}}], "options": {}, "mark": ""}}',
])  # fmt: skip
def test_what_is_damaged_is_told(raw: bytes) -> None:
    with pytest.raises(OptionsError, match="cannot be read"):
        from_bytes(raw)


def test_a_front_without_its_fifos_is_computed_again() -> None:
    old = {k: v for k, v in DESIGN.items() if k != "fifos"}
    raw = to_bytes(None, Front(small_graph(), BalanceFrontOptions(8), (old,)))
    assert raw and from_bytes(raw) == (None, None)
