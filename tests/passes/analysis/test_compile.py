"""Eager against compiled: whole models, formats, parts, recorded models; words that follow from the figures."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.torch.compiling import CACHE
from espalier.passes.analysis import compile as module
from espalier.passes.analysis.compile import CompileOptions, _difference, _line
from espalier.passes.base import Context, Report, run_step
from espalier.passes.timed.compile_explanation import CompileFacts, explanation
from espalier.passes.timed.rounded_weights import round_weights
from espalier.passes.timed.subgraph_call import subgraph_call
from tests.model.zoo import Case, case, tensors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def told(found: Case, graph: Graph | None = None, **options: Any) -> Report:
    context = Context(found.store, callables=found.traced.callables)
    wish = CompileOptions(**{"backend": "aot_eager", "runs": 5, "batch_size": 4, **options})
    return run_step(graph or found.graph, Step("compile", wish), context).report


def with_formats(found: Case) -> Graph:
    chosen = {"weight": Precision(Integer(8, 6)), "data_in": Precision(Integer(8, 4))}
    return found.graph.replace(*(replace(n, precision=chosen) for n in found.graph if n.op == "linear"))


def test_first_and_later_calls_are_told_apart() -> None:
    mlp = case("mlp")
    report = told(mlp, with_formats(mlp))
    assert [r["version"] for r in report.rows] == ["eager", "captured", "compiled"]
    assert all(r["first"] > 0 and r["least"] <= r["seconds"] and r["calls"] >= 5 for r in report.rows)
    found = report.summary
    assert found["graphs"] == 1 and found["breaks"] == "" and found["max_error"] == 0
    assert found["compile_seconds"] == pytest.approx(report.rows[2]["first"] - report.rows[0]["first"])
    saved = report.rows[0]["least"] - report.rows[2]["least"]
    assert found["break_even_calls"] == (max(1, math.ceil(1 + found["compile_seconds"] / saved)) if saved > 0 else None)
    assert found["why"] and 0 < found["products_share"] <= 1 and found["operations"] > 0


def test_all_versions_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others do meanwhile then meets each alike, and their ratios hold."""
    order = list[str]()
    rounds = module._rounds

    def noted(versions: dict[str, Any], *rest: Any) -> dict[str, list[float]]:
        def call(name: str) -> Any:
            return lambda: (order.append(name), versions[name]())[1]

        return rounds({name: call(name) for name in versions}, *rest)

    monkeypatch.setattr(module, "_rounds", noted)
    report = told(case("mlp"))
    assert order[:6] == ["eager", "captured", "compiled"] * 2
    assert len({r["calls"] for r in report.rows}) == 1


