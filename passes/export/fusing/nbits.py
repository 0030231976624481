"""Products of a float activation with stored integers of 4 or 8 bits as com.microsoft's MatMulNBits.

The operator's definition: github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#commicrosoftmatmulnbits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.values import Array, Writer, array, operand, stored

DOMAIN = "com.microsoft"
INT8_LEVEL = 4  # at which activations are rounded to int8
SMALLEST, WASTE = 16, 1.05  # elements of a block; bytes over those of the codes and scales


class _Stored(NamedTuple):
    """Codes [K, N] from 0 in `bits`; scales and zero points [K / block, N]."""

    codes: Array
    scale: Array
    zero: Array | None
    bits: int
    block: int


def products(graph: ir.Graph, write: Writer, level: int, fused: set[ir.Node]) -> int:
    """Write every such product that is not in `fused` in this way; returns their number.

    Codes of 8 bits only at INT8_LEVEL: at level 1 onnxruntime 1.32 was seen to take up to 5 times as long as in float.
    """
    count = 0
    for node in [n for n in graph if n.op_type == "MatMul" and n not in fused and not n.domain]:
        weight = stored(node.inputs[1])
        held = None if weight is None or operand(node).dtype != ir.DataType.FLOAT else _stored(weight)
        if held is None or (held.bits == 8 and level < INT8_LEVEL):
            continue
        rows, columns = held.codes.shape
        given = {"K": rows, "N": columns, "bits": held.bits, "block_size": held.block, "accuracy_level": level}
        inputs = [node.inputs[0], write.constant(_packed(held), name="codes"),
                  write.constant(np.ascontiguousarray(held.scale.T), name="scale")]  # fmt: skip
        if held.zero is not None:
            inputs.append(write.constant(_zeros(held), name="zero"))
        write.replace(
            node.outputs[0], write.node(node, "MatMulNBits", inputs, given, domain=DOMAIN, like=node.outputs[0])
        )
        count += 1
    if count:
        graph.opset_imports.setdefault(DOMAIN, 1)
    return count


def _stored(weight: ir.Node) -> _Stored | None:
    codes, scale = array(weight.inputs[0]), array(weight.inputs[1])
    bits = {ir.DataType.INT4: 4, ir.DataType.UINT4: 4, ir.DataType.INT8: 8, ir.DataType.UINT8: 8}.get(
        operand(weight).dtype  # type: ignore[arg-type]
    )
    if codes is None or scale is None or bits is None or codes.ndim != 2:
        return None
    zero = array(weight.inputs[2]) if len(weight.inputs) > 2 else None
    axis, block = weight.attributes.get_int("axis", 1), weight.attributes.get_int("block_size", 0)
    rows, columns = codes.shape
    least = rows * bits / 8 + 4 * (len(scale) if block else 1)
    if scale.size > 1 and (axis != 0 if block else axis != 1):
        return None
    if not block:
        block = _block(rows, bits)
        scale, zero = (None if v is None else _repeated(v, -(-rows // block), columns) for v in (scale, zero))
    elif block < SMALLEST or block & (block - 1):
        return None
    if scale is None or (-(-rows // block)) * (block * bits / 8 + 4) > WASTE * least:
        return None
    signed = operand(weight).dtype in (ir.DataType.INT4, ir.DataType.INT8)
    middle = 2 ** (bits - 1)
    wide = codes.astype(np.int64) + (middle if signed else 0)
    whole = np.full_like(scale, 0, np.int64) if zero is None else np.asarray(zero).astype(np.int64)
    whole = whole + (middle if signed else 0)
    return _Stored(wide, np.asarray(scale, np.float32), None if (whole == middle).all() else whole, bits, block)


def _block(rows: int, bits: int) -> int:
    """The size of blocks that takes the fewest bytes, where all of a column have one scale."""
    sizes = [SMALLEST << i for i in range(13)]
    return min(sizes, key=lambda b: (-(-rows // b)) * (b * bits / 8 + 4))


def _repeated(value: Array, blocks: int, columns: int) -> Array:
    """One number for all, or one for each column, for each block."""
    return np.broadcast_to(np.asarray(value).reshape(1, -1), (blocks, columns)).copy()


def _packed(held: _Stored) -> Array:
    """Codes as [N, blocks, bytes of a block], of 4 bits the lower half first; padded by zero points."""
    rows, columns = held.codes.shape
    blocks = held.scale.shape[0]
    middle = 2 ** (held.bits - 1)
    padded = np.full((blocks * held.block, columns), middle, np.uint8)
    padded[:rows] = held.codes
    laid = np.ascontiguousarray(padded.T).reshape(columns, blocks, held.block)
    return laid if held.bits == 8 else _halves(laid)


def _zeros(held: _Stored) -> Array:
    """Zero points as [N, bytes of the blocks]."""
    laid = np.ascontiguousarray(np.asarray(held.zero, np.uint8).T)
    if held.bits == 8:
        return laid
    return _halves(np.pad(laid, ((0, 0), (0, laid.shape[1] % 2))))


def _halves(laid: Array) -> Array:
    return np.ascontiguousarray(laid[..., ::2] | (laid[..., 1::2] << 4)).astype(np.uint8)
