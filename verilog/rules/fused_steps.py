"""Rule of fused nodes: functions of one tensor as one table, and RMS norms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node, Ref
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.fusing import PASSES, Function, RmsNorm
from espalier.verilog.lowering.lower import Lowering, lowers, operand_ports
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding
from espalier.verilog.rules.activation import apply_table, function_of
from espalier.verilog.rules.attention import required_format
from espalier.verilog.rules.norm import multiplier_format
from espalier.verilog.rules.row_norm import normalised


@lowers("_steps")
def steps(low: Lowering, node: Node) -> None:
    """The fused group that ends in `node`."""
    group = low.fused[node.id]
    if isinstance(group, RmsNorm):
        normalised(low, node, _operand(low, group), False, group.eps, _gamma(low, node, group))
        return
    to, rounding = required_format(low, node)
    low.publish(node, apply_table(low, node, _operand(low, group), _composed(low, group), to, rounding))


def _operand(low: Lowering, group: Function | RmsNorm) -> Signal:
    """The operand of a group, in the format of its first step."""
    first = low.graph.nodes[group.first]
    return low.operand(first, group.source, "data_in")


def _gamma(low: Lowering, node: Node, group: RmsNorm) -> tuple[Codes, Fixed] | None:
    """Codes of gamma in the format of its port, or in 16 bits."""
    if group.gamma is None:
        return None
    values, port = low.value(group.gamma), next(p for r, p in operand_ports(node, low.graph) if r == group.gamma)
    assert values is not None
    form = low.chosen(node, port)
    rounding: Rounding = low.rounding(node, port) if form else "nearest_even"
    form = form or multiplier_format(values)
    return form.encode(values, rounding), form


def _composed(low: Lowering, group: Function) -> Any:
    """The composition of all steps, on NumPy arrays in double precision."""
    nodes = [low.graph.nodes[n] for n in group.nodes]

    def function(x: NDArray[Any]) -> NDArray[Any]:
        results: dict[Ref, NDArray[Any]] = {group.source: np.asarray(x, np.float64)}
        for node in nodes:
            results[Ref(node.id)] = _step(node, results)
        return results[Ref(nodes[-1].id)]

    return function


def _step(node: Node, results: dict[Ref, NDArray[Any]]) -> NDArray[Any]:
    values = [results[a] if isinstance(a, Ref) else a for a in node.args]
    if node.op in PASSES:
        return values[0]  # type: ignore[return-value]
    if node.op == "relu":
        return np.maximum(values[0], 0)  # type: ignore[arg-type]
    if node.op not in ("add", "sub", "rsub", "mul", "div"):
        return function_of(node)(results[node.inputs[0]])
    a, b = (np.asarray(v, np.float64) for v in values)
    match node.op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "rsub":
            return b - a
        case "mul":
            return a * b
        case _:
            return a / b
