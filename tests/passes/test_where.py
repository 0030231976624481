"""Selection by expressions: against plain Python over the same graph, and against hostile texts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import espalier as es
from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Node
from espalier.passes.select import Select, chosen, matches
from espalier.passes.where import FACTS, MAX_CHARACTERS, holds
from tests.patience import budget


@pytest.fixture(scope="module")
def model() -> es.Model:
    """Linear layers of several sizes, one quantised to four bits, one pruned."""
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 4))
    made = es.trace(net, torch.randn(2, 16))
    return made.quantize("0", weight="int4").prune("2", sparsity=0.5)  # type: ignore[attr-defined]


CASES: list[tuple[str, set[str]]] = [
    ('op == "linear"', {"0", "2", "4"}),
    ('type == "Linear" and params > 500', {"0", "2"}),
    ('op == "linear" and bits <= 8', {"0"}),
    ("bits == 32 and params == 32 * 32 + 32", {"2"}),
    ("0 < sparsity <= 0.5", {"2"}),
    ('category in ("norm", "activation")', {"1", "3"}),
    ("features_in > features_out", {"4"}),
    ('not (op == "linear") and inputs == 1', {"1", "3", "output"}),
    ('path == "3"', {"3"}),
    ('"in" in name', {"input"}),
    ("params / 2 == 32", {"3"}),
    ("-params < -500 or params % 2 == 0 and params > 60", {"0", "2", "3", "4"}),
]


@pytest.mark.parametrize(("expression", "names"), CASES)
def test_expressions_select(model: es.Model, expression: str, names: set[str]) -> None:
    found = chosen(model.project.graph, Select("where", (expression,)), lambda n: True, "found")
    assert {n.id for n in found} == names


def test_in_the_interface_and_in_recipes(model: es.Model) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    one = es.trace(net, torch.randn(2, 16)).quantize("where:params > 200", weight="int8")  # type: ignore[attr-defined]
    assert [n.id for n in one.project.graph if n.precision] == ["0"]
    other = es.trace(net, torch.randn(2, 16)).prune({"by": "where", "values": ["params < 200"]}, sparsity=0.5)  # type: ignore[attr-defined]
    assert [n.id for n in other.project.graph if n.sparsity] == ["2"]


WRONG = [
    "", "op ==", "__import__('os')", "name.upper()", "[x for x in (1,)]", "params ** 9", "lambda: 1", "nonsense > 1",
    "op > 3", '"a" * 9', '"a" + 1 > 2', "params if op else 1", 'f"{op}"', "op[0]", "1 << 9", "None", "b'x'", "...",
    "1j", "{1: 2}", "{1}", "(a := 1)", "params is 1", "await op", "*op",
]  # fmt: skip


@pytest.mark.parametrize("expression", WRONG)
def test_what_is_no_expression_is_refused(model: es.Model, expression: str) -> None:
    with pytest.raises(OptionsError) as caught:
        holds(expression, next(iter(model.project.graph)))
    assert caught.value.hint


@pytest.mark.parametrize("expression", [
    "(" * 400 + "1" + ")" * 400, "-" * 900 + "1", "9" * 900 + " > params", "not " * 240 + "1", "1" + "+1" * 480,
    "1e308 * 1e308 > 1", "1 / 0 > 1", "params % 0 == 1", "op == '" + "x" * MAX_CHARACTERS + "'",
])  # fmt: skip
def test_hostile_texts_end_at_once(model: es.Model, expression: str) -> None:
    begun = time.process_time()
    try:
        assert holds(expression, next(iter(model.project.graph))) in (True, False)
    except OptionsError as error:
        assert len(error.message) < 3 * MAX_CHARACTERS
    assert time.process_time() - begun < budget(1)


ATOMS: dict[str, Callable[[Node], bool]] = {
    'op == "linear"': lambda n: n.op == "linear",
    "params > 500": lambda n: _params(n) > 500,
    "inputs >= 1": lambda n: len(set(n.inputs)) >= 1,
    '"1" in name': lambda n: "1" in n.id,
}


def _params(node: Node) -> int:
    metas: Any = [node.ports[p] for p in ("weight", "bias") if p in node.ports]
    return sum(torch.Size(m.shape).numel() for m in metas)


Tree = st.recursive(
    st.sampled_from(sorted(ATOMS)).map(lambda t: (f"({t})", ATOMS[t])),
    lambda inner: st.one_of(
        inner.map(lambda a: (f"(not {a[0]})", lambda n: not a[1](n))),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} and {p[1][0]})", lambda n: p[0][1](n) and p[1][1](n))),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} or {p[1][0]})", lambda n: p[0][1](n) or p[1][1](n))),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(tree=Tree)
def test_logic_is_pythons(model: es.Model, tree: tuple[str, Callable[[Node], bool]]) -> None:
    for node in model.project.graph:
        assert matches(node, Select("where", (tree[0],))) == tree[1](node)


def test_facts_are_described_and_nothing_found_is_said(model: es.Model) -> None:
    assert all(text and get(n) is not None for get, text in FACTS.values() for n in model.project.graph)
    with pytest.raises(PassError, match="matches no node") as caught:
        chosen(model.project.graph, Select("where", ("params > 1e9",)), lambda n: True, "found")
    assert "expression" in caught.value.hint