def test_a_busy_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.OtherLoad, "share", lambda _: 0.4)
    found = told(case("mlp")).summary
    assert found["others"] == 0.4 and "Other programs took 40" in found["why"] and "scatter" not in found["why"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler on the CPU")
def test_inductor_computes_the_same_and_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(CACHE, raising=False)
    mlp = case("mlp")
    if " " in torch.__file__:
        with pytest.raises(OptionsError, match="space"):
            told(mlp, backend="inductor")
        return
    assert told(mlp, with_formats(mlp), backend="inductor").summary["max_error"] < 1e-5
    left = [p for p in tmp_path.rglob("*") if "precompiled_headers" not in p.parts]  # which torch keeps for later
    assert left == [*tmp_path.glob("torchinductor_*")]


def test_each_call_is_told() -> None:
    mlp, parts = case("mlp"), list[Any]()
    context = Context(mlp.store, callables=mlp.traced.callables, found=parts.append)
    wish = CompileOptions(backend="aot_eager", runs=5, batch_size=4)
    report = run_step(mlp.graph, Step("compile", wish), context).report
    calls = parts[0]["calls"]
    assert list(calls) == [r["version"] for r in report.rows] and parts[0]["breaks"] == []
    for row in report.rows:
        found = calls[row["version"]]
        assert found["first"] == row["first"] and min(found["later"]) == row["least"]
        assert len(found["later"]) == row["calls"]


def test_a_model_that_breaks_says_where() -> None:
    report = told(case("choosy"))
    assert report.summary["graphs"] >= 2 and report.summary["breaks"]
    assert "graphs" in report.summary["why"]
    assert ".py, line " in report.summary["breaks"] and "Hint:" not in report.summary["breaks"]


def test_breaks_are_listed_and_not_logged_as_well() -> None:
    log = logging.getLogger("torch._dynamo.variables.tensor")
    before = log.isEnabledFor(logging.WARNING)
    with module._unlogged():
        assert not log.isEnabledFor(logging.WARNING)
    assert log.isEnabledFor(logging.WARNING) == before


def test_a_break_is_told_in_a_sentence() -> None:
    text = "Unsupported call\n  Explanation: Dynamo cannot.\n  Hint: Set this.\n\n  Developer debug context: x"
    place = SimpleNamespace(filename="/home/me/net.py", lineno=11, name="forward")
    told = _line(SimpleNamespace(reason=text, user_stack=[place]))
    assert told == "Unsupported call: Dynamo cannot. (net.py, line 11, in forward)"
    assert _line(SimpleNamespace(reason="no more words", user_stack=[])) == "no more words"
    assert len(_line(SimpleNamespace(reason="word " * 100, user_stack=[]))) <= 200


def test_a_part_runs_on_what_reaches_it() -> None:
    bert = case("bert")
    graph, inputs = with_formats(bert), bert.fresh(2, 9)
    whole = bert.build(graph)
    node = next(n for n in graph if n.op == "linear" and "query" in n.target)
    part = node.target.rpartition(".attention.")[0]
    with torch.no_grad():
        found = tensors(subgraph_call(whole, graph, part, inputs)())
        linear = tensors(subgraph_call(whole, graph, node.id, inputs)())
        other = next(n for n in graph if n.op == "linear" and "key" in n.target)
        both = tensors(subgraph_call(whole, graph, f"{node.id}, {other.target}", inputs)())
        seen: list[torch.Tensor] = []
        hook = whole.get_submodule(node.target).register_forward_hook(lambda m, i, o: seen.append(o))
        whole(**inputs)
        hook.remove()
    assert torch.equal(linear[0], seen[0]) and found and found[0].shape == (2, 9, 16)
    assert len(both) == 2 and torch.equal(both[0], linear[0])
    with pytest.raises(OptionsError, match="No part"):
        subgraph_call(whole, graph, "nowhere", inputs)


def test_settled_weights_compute_the_same() -> None:
    mlp = case("mlp")
    graph, inputs = with_formats(mlp), mlp.fresh(3, 1)
    with torch.no_grad():
        want = tensors(mlp.build(graph)(**inputs))[0]
        assert torch.equal(tensors(round_weights(mlp.build(graph))(**inputs))[0], want)


def test_what_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionsError, match="no device"):
        told(case("mlp"), device="tpu")
    monkeypatch.setattr(module, "has_compiler", lambda: False)
    with pytest.raises(OptionsError, match=r"C\+\+ compiler"):
        told(case("mlp"), backend="inductor")
    monkeypatch.setattr(module, "has_compiler", lambda: True)
    monkeypatch.setattr("espalier.kernels.bench.machine.has_space_in_torch_path", lambda: True)
    with pytest.raises(OptionsError, match="contains a space"):
        told(case("mlp"), backend="inductor")

    def failing(*_: Any, **__: Any) -> Any:
        def fails() -> None:
            raise RuntimeError("no such thing")

        return fails

    monkeypatch.setattr(torch, "compile", failing)
    with pytest.raises(PassError, match="could not be compiled: RuntimeError: no such thing"):
        told(case("mlp"))


def test_words_follow_from_figures() -> None:
    slower = explanation(CompileFacts(1e-4, 2e-4, 1.5e-4, 1, 0.9, 10))
    assert slower[0] == "Compiled code takes 2.00 times the eager time."
    assert any("90%" in w for w in slower) and any("50 µs a call" in w for w in slower)
    assert any("50 µs a call more than torch's operations" in w for w in slower) and not any(
        "scatter" in w for w in slower
    )
    assert "±60%" in explanation(CompileFacts(1e-4, 1e-4, 1e-4, 1, 0.2, 1, spread=0.6))[-1]
    # where times scatter, a difference between them is not told as guards
    assert "Checking guards" not in " ".join(explanation(CompileFacts(1e-4, 1e-4, 2e-4, 1, 0.2, 1, spread=0.6)))
    assert "Checking guards" in " ".join(explanation(CompileFacts(1e-4, 1e-4, 2e-4, 1, 0.2, 1)))
    faster = explanation(CompileFacts(2e-4, 1e-4, 2e-4, 3, 0.2, 100))
    assert faster[0] == "Compiled code takes 50% of the eager time." and any("3 graphs" in w for w in faster)
    assert any("2 µs" in w for w in faster) and any("80%" in w for w in faster)
    assert explanation(CompileFacts(1e-4, 1e-4, 1e-4, 1, 0.2, 1)) == ["Compiled and eager take the same time."]


@pytest.mark.parametrize("compiled", [1e-4, 2e-4, 4e-4])
def test_a_backend_without_code_of_its_own_is_not_said_to_fuse(compiled: float) -> None:
    for products in (0.2, 0.9):
        text = " ".join(explanation(CompileFacts(2e-4, compiled, 2e-4, 1, products, 100, fuses=False)))
        assert "generates no code" in text
        assert not any(w in text for w in ("fuse", "loops", "little is left"))


def test_a_difference_that_is_no_number_is_not_lost() -> None:
    inf, nan = float("inf"), float("nan")
    one, other = torch.tensor([1.0, inf, nan]), torch.tensor([1.5, inf, nan])
    assert _difference((one, other), (other, other)) == 0.5  # alike where both are infinite or no numbers
    broken = torch.tensor([1.0, nan, nan])
    assert math.isnan(_difference((one, other), (other, broken))) and math.isnan(_difference([broken, one], [one, one]))
