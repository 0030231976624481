"""What a model writes in steps and hardware does as one: functions of one tensor, RMS norms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Node, Ref
from espalier.verilog.design.signal import Signal
from espalier.verilog.lowering.fusing import PASSES, Function, RmsNorm
from espalier.verilog.lowering.lower import Lowering, lowers, operand_ports
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding
from espalier.verilog.rules.activation import function_of, through
from espalier.verilog.rules.attention import needed
from espalier.verilog.rules.norm import multiplier_format
from espalier.verilog.rules.row_norm import normalised


@lowers("_steps")
def steps(low: Lowering, node: Node) -> None:
    """Whatever ends in `node`."""
    made = low.fused[node.id]
    if isinstance(made, RmsNorm):
        normalised(low, node, _operand(low, made), False, made.eps, _gamma(low, node, made))
        return
    to, rounding = needed(low, node)
    low.publish(node, through(low, node, _operand(low, made), _together(low, made), to, rounding))


def _operand(low: Lowering, made: Function | RmsNorm) -> Signal:
    """What it is computed of, in the format in which the first step takes it."""
    first = low.graph.nodes[made.first]
    return low.operand(first, made.source, "data_in")


def _gamma(low: Lowering, node: Node, made: RmsNorm) -> tuple[Codes, Fixed] | None:
    """The factors in the format of their port, or in 16 bits."""
    if made.gamma is None:
        return None
    values, port = low.value(made.gamma), next(p for r, p in operand_ports(node, low.graph) if r == made.gamma)
    assert values is not None
    form = low.chosen(node, port)
    rounding: Rounding = low.rounding(node, port) if form else "nearest_even"
    form = form or multiplier_format(values)
    return form.encode(values, rounding), form


def _together(low: Lowering, made: Function) -> Any:
    """All steps as one function on numpy's doubles."""
    nodes = [low.graph.nodes[n] for n in made.nodes]

    def function(x: NDArray[Any]) -> NDArray[Any]:
        held: dict[Ref, NDArray[Any]] = {made.source: np.asarray(x, np.float64)}
        for node in nodes:
            held[Ref(node.id)] = _step(node, held)
        return held[Ref(nodes[-1].id)]

    return function


def _step(node: Node, held: dict[Ref, NDArray[Any]]) -> NDArray[Any]:
    values = [held[a] if isinstance(a, Ref) else a for a in node.args]
    if node.op in PASSES:
        return values[0]  # type: ignore[return-value]
    if node.op == "relu":
        return np.maximum(values[0], 0)  # type: ignore[arg-type]
    if node.op not in ("add", "sub", "rsub", "mul", "div"):
        return function_of(node)(held[node.inputs[0]])
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
