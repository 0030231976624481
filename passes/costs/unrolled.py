"""What layers take as adders (`emit --engine unrolled`): tables, registers and cycles, from formats and sparsity.

A closed form, from how many signed digits trained weights of a width have; the design itself counts its adders.
Matmuls, norms and softmax stay folded and cost what they do there.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph, Node
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.costs.hardware import (
    PORTS,
    SIGNS,
    area_of,
    check_ours,
    counted,
    cycles_of,
    form_of,
    share_of,
    sum_of,
)
from espalier.passes.costs.parallel import Product, product_of
from espalier.passes.score import one_sample

if TYPE_CHECKING:
    from espalier.verilog.area.resources import Area

ADDERS = ("linear", "conv1d", "conv2d")
SLOPE, BASE = 0.28, 0.08  # signed digits of a trained weight, by its bits
DENSE = 1.25  # what pruning leaves is larger than the mean
SHARED = 0.15  # the power with which sharing grows from a thousand digits on
KEPT = 0.26  # of the bits that are added, in registers after every four adders


def cycles(graph: Graph) -> float:
    """Cycles between samples: a row, or a pixel, each; folded nodes as there."""
    return max((_cycles(n, graph) for n in counted(graph)), default=math.nan)


def _cycles(node: Node, graph: Graph) -> float:
    if node.op not in ADDERS:
        return cycles_of(node, graph)
    sizes = node.ports["data_in"].sizes(one_sample(graph))
    return float(math.prod(sizes[:-1] if node.op == "linear" else sizes[2:]))


def area(node: Node, graph: Graph) -> Area:
    """What a node takes; raises OptionsError where a format is none of hardware's."""
    if node.op not in ADDERS:
        return area_of(node, graph)
    work = product_of(node, graph)
    assert work is not None
    check_ours(node)
    x, w = form_of(node, "data_in"), form_of(node, "weight")
    y = form_of(node, "data_out") if "data_out" in node.precision else x
    held = node.sparsity.get("weight")
    digits = 1.0 if w[4] else SLOPE * w[0] + BASE
    chosen = node.precision["weight"].format
    density = 1.0 - held.ratio if held is not None else 1.0
    left = min(density * DENSE, 1.0) if SIGNS.get(chosen.name, 1) == 1 else density
    image = node.ports["data_in"].sizes(one_sample(graph))[2:] if work.window else ()
    return _area(work, round(digits * left, 4), (x[0], y[0]), tuple(image))


@cache
def _area(work: Product, digits: float, widths: tuple[int, int], image: tuple[int, ...]) -> Area:
    from espalier.verilog.area.unrolled import adders, lines
    from espalier.verilog.constant.network import SAVED

    depthwise = bool(work.window) and work.outputs == 1 and work.channels > 1
    inputs = work.rows // max(math.prod(image), 1) if depthwise else work.inputs
    outputs = work.inputs if depthwise else work.outputs * work.matrices
    terms = max(digits * inputs, 1.0)
    shared = SAVED * (outputs * terms / 1000) ** -SHARED
    bits = outputs * terms * (widths[0] + math.log2(terms + 1)) * shared
    figures = {"ADD": bits, "KEEP": KEPT * bits + outputs * widths[1], "ROUND": outputs, "CUT": outputs * widths[1]}
    found = adders({name: round(value) for name, value in figures.items()})
    if not image:
        return found
    tall, wide = (*image, 1)[:2]
    kernel = max(math.isqrt(max(work.inputs // work.channels, 1)), 1)
    return found + lines({
        "LANES": work.channels * work.matrices, "W": widths[0], "K_H": kernel, "K_W": kernel, "IN_H": tall,
        "IN_W": wide, "OUT_H": tall, "OUT_W": wide, "GAP_H": 1, "GAP_W": 1, "STEPS": tall * wide,
    })  # fmt: skip


AS = "where weights become adders (emit --engine unrolled)"
for _name, _title, _about, _of in (
    ("unrolled_lut", "LUT unrolled", f"estimated look-up tables {AS}", lambda a: a.lut),
    ("unrolled_ff", "FF unrolled", f"estimated registers {AS}", lambda a: a.ff),
):
    _share = share_of(_of, area)
    COSTS.add(_name, Cost(_name, _title, "", "low", _about, sum_of(_share), Shares(node=_share, ports=PORTS)))
COSTS.add("unrolled_cycles", Cost(
    "unrolled_cycles", "Cycles unrolled", "", "low", f"cycles between samples {AS}: a row or pixel each",
    of=lambda graph, score: cycles(graph),
))  # fmt: skip
