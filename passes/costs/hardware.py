"""What layers take as hardware: tables, registers, DSP blocks, block RAMs and cycles, from formats and parallelism.

A closed form of the estimates that `emit` tells of whole designs: products with their windows, norms and softmax; what
lies between them (FIFOs, functions, changes of width) comes on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Parallel, Precision
from espalier.model.graph.ops import spec
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.costs.parallel import LAYERS, ROWS, Product, paced, product_of, step_of

if TYPE_CHECKING:
    from espalier.verilog.area.resources import Area

PORTS = ("data_in", "weight", "data_out")
AREAS = frozenset(
    {"lut", "ff", "dsp", "bram", "unrolled_lut", "unrolled_ff"}
)  # costs with no figure beside a plug-in's
SIGNS = {"binary": 1, "binary_scaled": 1, "ternary": 2}  # weights that are added, and the bits of one
USUAL = Precision(Integer(8, 4))  # what a port counts as that has no format yet
Form = tuple[int, int, bool, bool, bool]  # width, fraction, signed, rounds to the nearest, is a sign


def layers(graph: Graph) -> list[Node]:
    """The layers and matmuls, which must have formats."""
    return [n for n in graph if n.op in LAYERS and spec(n.op).macs and {"data_in", "weight"} <= set(n.ports)]


def counted(graph: Graph) -> list[Node]:
    """All nodes that count: rows by themselves only where they have formats."""
    return [*layers(graph), *(n for n in graph if n.op in ROWS and _fits(n))]


def counts(node: Node) -> bool:
    """Whether a node adds to what hardware takes."""
    return node.op in LAYERS or (node.op in ROWS and _fits(node))


def _fits(node: Node) -> bool:
    held = node.precision.get("data_in")
    return "data_in" in node.ports and held is not None and isinstance(held.format, Integer)


def cycles_of(node: Node, graph: Graph) -> float:
    """Cycles of a sample."""
    work = product_of(node, graph)
    return float(work.cycles(node.parallel or Parallel())) if work else 0.0


def area_of(node: Node, graph: Graph) -> Area:
    """What it takes; raises OptionsError where a format is none of hardware's, or the area is not known."""
    check_ours(node)
    return _estimated(node, graph)


def _estimated(node: Node, graph: Graph) -> Area:
    """By our own templates."""
    work = product_of(node, graph)
    assert work is not None
    x = form_of(node, "data_in")
    y = form_of(node, "data_out") if "data_out" in node.precision else x
    w = x if node.op in ROWS else form_of(node, "weight")
    return _area(node.op, work, node.parallel or Parallel(), x, w, y)


def check_ours(node: Node) -> None:
    """Raises OptionsError where a plug-in brings the hardware of a node: its area is not known."""
    from espalier.verilog.lowering.lower import RULES

    if node.op in RULES and not RULES.is_own(node.op):
        raise OptionsError(f"The area of {node.id} is not known: {RULES.source(node.op)} brings its hardware.",
                           "Limit another figure, or unload the plug-in.", node.id)  # fmt: skip


def every_ours(graph: Graph) -> None:
    """The same of all nodes: what a plug-in brings is part of the design, and unknown, whatever it computes."""
    for node in graph:
        check_ours(node)


