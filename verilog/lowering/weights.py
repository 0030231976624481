"""A layer's weights and biases for hardware: integer codes [outputs, inputs] with the scales of their format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import EmitError
from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled import ROW, broadcast_scale
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.graph import Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import choice, weight_at
from espalier.verilog.lowering.lower import Lowering
from espalier.verilog.lowering.masking import masked
from espalier.verilog.numbers.fixed import Codes, Fixed, clipped_share, fixed_of
from espalier.verilog.numbers.scaled import HARDWARE, stored_weight

SIGN = Fixed(2, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """`codes` [outputs, inputs] in `form`, times `scale` [outputs] if given.

    `signs`: all codes are −1, 0 or +1. With blocks of `block` inputs: `exponents` [outputs, blocks].
    `times`: number of consecutive outputs that share a bias.
    """

    codes: Codes
    form: Fixed
    scale: NDArray[np.float64] | None = None
    signs: bool = False
    block: int = 0
    exponents: Codes | None = None
    times: int = 1

    def picked(self, columns: Any) -> Weights:
        """With the given columns."""
        return replace(self, codes=self.codes[:, columns])


def weights(low: Lowering, node: Node, name: str = "weight") -> Weights | None:
    """The weights of a layer, one row per output; None without any. Raises EmitError."""
    if weight_at(node, name, low.graph) is None:
        return None
    chosen = choice(node, name)
    if chosen is None:
        text = f"{name} of {node.id} has no format."
        raise EmitError(text, f"Quantise it with {HARDWARE} (pass quantize).", node.id)
    values, mask = masked(node, name, low.graph, low.store)
    values = values.reshape(len(values), -1).astype(np.float32)
    encoded = _encoded(low, node, chosen, values)
    if mask is None or chosen.format.keeps_zero:
        return encoded
    return replace(encoded, codes=np.where(mask.reshape(values.shape), encoded.codes, 0))


def _encoded(low: Lowering, node: Node, chosen: Precision, values: NDArray[Any]) -> Weights:
    form: Any = chosen.format
    if isinstance(form, Integer):
        fixed = fixed_of(form)
        low.clipped[f"weight of {node.id}"] = clipped_share(fixed, values)
        return Weights(fixed.encode(values, form.rounding), fixed)
    if isinstance(form, MXInt) and form.rows == 1:
        encoded = form.encode(values)
        exponents = form.scale_exponent(encoded.shared[0].values).reshape(len(values), -1)
        return Weights(encoded.codes, Fixed(form.width, form.width - 2), block=form.block, exponents=exponents)
    if isinstance(form, Binary) and not form.stochastic:
        bits = form.encode(values).codes
        return Weights(2 * bits - 1 if form.bipolar else bits, SIGN, signs=True)
    if isinstance(form, ScaledInteger | BinaryScaled | Ternary) and getattr(form, "per", ROW) <= 0:
        return _scaled(low, node, chosen, form, values)
    text = f"weight of {node.id} is in {form.label}, which the hardware does not support."
    raise EmitError(text, f"Choose {HARDWARE}, with a scale per tensor or per channel.", node.id)


def _scaled(low: Lowering, node: Node, chosen: Precision, form: Any, values: NDArray[Any]) -> Weights:
    if chosen.scale is None:
        encoded = form.encode(values)
    else:
        static = stored_weight(chosen.scale, low.graph, low.store, node).astype(np.float32)
        encoded = form.encode_with(values, static)
    scale = form.stored_scale(encoded)
    if isinstance(form, ScaledInteger) and not form.symmetric:
        zero = encoded.shared[1].values.astype(np.int64)
        codes = encoded.codes - broadcast_scale(zero, form.per, encoded.codes.shape)
        return Weights(codes, Fixed(form.width + 1, 0), _by_row(scale[0], codes))
    if isinstance(form, BinaryScaled):
        return Weights(2 * encoded.codes - 1, SIGN, _by_row(scale, encoded.codes), signs=True)
    fixed = SIGN if isinstance(form, Ternary) else Fixed(form.element_bits, 0)
    return Weights(encoded.codes, fixed, _by_row(scale, encoded.codes), signs=isinstance(form, Ternary))


def _by_row(scale: NDArray[Any], codes: Codes) -> NDArray[np.float64]:
    """The scale broadcast to one per output."""
    return np.broadcast_to(np.asarray(scale, np.float64).reshape(-1), (len(codes),)).copy()


def bias_values(low: Lowering, node: Node) -> NDArray[np.float64] | None:
    """The biases of a layer as real numbers, quantised if they have a format; None without biases."""
    if weight_at(node, "bias", low.graph) is None:
        return None
    values, _ = masked(node, "bias", low.graph, low.store)
    chosen = choice(node, "bias")
    if chosen is None:
        return values.astype(np.float64)
    if chosen.scale is None:
        return np.asarray(chosen.format.rounded(values), np.float64)
    form: Any = chosen.format
    static = stored_weight(chosen.scale, low.graph, low.store, node).astype(np.float32)
    return np.asarray(form.decode(form.encode_with(values, static)), np.float64)
