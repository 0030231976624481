"""What layers take as hardware: tables, DSP blocks and cycles, from the formats and the parallelism of each node.

A closed form of the estimates that `emit` tells of whole designs, for Linear layers, convolutions and matmuls; what
lies between them (FIFOs, windows, functions) comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from model.errors import OptionsError
from model.formats.integer import Integer
from model.graph import Graph, Node
from model.meta import Parallel
from model.ops import spec
from passes.costs.base import COSTS, Cost, Shares
from passes.score import one_sample

if TYPE_CHECKING:
    from verilog.templates.base import Area

PORTS = ("data_in", "weight")
LAYERS = ("linear", "conv1d", "conv2d", "matmul")


def folded(node: Node, sizes: dict[str, int]) -> tuple[int, int, int, int]:
    """(rows, inputs, outputs, matrices) of a node's product in one sample."""
    x, w = node.ports["data_in"].sizes(sizes), node.ports["weight"].sizes(sizes)
    if node.op == "linear":
        return math.prod(x[:-1]), w[1], w[0], 1
    if node.op == "matmul":
        matrices = math.prod(w[:-2])
        return math.prod(x[:-1]), w[-2], w[-1], matrices
    groups = x[1] // w[1]
    return math.prod(node.ports["data_out"].sizes(sizes)[2:]) * groups, math.prod(w[1:]), w[0] // groups, groups


def cycles_of(node: Node, graph: Graph) -> float:
    """Cycles of a sample."""
    rows, inputs, outputs, _ = folded(node, one_sample(graph))
    at_once = node.parallel or Parallel()
    return math.ceil(rows / at_once.tokens) * math.ceil(inputs / at_once.inputs) * math.ceil(outputs / at_once.outputs)


def area_of(node: Node, graph: Graph) -> Area:
    """What its product takes; raises OptionsError where a format is not fixed point."""
    from verilog.area.model import estimate

    rows, inputs, outputs, many = folded(node, one_sample(graph))
    at_once = node.parallel or Parallel()
    x, w = (_fixed(node, port) for port in PORTS)
    held = node.precision.get("data_out")
    y: Integer = _fixed(node, "data_out") if held is not None else x
    wide, frac = x.width + w.width + (inputs - 1).bit_length(), x.frac_width + w.frac_width
    shared = {
        "PAR_IN": at_once.inputs, "PAR_OUT": at_once.outputs, "TOKENS": at_once.tokens, "X_W": x.width,
        "X_S": int(x.signed), "B_W": wide, "ACC_W": wide, "ACC_F": frac, "Y_W": y.width, "Y_F": y.frac_width,
        "Y_S": int(y.signed), "MODE": int(x.rounding == "nearest_even"),
    }  # fmt: skip
    if node.op == "matmul":
        more = {"K_SIZE": inputs, "N_SIZE": outputs, "BATCH": many, "BLOCKS": rows // at_once.tokens, "B_W": w.width,
                "B_S": int(w.signed), "ACROSS": 0, "MUL": 1, "Q_W": wide, "Q_F": frac}  # fmt: skip
        return estimate("matmul", shared | more)
    return estimate("linear", shared | {"IN_SIZE": inputs, "OUT_SIZE": outputs, "GROUPS": many, "W_W": w.width})


def _fixed(node: Node, port: str) -> Integer:
    held = node.precision.get(port)
    if held is None or not isinstance(held.format, Integer):
        label = held.format.label if held is not None else "float"
        hint = "Let only integer formats compete, such as integer(width=8, frac_width=4)."
        raise OptionsError(f"{port} of {node.id} in {label} cannot become hardware.", hint, node.id)
    return held.format


def layers(graph: Graph) -> list[Node]:
    """The nodes that count."""
    return [n for n in graph if n.op in LAYERS and spec(n.op).macs and set(PORTS) <= set(n.ports)]


def tables(node: Node, graph: Graph) -> float:
    """Look-up tables of a node."""
    return area_of(node, graph).lut if node.op in LAYERS else 0.0


def blocks(node: Node, graph: Graph) -> float:
    """DSP blocks of a node."""
    return float(area_of(node, graph).dsp) if node.op in LAYERS else 0.0


def lut(graph: Graph) -> float:
    """Look-up tables of all layers; no number where one has no integer formats."""
    return _sum(graph, tables)


def dsp(graph: Graph) -> float:
    """DSP blocks of all layers; no number where one has no integer formats."""
    return _sum(graph, blocks)


def _sum(graph: Graph, of: Callable[[Node, Graph], float]) -> float:
    try:
        return sum(of(n, graph) for n in layers(graph)) if layers(graph) else math.nan
    except OptionsError:
        return math.nan


def cycles(graph: Graph) -> float:
    """Cycles between samples: those of the slowest layer."""
    return max((cycles_of(n, graph) for n in layers(graph)), default=math.nan)


COSTS.add("lut", Cost(
    "lut", "LUT", "", "low", "estimated look-up tables of layers and matmuls on a 7-series FPGA, at their parallelism",
    of=lambda graph, score: lut(graph),
    shares=Shares(node=tables, ports=PORTS),
))  # fmt: skip
COSTS.add("dsp", Cost(
    "dsp", "DSP", "", "low", "DSP blocks of layers and matmuls on a 7-series FPGA, at their parallelism",
    of=lambda graph, score: dsp(graph),
    shares=Shares(node=blocks, ports=PORTS),
))  # fmt: skip
COSTS.add("cycles", Cost(
    "cycles", "Cycles", "", "low", "cycles between samples in hardware: those of the slowest layer or matmul",
    of=lambda graph, score: cycles(graph),
))  # fmt: skip
