"""Operands have names: several in one list are numbered, and take the format of the first where they have none."""

from __future__ import annotations

from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Node, Ref
from espalier.model.graph.meta import Precision, TensorMeta
from espalier.model.graph.operands import operands, refreshed
from espalier.model.graph.ports import choice

FLAT = TensorMeta((4, 4), "float32")
NODES = {name: Node(name, "placeholder", "placeholder", name, ports={"data_out": FLAT}) for name in "abc"}


def test_operands_in_a_list_are_numbered() -> None:
    found = operands("cat", ((Ref("a"), Ref("b"), Ref("c")), 1), {}, NODES)
    assert [got[0] for got in found if got] == ["data_in", "data_in_1", "data_in_2"]


def test_all_that_is_put_together_takes_the_format_of_data_in() -> None:
    int8 = Precision(Integer(8, 4))
    joined = Node("y", "cat", "call_function", "aten.cat.default", ((Ref("a"), Ref("b")),),
                  ports={"data_out": FLAT}, precision={"data_in": int8})  # fmt: skip
    joined = refreshed(joined, NODES)
    assert choice(joined, "data_in") == int8
    assert choice(joined, "data_in_1") == int8
