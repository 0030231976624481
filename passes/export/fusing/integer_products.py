"""Products of quantised activations and stored integers whose results stay in float: com.microsoft's
MatMulIntegerToFloat, which adds a bias without rounding it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from espalier.passes.export.fusing.layers import layer, widen
from espalier.passes.export.fusing.nbits import DOMAIN
from espalier.passes.export.fusing.values import Writer, array, negated_bias, operand


def products(graph: ir.Graph, write: Writer) -> None:
    """Rewrite every product of a matrix whose result no QuantizeLinear reads alone."""
    count = 0
    for node in [n for n in graph if n.op_type == "MatMul"]:
        found = layer(node)
        if found is None or (found.minus is None and found.output is not None):
            continue
        widen(found.weight, write)
        codes = operand(_producer(operand(node)))
        scale, zero = _producer(codes).inputs[1:3]
        weight = found.weight
        by_column = np.asarray(array(weight.inputs[1]), np.float32)
        shift = weight.inputs[2] if len(weight.inputs) > 2 else None
        if shift is not None:
            shift = write.constant(np.asarray(array(shift)).reshape(-1)[:1].reshape(()), name="zero")
        inputs = [codes, weight.inputs[0], scale, write.constant(by_column, name="scale"), zero, shift]
        if found.minus is not None:
            minus = negated_bias(node, found.minus)
            assert minus is not None
            inputs.append(write.constant(-minus, name="bias"))
        while inputs[-1] is None:
            inputs.pop()
        result = found.result
        write.replace(result, write.node(node if found.minus is None else found.minus, "MatMulIntegerToFloat", inputs,
                                         domain=DOMAIN, like=result))  # fmt: skip
        count += 1
    if count:
        graph.opset_imports.setdefault(DOMAIN, 1)


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node
