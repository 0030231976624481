"""Runs plans on CPU tensors: flat numpy views in chunks on torch's threads, the definition where no plan fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.kernels.fake_quant import tensor_scales
from espalier.kernels.fake_quant.chunks import over_segments
from espalier.kernels.fake_quant.loops import blocks, elementwise, nvfp4, scales
from espalier.kernels.fake_quant.plan import NONE, Plan, plan_of
from espalier.kernels.fake_quant.threads import thread_count
from espalier.model.formats.base import Array, Format
from espalier.model.formats.blocks import Blocks
from espalier.model.formats.scaled import ROW, TENSOR

LOOPS: dict[str, Any] = {
    "integer": elementwise.integer,
    "integer_floor": elementwise.integer_floor,
    "minifloat": elementwise.minifloat,
    "minifloat_wide": elementwise.minifloat_wide,
    "power_of_two": elementwise.power_of_two,
    "above": elementwise.above,
    "beyond": elementwise.beyond,
    "fixed_blocks": blocks.fixed_blocks,
    "float_blocks": blocks.float_blocks,
    "power_blocks": blocks.power_blocks,
    "nvfp4": nvfp4.nvfp4,
    "scaled_integer": scales.scaled_integer,
    "affine_integer": scales.affine_integer,
    "scaled_groups": scales.scaled_groups,
    "scaled_integer given": scales.scaled_given,
    "scaled_groups given": scales.scaled_given,
    "one_sign": scales.one_sign,
    "two_signs": scales.two_signs,
    "three_signs": scales.three_signs,
    "ternary": scales.ternary,
}
WORDS = {torch.float32: torch.float32, torch.bfloat16: torch.uint16, torch.float16: torch.int16}
SPAN = 2048  # elements that fit the L1 cache
_PLAIN = (Tensor, torch.nn.Parameter)
Found = tuple[Tensor, Tensor | None] | None


def quantize(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> Found:
    """(value, gate if `gated` and some gradient is stopped) of `x`; None if only the definition can compute it."""
    plan = plan_of(fmt, x.dtype) if x.dtype in WORDS and type(x) in _PLAIN else None
    if plan is None or torch.compiler.is_compiling():
        return None
    x = x.detach()
    if plan.per is not None:
        return _scaled(plan, x, gated, scale)
    return _in_blocks(plan, plan.blocks, x, gated) if plan.blocks else _flat(plan, x, gated, SPAN)


def quantize_over(fmt: Format, x: Tensor, scale: Tensor | None, gated: bool) -> Found:
    """`quantize`, written over `x`; None if `x` is unchanged."""
    plan = plan_of(fmt, x.dtype) if x.dtype in WORDS and type(x) is Tensor else None
    if plan is None or torch.compiler.is_compiling() or not (x.numel() and x.is_contiguous()):
        return None
    cut = Blocks(plan.per) if plan.per is not None and plan.per > 0 else plan.blocks
    if cut is not None and not _plain(cut, x):
        return None
    x = x.detach()
    shared = None if scale is None or plan.shared is None else plan.shared(scale)
    if plan.per == TENSOR or plan.loop == "nvfp4":
        shared = tensor_scales.scale_of(plan, words(x), shared)
    gate = torch.empty(x.shape, dtype=torch.bool) if gated else None
    unit = (x.shape[-1] if x.ndim else 1) if plan.per == ROW else cut.elements if cut else SPAN
    return x, gate if _over(fmt, plan, x, gate, unit, NONE if shared is None else shared) else None


def _over(fmt: Format, plan: Plan, x: Tensor, gate: Tensor | None, unit: int, shared: Array) -> bool:
    """Run the loop over `x` in place; returns whether it needed the gate. Where the loop stops, the definition
    continues, since segments are independent."""
    loop = _loop(plan, unit, len(shared) > 0)
    elements, flat, gates = words(x), x.view(-1), None if gate is None else words(gate)

    results = over_segments(loop, elements, None, gates, unit, shared, plan.constants)
    for passes, cut in results:
        if passes < 0:
            remainder = flat[cut.start - passes - 1 : cut.stop]
            remaining = remainder.view(-1, min(unit, cut.stop - cut.start)) if plan.blocks else remainder
            if gate is not None:
                gate.view(-1)[cut.start - passes - 1 : cut.stop] = fmt.inside(remaining).view(-1)
            remainder.copy_(fmt.define(remaining).view(-1))
    stops = any(passes != 1 for passes, _ in results)
    if gates is not None and stops:
        for _, cut in (chunk for chunk in results if chunk[0] == 1):  # a loop without stopped gradients writes no gate
            gates[cut] = 1
    return stops


def gated_gradient(grad: Tensor, gate: Tensor, exclusive: bool = False) -> Tensor:
    """grad·gate; in place if grad has no other user (`exclusive`)."""
    if grad.dtype not in WORDS or not grad.is_contiguous() or type(grad) is not Tensor or grad.requires_grad:
        return grad * gate
    out = grad if exclusive else torch.empty_like(grad)
    loop = elementwise.stop if exclusive else elementwise.passed
    into = None if exclusive else words(out)
    over_segments(loop, words(grad), into, words(gate.contiguous()), 1, NONE, (np.float32(0),))
    return out


def words(x: Tensor) -> Array:
    """The flat numpy view of a contiguous tensor, in the element type of the loops."""
    kind = torch.uint8 if x.dtype == torch.bool else WORDS[x.dtype]
    return (x if kind == x.dtype else x.view(kind)).numpy().reshape(-1)


def _loop(plan: Plan, unit: int, has_scale: bool) -> Callable[..., Any]:
    """The loop of a plan: for given scales (`has_scale`), or specialised for segments of `unit` elements if there is
    one."""
    name = (has_scale and LOOPS.get(f"{plan.loop} given")) or LOOPS[plan.loop]
    return (name.get(unit) or name[0]) if isinstance(name, dict) else name


def _flat(plan: Plan, x: Tensor, gated: bool, unit: int, shared: Array = NONE) -> Found:
    """`unit`: elements of a segment, which chunks do not divide; `shared`: a row per segment, one for all, or none."""
    x = x.contiguous()
    out = torch.empty_like(x)
    gate = torch.empty(x.shape, dtype=torch.bool) if gated else None
    loop = _loop(plan, unit, len(shared) > 0)
    elements, results, gates = words(x), words(out), None if gate is None else words(gate)
    remainder = elements.size % unit
    if not remainder and thread_count(elements.size) < 2:
        gates_needed = loop(elements, results, gates, unit, shared, plan.constants)
        return None if gates_needed < 0 else (out, gate if gates_needed == 0 else None)

    segment_results = over_segments(loop, elements, results, gates, unit, shared, plan.constants)
    gates_needed = min(passes for passes, _ in segment_results)
    if gates is not None and gates_needed == 0:
        for _, cut in (
            chunk for chunk in segment_results if chunk[0] == 1
        ):  # a loop without stopped gradients writes no gate
            gates[cut] = 1
    return None if gates_needed < 0 else (out, gate if gates_needed == 0 else None)


def _in_blocks(plan: Plan, cut: Blocks, x: Tensor, gated: bool, shared: Array = NONE) -> Found:
    """Contiguous blocks are used in place; tiles and short blocks are gathered first."""
    shape, is_contiguous = tuple(x.shape), _plain(cut, x)
    blocks = x.contiguous() if is_contiguous else cut.split(x).contiguous()
    if plan.loop == "nvfp4":
        shared = tensor_scales.scale_of(plan, words(blocks), None)
    result = _flat(plan, blocks, gated, cut.elements, shared)
    if result is None or is_contiguous:
        return result
    value, gate = result
    return cut.merge(value, shape), None if gate is None else cut.merge(gate, shape)


def _plain(cut: Blocks, x: Tensor) -> bool:
    """Whether the blocks of `x` are contiguous."""
    return cut.rows == 1 and x.ndim > 0 and x.shape[-1] % cut.block == 0


def _scaled(plan: Plan, x: Tensor, gated: bool, scale: Tensor | None) -> Found:
    """Quantise with a given scale, or with one computed from the tensor."""
    assert plan.per is not None and plan.shared is not None
    if not x.numel():
        return torch.empty_like(x), None
    given_scale = None if scale is None else plan.shared(scale)
    if plan.per == TENSOR:
        x = x.contiguous()
        shared = tensor_scales.scale_of(plan, words(x), given_scale)
        return _flat(plan, x, gated, SPAN, shared)
    shared = NONE if given_scale is None else given_scale
    if plan.per > 0:
        return _in_blocks(plan, Blocks(plan.per), x, gated, shared)
    assert plan.per == ROW
    return _flat(plan, x, gated, x.shape[-1] if x.ndim else 1, shared)
