"""Activations of int8 as uint8 with a zero point 128 higher: the same values, and what x86 multiplies fastest."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from espalier.passes.export.fusing.values import Writer, operand, quantiser


def unsign(graph: ir.Graph, write: Writer) -> None:
    """Turn every pair of QuantizeLinear and DequantizeLinear of int8 with one scale."""
    for node in list(graph):
        grid = quantiser(node) if node.op_type == "QuantizeLinear" else None
        if grid is None or grid.dtype is not ir.DataType.INT8:
            continue
        readers = [use.node for use in node.outputs[0].uses()]
        if node.outputs[0].is_graph_output() or any(quantiser(r) != grid for r in readers):
            continue
        made = write.rounded(node, operand(node), replace(grid, zero=grid.zero + 128, dtype=ir.DataType.UINT8))
        for reader in readers:
            write.replace(reader.outputs[0], made)
