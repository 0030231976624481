"""Each rule of a legal graph fires on a graph that breaks it, and on nothing else; size expressions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.document.graph_json import graph_from_json, graph_to_json, node_from_json, node_to_json
from espalier.model.errors import EspalierError, ProjectError
from espalier.model.formats.integer import Integer
from espalier.model.graph.check import RULES, check
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Adapter, Precision, Sparsity, TensorMeta
from espalier.model.symbols import evaluate
from espalier.model.torch.targets import function_of
from tests.model.zoo import MODELS, SLOW, case, slow
from tests.strategies import args, formats, metas, sparsities, words

Break = Callable[[Graph], Graph]


def with_node(graph: Graph, name: str, **changes: Any) -> Graph:
    return graph.replace(replace(graph[name], **changes))


def swapped(graph: Graph) -> Graph:
    names = list(graph.nodes)
    return replace(graph, nodes={n: graph.nodes[n] for n in (names[1], names[0], *names[2:])})


def without(graph: Graph, name: str) -> Graph:
    return replace(graph, nodes={k: n for k, n in graph.nodes.items() if k != name})


def renamed(graph: Graph) -> Graph:
    return replace(graph, nodes={**graph.nodes, "act": replace(graph["act"], id="other")})


SHAPE = {"data_out": TensorMeta(("batch*nothing", 3), "float32")}
ZERO = {"data_out": TensorMeta(("batch//(batch-3)", 3), "float32")}
ADAPTER = Adapter(2, 4.0, 0.0, "a", "b")
BREAKS: dict[str, tuple[Break, str | None, str]] = {
    "source-missing": (lambda g: without(g, "act"), "drop", "act, which does not exist"),
    "order": (swapped, "first", "is before its input x"),
    "shape-changed": (
        lambda g: with_node(g, "act", ports={**g["act"].ports, "data_out": TensorMeta((3,), "float32")}),
        "act",
        "keeps the shape",
    ),
    "own-output": (lambda g: with_node(g, "act", args=(Ref("act"),)), "act", "is before its input act"),
    "output-number": (lambda g: with_node(g, "act", args=(Ref("first", 1),)), "act", "output 1 of first"),
    "output-negative": (lambda g: with_node(g, "act", args=(Ref("first", -1),)), "act", "output -1 of first"),
    "no-output": (lambda g: without(g, "output"), None, "0 output nodes"),
    "two-outputs": (
        lambda g: replace(g, nodes={**g.nodes, "end": replace(g.output, id="end")}),
        None,
        "2 output nodes",
    ),
    "no-values": (lambda g: with_node(g, "output", args=()), "output", "value"),
    "names": (lambda g: replace(g, output_names=("a", "b"), structure="dict"), "output", "distinct name"),
    "few-names": (lambda g: replace(g, output_names=(), structure="dict"), "output", "distinct name"),
    "same-names": (
        lambda g: with_node(replace(g, output_names=("a", "a"), structure="dict"), "output", args=(Ref("x"), Ref("x"))),
        "output",
        "distinct name",
    ),
    "id": (renamed, "act", "has the id other"),
    "call": (lambda g: with_node(g, "act", call="call_method"), "act", "unknown call 'call_method'"),
    "weight": (lambda g: replace(g, weights={}), "first", "weight first.weight, which does not exist"),
    "precision-port": (
        lambda g: with_node(g, "first", precision={"data_inn": Precision(Integer())}),
        "first",
        "precision on data_inn",
    ),
    "precision-op": (lambda g: with_node(g, "act", precision={"weight": Precision(Integer())}), "act", "weight"),
    "sparsity-port": (
        lambda g: with_node(g, "act", sparsity={"weight": Sparsity("l1", 0.5, "local", None, 1)}),
        "act",
        "no port weight",
    ),
    "adapter-op": (lambda g: with_node(g, "act", adapters={"weight": ADAPTER}), "act", "cannot have an adapter"),
    "adapter-port": (lambda g: with_node(g, "first", adapters={"bias": ADAPTER}), "first", "adapter on bias"),
    "adapter-rank": (
        lambda g: with_node(g, "first", adapters={"weight": replace(ADAPTER, rank=0)}),
        "first",
        "invalid rank",
    ),
    "adapter-weights": (lambda g: with_node(g, "first", adapters={"weight": ADAPTER}), "first", "names a, which does"),
    "adapter-shapes": (
        lambda g: with_node(g, "first", adapters={"weight": replace(ADAPTER, a="first.bias", b="first.bias")}),
        "first",
        "but first needs (2, ",
    ),
    "symbol": (lambda g: with_node(g, "second", ports=SHAPE), "second", "cannot be evaluated"),
    "division": (lambda g: with_node(g, "second", ports=ZERO), "second", "cannot be evaluated"),
    "input-name": (lambda g: with_node(g, "x", target="x=print(1)"), "x", "cannot be used"),
    "input-keyword": (lambda g: with_node(g, "x", target="lambda"), "x", "cannot be used"),
    "keyword-name": (
        lambda g: with_node(g, "act", call="call_function", kwargs={"a=print(1), b": 1}),
        "act",
        "cannot be used",
    ),
    "module-name": (lambda g: with_node(g, "act", target='act"), print(1), ("'), "act", "cannot be used"),
    "module-class": (lambda g: with_node(g, "act", attrs={}), "act", "no class"),
    "call-without-input": (lambda g: with_node(g, "first", args=()), "first", "input"),
    "attribute-without-weight": (
        lambda g: with_node(g, "act", call="get_attr", op="get_attr", args=()),
        "act",
        "weight",
    ),
    "two-inputs-of-one-name": (
        lambda g: replace(g, nodes={"y": replace(g["x"], id="y"), **g.nodes}),
        "x",
        "name",
    ),
}


@pytest.mark.parametrize("name", list(BREAKS))
def test_each_rule_fires(name: str) -> None:
    change, node, message = BREAKS[name]
    graph = case("mlp").graph
    assert not check(graph)
    problems = check(change(graph))
    hits = [p for p in problems if p.node == node and message in p.message]
    assert hits and hits[0].severity == "error", problems


def test_every_rule_is_covered() -> None:
    graph = case("mlp").graph
    silent = [r.__name__ for r in RULES if not any(list(r(change(graph))) for change, _, _ in BREAKS.values())]
    assert silent == ["_opaque"]  # a warning, of which below


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_each_rule_fires_beside_the_graph_before(name: str) -> None:
    """Where only choices differ, only they are judged; anything else that differs has all rules run."""
    change, before = BREAKS[name][0], case("mlp").graph
    assert check(change(before), before) == check(change(before)) != []


def test_a_sound_choice_is_sound_beside_the_graph_before(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = case("mlp").graph
    monkeypatch.setattr("espalier.model.graph.check.RULES", ())
    chosen = with_node(graph, "first", precision={"weight": Precision(Integer(8, 4))})
    wrong = with_node(chosen, "first", precision={"strange": Precision(Integer(8, 4))})
    assert not check(chosen, graph) and [p.node for p in check(wrong, chosen)] == ["first"]


def test_foreign_code_is_a_warning_and_comes_last() -> None:
    graph = with_node(case("mlp").graph, "act", call="opaque", target="opaque.act")
    (problem,) = check(graph)
    assert (problem.node, problem.severity) == ("act", "warning")
    assert [p.severity for p in check(swapped(graph))] == ["error", "warning"]


# -- graphs in JSON


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in MODELS])
def test_real_graphs_round_trip(name: str) -> None:
    graph = case(name).graph
    back = graph_from_json(json.loads(json.dumps(graph_to_json(graph), allow_nan=False)))
    assert back == graph and list(back.nodes) == list(graph.nodes)
    assert [repr(n.args) for n in back] == [repr(n.args) for n in graph]
    assert [repr(n.attrs) for n in back] == [repr(n.attrs) for n in graph]


ports = st.dictionaries(words, metas, max_size=2)
nodes = st.builds(
    Node,
    st.just("n"),
    words,
    st.sampled_from(("placeholder", "get_attr", "call_module", "call_function", "opaque", "output")),
    words,
    st.lists(args, max_size=3).map(tuple),
    st.dictionaries(words, args, max_size=2),
    ports,
    st.dictionaries(words, words, max_size=2),
    st.dictionaries(words, args, max_size=2),
    st.none() | st.integers(1, 4),
    st.text(max_size=5),
    st.text(max_size=5),
    st.dictionaries(words, st.builds(Precision, formats), max_size=2),
    st.dictionaries(words, sparsities, max_size=2),
)


@pytest.mark.slow
@given(nodes)
@settings(derandomize=True, max_examples=100)
def test_any_node_round_trips(node: Node) -> None:
    back = node_from_json("n", json.loads(json.dumps(node_to_json(node), allow_nan=False)))
    assert back == node and repr(back.args) == repr(node.args) and repr(back.kwargs) == repr(node.kwargs)


@pytest.mark.parametrize("name", [n for n in BREAKS if n not in ("id",)])
def test_illegal_graphs_are_refused_when_read(name: str) -> None:
    broken = BREAKS[name][0](case("mlp").graph)
    with pytest.raises(ProjectError, match="graph in the file"):
        graph_from_json(json.loads(json.dumps(graph_to_json(broken))))


def builds_or_refuses(graph: Graph) -> None:
    try:
        case("mlp").build(graph)
    except EspalierError as error:
        assert error.hint


def paths(data: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [trail, *(p for k, v in inner for p in paths(v, (*trail, k)))]


MLP = json.dumps(graph_to_json(case("mlp").graph.replace(
    replace(case("mlp").graph["first"], precision={"weight": Precision(Integer(8, 4))}))))  # fmt: skip


TORCH = ["Linear", "aten.relu.default", "aten.save.default", "__class__", "first.bias", "get_attr", "call_function"]


@pytest.mark.slow
@given(
    st.sampled_from(paths(json.loads(MLP))[1:]),
    st.sampled_from([None, True, -1, 7, 1.5, "x", [], {}, [1], {"a": 1}, *TORCH]),
)
@settings(derandomize=True, max_examples=400)
def test_edited_graphs_are_read_or_refused(path: tuple[Any, ...], value: Any) -> None:
    """Whatever stands in a file: a legal graph that can be built, or one ProjectError."""
    data = json.loads(MLP)
    home = data
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = value
    try:
        graph = graph_from_json(data)
    except ProjectError as error:
        assert error.hint
    else:
        assert not [p for p in check(graph) if p.severity == "error"]
        builds_or_refuses(graph)
        assert graph_from_json(json.loads(json.dumps(graph_to_json(graph)))) == graph


# -- size expressions


@pytest.mark.parametrize(
    "text, value",
    [
        ("batch", 3),
        ("batch*seq + 1", 16),
        ("(seq - 1)//2", 2),
        ("-batch + 10", 7),
        ("seq % 2", 1),
        ("Mod(seq, 3)", 2),
        ("Max(batch, seq)", 5),
        ("Min(batch, seq, 2)", 2),
        ("FloorDiv(seq, 2)", 2),
        ("batch**2", 9),
    ],
)
def test_size_expressions(text: str, value: int) -> None:
    assert evaluate(text, {"batch": 3, "seq": 5}) == value


@pytest.mark.parametrize(
    "text",
    ["", "batch.real", "__import__('os')", "batch if 1 else 2", "'a'*9", "1.5*batch", "batch[0]", "1 +", "f(batch)",
     "9**9**9**9", "batch**-1", "True", "\0", "(" * 300, "-" * 5000 + "1", "batch/2"],
)  # fmt: skip
def test_other_expressions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size expression"):
        evaluate(text, {"batch": 3})


def test_unknown_symbols_are_named() -> None:
    with pytest.raises(KeyError, match="seq"):
        evaluate("batch*seq", {"batch": 3})


# -- hostile files


@pytest.mark.parametrize("shape", ["x={0}", 'x"); {0}; ("', "x'); {0}; ('", "x\n    {0}\n", "x,y={0}", "{0}"])
def test_names_cannot_run_code(shape: str, tmp_path: Path) -> None:
    """A build writes Python code with the graph's names in it: no text of a file may come to run there."""
    trap = tmp_path / "trap"
    payload = shape.format(f"open({str(trap)!r}, 'w')")
    text = json.dumps(graph_to_json(case("mlp").graph))
    hostile = [text.replace(json.dumps(old), json.dumps(payload)) for old in ("x", "first", "act", "first.weight")]
    for change in ({"kwargs": {payload: 1}}, {"args": [{"ref": ["first", 0]}, payload]}, {"source": payload}):
        data = json.loads(text)
        data["nodes"]["act"] |= {"call": "call_function", "target": "aten.relu.default", **change}
        hostile.append(json.dumps(data))
    hostile.append(json.dumps(json.loads(text) | {"output_names": [payload], "structure": "dict"}))
    for data in hostile:
        with contextlib.suppress(EspalierError, RuntimeError):
            graph = graph_from_json(json.loads(data))
            case("mlp").build(graph)(**{graph.placeholders[0].target: torch.zeros(2, 4)})
        assert not trap.exists()


@pytest.mark.parametrize("target", ["aten.save.default", "aten.from_file.default", "debugprims.load_tensor.default",
                                    "prim.Print.default", "builtins.open", "os.system", "torch.load",
                                    "_operator.setitem",
                                    "aten.relu", "aten", "aten.__class__.__mro__", ""])  # fmt: skip
def test_functions_outside_the_list_are_refused(target: str) -> None:
    with pytest.raises(ProjectError, match="does not know"):
        function_of(target)


def test_no_operator_of_a_package_reaches_files() -> None:
    """torchvision, which a user's own factory may import, adds `image.write_file`: a project must not call it."""
    library = torch.library.Library("espalier_test", "DEF")
    for told, allowed in (("write_file(str filename, Tensor x) -> ()", False), ("open(str? uri) -> Tensor", False),
                          ("shade(Tensor x, str mode) -> Tensor", True)):  # fmt: skip
        library.define(told)
        name = f"espalier_test.{told.partition('(')[0]}.default"
        if allowed:
            assert str(function_of(name)) == name
        else:
            with pytest.raises(ProjectError, match=r"espalier_test\."):
                function_of(name)
