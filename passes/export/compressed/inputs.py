"""The scale and zero point of a module's input, as compressed-tensors reads them beside the weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from espalier.model.formats.base import Array, Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import array_scale
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.export.targets.compressed_tensors import Scheme

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def input_tensors(
    node: Node, scheme: Scheme, graph: Graph, store: WeightStore, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Name after the module's → tensor [1]; none where the scale comes from the data, or the input is not rounded."""
    import torch

    args, chosen = scheme.inputs, node.precision.get("data_in")
    if args is None or args.dynamic or chosen is None:
        return {}
    given = None if chosen.scale is None else store.get(graph.weights[chosen.scale].key or "").float32()
    scale, zero = _scale_of(chosen.format, given)
    parts = {"input_scale": torch.tensor([scale]).to(dtype)}
    if args.symmetric:
        return parts
    return parts | {"input_zero_point": torch.tensor([zero - 2 ** (args.num_bits - 1)], dtype=torch.int8)}


def narrowed(node: Node, scheme: Scheme, graph: Graph, store: WeightStore, dtype: torch.dtype) -> float:
    """The relative change of a static input scale in the type that the folder stores it in; 0 for others."""
    import torch

    args, chosen = scheme.inputs, node.precision.get("data_in")
    if args is None or args.dynamic or chosen is None:
        return 0.0
    given = None if chosen.scale is None else store.get(graph.weights[chosen.scale].key or "").float32()
    scale, _ = _scale_of(chosen.format, given)
    return abs(float(torch.tensor([scale]).to(dtype)) - scale) / scale


def _scale_of(fmt: Format, given: Array | None) -> tuple[float, int]:
    """(scale, zero point in unsigned codes)."""
    match fmt:
        case Integer():
            return 2.0**-fmt.frac_width, 0
        case MinifloatIEEE():
            return 2.0 ** (7 - fmt.bias), 0
        case ScaledElement() if given is not None:
            return float(fmt.stored_scale(fmt.encode_with(np.zeros(1, np.float32), given))), 0
        case ScaledInteger() if given is not None:
            if fmt.symmetric:
                return float(array_scale(given, fmt.scale_dtype)), 0
            scale = float(array_scale(given[0], fmt.scale_dtype))
            return scale, min(max(round(-float(given[1]) / scale), 0), fmt.top)
        case _:
            raise AssertionError(f"{fmt} has no static scale")
