"""Gives nodes the arithmetic of their hardware, so that every score of the model is that of the design."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import choice
from espalier.passes.base import Context, Report, transform
from espalier.verilog.design.options import EmitOptions, sizes_in

if TYPE_CHECKING:
    from espalier.verilog.emulation.node_emulation import Region
    from espalier.verilog.lowering.lower import Lowering
    from espalier.verilog.numbers.fixed import Fixed

WIDEST = 32  # bits of the format `integer`


@dataclass(frozen=True, slots=True)
class HardwareFunctionsOptions:
    """The arithmetic of nodes that hardware computes in its own way: tables, softmax, norms, fused steps, scales."""

    arithmetic: Literal["hardware", "float"] = field(
        default="hardware",
        metadata={"help": "hardware: compute as the design does; float: compute as torch does"},
    )
    sizes: str = field(default="", metadata={"help": "sizes of symbols in shapes, such as seq=32"})
    fuse: bool = field(
        default=True, metadata={"help": "remove formats between the steps of an RMS norm, so that it is one norm"}
    )


@transform("hardware_functions", "Hardware functions", HardwareFunctionsOptions)
def hardware_functions(graph: Graph, options: HardwareFunctionsOptions, context: Context) -> tuple[Graph, Report]:
    """Compute softmax, norms, tables and fused steps as their hardware templates do, in every later score.

    Formats that such a node inherited from its readers or operands are set on it. Raises EmitError, with the node, for
    operations without hardware. Gradients are straight-through.
    """
    plain = graph.replace(*(replace(n, arithmetic="float") for n in graph if n.arithmetic != "float"))
    if options.arithmetic == "float":
        reset = [n.id for n in graph if n.arithmetic != "float"]
        return plain, Report("hardware_functions", tuple({"node": n, "arithmetic": "float"} for n in reset),
                             {"nodes": len(reset)})  # fmt: skip
    from espalier.verilog.emulation.node_emulation import regions
    from espalier.verilog.lowering.fusing import unfused_formats
    from espalier.verilog.lowering.lower import Lowering

    cleared = unfused_formats(plain) if options.fuse else {}
    plain = plain.replace(*(_without(plain.nodes[name], ports) for name, ports in cleared.items()))
    low = Lowering(plain, context.store, EmitOptions(sizes=sizes_in(options.sizes)))
    low.design()
    all_regions, rows = regions(plain, context.store), list[dict[str, Any]]()
    changed: dict[str, Node] = {}
    for name in _approximated(low):
        region = all_regions.of(plain.nodes[name])
        if not region.sources or _writes(plain, region):
            continue
        _set_formats(low, region, changed)
        last = changed.get(name, plain.nodes[name])
        changed[name] = replace(last, arithmetic="hardware")
        rows.append({"node": name, "op": last.op, "arithmetic": "hardware", "nodes": len(region.nodes)})
    summary = {"nodes": len(rows), "cleared": [f"{p} of {n}" for n, ports in cleared.items() for p in ports]}
    return plain.replace(*changed.values()), Report("hardware_functions", tuple(rows), summary)


def _without(node: Node, ports: tuple[str, ...]) -> Node:
    return replace(node, precision={p: c for p, c in node.precision.items() if p not in ports})


def _approximated(low: Lowering) -> list[str]:
    """The nodes whose results differ from torch's on the same values."""
    from espalier.verilog.rules.attention import scaled_by

    ids: set[str] = set()
    for instance in low.instances:
        if instance.approximates:
            node = low.graph.nodes[instance.node]
            ids.add(scaled_by(low, node)[0].id if instance.module == "matmul" else node.id)
    return [n.id for n in low.graph if n.id in ids and n.outputs is None]


def _writes(graph: Graph, region: Region) -> bool:
    """Whether a step writes into its input, so that the emulated function would read changed values."""
    nodes = [graph.nodes[n] for n in region.nodes]
    return any(n.attrs.get("inplace") or f"{n.target}.".split(".")[1].endswith("_") for n in nodes)


def _set_formats(low: Lowering, region: Region, changed: dict[str, Node]) -> None:
    """Set, in `changed`, the formats that the design has for a region's operand and result."""
    from espalier.verilog.emulation.node_emulation import computed_by

    def at(name: str) -> Node:
        return changed.get(name, low.graph.nodes[name])

    source = region.sources[0]
    if choice(at(region.first), "data_in") is None and source in low.signals:
        fixed = low.signals[source].fixed
        if len(region.nodes) == 1 and len(at(region.first).inputs) == 1:
            changed[region.first] = _with(at(region.first), "data_in", fixed)
        else:  # a format of data_in would apply to other operands too: set it on the producer
            ref = computed_by(low.graph, source)
            if choice(at(ref.node), out_port(ref.output)) is None:
                changed[ref.node] = _with(at(ref.node), out_port(ref.output), fixed)
    last = region.nodes[-1]
    if choice(at(last), "data_out") is None:
        changed[last] = _with(at(last), "data_out", low.signals[Ref(last)].fixed)


def _with(node: Node, port: str, fixed: Fixed) -> Node:
    from espalier.verilog.numbers.scaled import plain

    if port not in node.ports or not plain(fixed) or fixed.width > WIDEST:
        return node
    return replace(node, precision={**node.precision, port: Precision(Integer(fixed.width, fixed.frac, fixed.signed))})