@cache
def _area(op: str, work: Product, at_once: Parallel, x: Form, w: Form, y: Form) -> Area:
    """Equal nodes are worked out once; what competes are some dozens of formats at some dozens of sizes."""
    if op in ROWS:
        return _row_area(op, work, at_once, x, y)
    from espalier.verilog.area.model import estimate

    wide, frac = x[0] + w[0] + (work.inputs - 1).bit_length(), x[1] + w[1]
    shared = {
        "PAR_IN": at_once.inputs, "PAR_OUT": at_once.outputs, "TOKENS": at_once.tokens, "X_W": x[0], "X_S": int(x[2]),
        "B_W": wide, "ACC_W": wide, "ACC_F": frac, "Y_W": y[0], "Y_F": y[1], "Y_S": int(y[2]), "MODE": int(x[3]),
    }  # fmt: skip
    if op == "matmul":
        more = {"K_SIZE": work.inputs, "N_SIZE": work.outputs, "BATCH": work.matrices, "B_W": w[0], "B_S": int(w[2]),
                "BLOCKS": work.rows // at_once.tokens, "ACROSS": 0, "MUL": 1, "Q_W": wide, "Q_F": frac}  # fmt: skip
        return estimate("matmul", shared | more)
    more = {"IN_SIZE": work.inputs, "OUT_SIZE": work.outputs, "GROUPS": work.matrices, "W_W": w[0]}
    found = estimate("linear_signs" if w[4] else "linear", shared | more)
    return found + _window_area(work, at_once, x) if work.window else found


def _window_area(work: Product, at_once: Parallel, x: Form) -> Area:
    """A square image and kernel stand for those of the node."""
    from espalier.verilog.area.model import estimate

    lanes = math.gcd(at_once.inputs, work.channels)
    side, taps = max(math.isqrt(work.rows // work.matrices), 1), max(work.inputs // work.channels, 1)
    kernel, blocks = math.isqrt(taps), work.channels * work.matrices // lanes
    return estimate("window", {
        "IN_H": side, "IN_W": side, "OUT_H": side, "OUT_W": side, "BLOCKS": blocks, "GROUPS": work.matrices,
        "K_H": kernel, "K_W": kernel, "RING_ROWS": min(kernel + 1, side), "LANES": lanes, "W": x[0],
        "STEP_H": 1, "STEP_W": 1, "GAP_H": 1, "GAP_W": 1, "TOP": kernel // 2, "LEFT": kernel // 2, "PAD": 0,
    })  # fmt: skip


def _row_area(op: str, work: Product, at_once: Parallel, x: Form, y: Form) -> Area:
    """By the template itself, with constants over their whole range."""
    import numpy as np

    from espalier.verilog.design.stream import Stream
    from espalier.verilog.numbers.fixed import Fixed
    from espalier.verilog.templates.norm import Norm
    from espalier.verilog.templates.softmax import Softmax

    ins, outs = (Stream(work.rows, work.inputs, Fixed(f[0], f[1], f[2]), at_once.inputs) for f in (x, y))
    if op == "softmax":
        return Softmax(name="i", node="i", inputs=(ins,), outputs=(outs,)).area()
    ones = np.full(work.inputs, 127)
    return Norm(name="i", node="i", inputs=(ins,), outputs=(outs,), centered=op == "layer_norm", eps=1, gamma=ones,
                gamma_format=Fixed(8, 6), beta=ones, beta_frac=6).area()  # fmt: skip


def form_of(node: Node, port: str) -> Form:
    """What hardware needs to know of a port's format; raises OptionsError where it has none of it."""
    held = node.precision.get(port)
    found = _known(held.format) if held is not None else None
    if found is not None:
        return found
    if held is None:
        hint = f"Let formats compete for {port}, too (--ports data_in,weight), or give it one first (pass quantize)."
        raise OptionsError(f"{port} of {node.id} in float cannot become hardware.", hint, node.id)
    what = "has no estimate of area" if isinstance(held.format, MXInt) else "cannot become hardware"
    hint = "Let only these compete: `integer`, `scaled_integer`, `binary`, `binary_scaled`, `ternary`."
    raise OptionsError(f"{port} of {node.id} in {held.format.label} {what}.", hint, node.id)


def _known(fmt: Any) -> Form | None:
    if isinstance(fmt, Integer):
        return fmt.width, fmt.frac_width, fmt.signed, fmt.rounding == "nearest_even", False
    if isinstance(fmt, ScaledInteger):
        return fmt.width, 0, fmt.symmetric, True, False
    return (SIGNS[fmt.name], 0, True, True, True) if fmt.name in SIGNS else None


def share_of(of: Callable[[Area], float], area: Callable[[Node, Graph], Area]) -> Callable[[Node, Graph], float]:
    """What a node adds."""

    def share(node: Node, graph: Graph) -> float:
        if counts(node):
            return float(of(area(node, graph)))
        check_ours(node)
        return 0.0

    return share


def sum_of(of: Callable[[Node, Graph], float]) -> Callable[[Graph, object], float]:
    """Of all nodes; no number where a layer has no format of hardware, or a plug-in brings any node's."""

    def figure(graph: Graph, score: object) -> float:
        try:
            every_ours(graph)
            return sum(of(n, graph) for n in counted(graph)) if layers(graph) else math.nan
        except OptionsError:
            return math.nan

    return figure


def cycles(graph: Graph) -> float:
    """Cycles between samples: those of the slowest node."""
    return max((cycles_of(n, graph) for n in graph if n.op in (*LAYERS, *ROWS)), default=math.nan)


def settled(graph: Graph, limit: float) -> tuple[Graph, Step]:
    """The graph with the least parallelism that keeps a number of cycles, and the step that gives it."""
    found = paced(graph, limit, _price)
    return graph.replace(*(replace(graph.nodes[name], parallel=p) for name, p in found.items())), step_of(found)


def _price(node: Node, graph: Graph) -> float:
    held = {p: c for p, c in node.precision.items() if _known(c.format) is not None}
    area = _estimated(replace(node, precision={p: USUAL for p in PORTS[:2]} | held), graph)
    return area.lut + 100 * area.bram  # a block RAM holds about what so many tables do


ON = "of layers, matmuls, norms and softmax on a 7-series FPGA, at their parallelism; what lies between comes on top"
for _name, _title, _about, _of in (
    ("lut", "LUT", f"estimated look-up tables {ON}", lambda a: a.lut),
    ("ff", "FF", f"estimated registers {ON}", lambda a: a.ff),
    ("dsp", "DSP", f"DSP blocks {ON}", lambda a: a.dsp),
    ("bram", "BRAM", f"block RAMs of 18 kbit {ON}", lambda a: a.bram),
):
    _share = share_of(_of, area_of)
    COSTS.add(_name, Cost(_name, _title, "", "low", _about, sum_of(_share), Shares(node=_share, ports=PORTS)))
COSTS.add("cycles", Cost(
    "cycles", "Cycles", "", "low", "cycles between samples in hardware: those of the slowest layer, norm or softmax",
    of=lambda graph, score: cycles(graph),
    settle=settled,
))  # fmt: skip
