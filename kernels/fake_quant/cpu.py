"""Runs plans on CPU tensors: flat numpy views in chunks on torch's threads, the definition where no plan fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.kernels.fake_quant import whole
from espalier.kernels.fake_quant.chunks import over_stretches
from espalier.kernels.fake_quant.loops import blocks, elementwise, nvfp4, scales
from espalier.kernels.fake_quant.plan import NONE, Plan, plan_of
from espalier.kernels.fake_quant.threads import parts
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
SPAN = 2048  # elements that stay in the first cache
_PLAIN = (Tensor, torch.nn.Parameter)
Found = tuple[Tensor, Tensor | None] | None


def quantized(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> Found:
    """(value, gate if `gated` and some gradient does not pass) of `x`; None where only the definition will do."""
    plan = plan_of(fmt, x.dtype) if x.dtype in WORDS and type(x) in _PLAIN else None
    if plan is None or torch.compiler.is_compiling():
        return None
    x = x.detach()
    if plan.per is not None:
        return _scaled(plan, x, gated, scale)
    return _in_blocks(plan, plan.blocks, x, gated) if plan.blocks else _flat(plan, x, gated, SPAN)


def overwritten(fmt: Format, x: Tensor, scale: Tensor | None, gated: bool) -> Found:
    """`quantized` written over `x`; None where `x` is as it was."""
    plan = plan_of(fmt, x.dtype) if x.dtype in WORDS and type(x) is Tensor else None
    if plan is None or torch.compiler.is_compiling() or not (x.numel() and x.is_contiguous()):
        return None
    cut = Blocks(plan.per) if plan.per is not None and plan.per > 0 else plan.blocks
    if cut is not None and not _plain(cut, x):
        return None
    x = x.detach()
    given = None if scale is None or plan.shared is None else plan.shared(scale)
    if plan.per == TENSOR or plan.loop == "nvfp4":
        given = whole.scale_of(plan, words(x), given)
    gate = torch.empty(x.shape, dtype=torch.bool) if gated else None
    unit = (x.shape[-1] if x.ndim else 1) if plan.per == ROW else cut.elements if cut else SPAN
    return x, gate if _over(fmt, plan, x, gate, unit, NONE if given is None else given) else None


def _over(fmt: Format, plan: Plan, x: Tensor, gate: Tensor | None, unit: int, shared: Array) -> bool:
    """The loop over `x` itself, and whether it needed the gate. Where it stops, the definition goes on: stretches do
    not see each other."""
    loop = _loop(plan, unit, len(shared) > 0)
    elements, flat, gates = words(x), x.view(-1), None if gate is None else words(gate)

    found = over_stretches(loop, elements, None, gates, unit, shared, plan.constants)
    for passes, cut in found:
        if passes < 0:
            left = flat[cut.start - passes - 1 : cut.stop]
            seen = left.view(-1, min(unit, cut.stop - cut.start)) if plan.blocks else left
            if gate is not None:
                gate.view(-1)[cut.start - passes - 1 : cut.stop] = fmt.inside(seen).view(-1)
            left.copy_(fmt.define(seen).view(-1))
    stops = any(passes != 1 for passes, _ in found)
    if gates is not None and stops:
        for _, cut in (chunk for chunk in found if chunk[0] == 1):  # a loop that needs no gate writes none
            gates[cut] = 1
    return stops


def passed(grad: Tensor, gate: Tensor, alone: bool = False) -> Tensor:
    """grad·gate; over grad where nobody else has it (`alone`)."""
    if grad.dtype not in WORDS or not grad.is_contiguous() or type(grad) is not Tensor or grad.requires_grad:
        return grad * gate
    out = grad if alone else torch.empty_like(grad)
    loop = elementwise.stop if alone else elementwise.passed
    into = None if alone else words(out)
    over_stretches(loop, words(grad), into, words(gate.contiguous()), 1, NONE, (np.float32(0),))
    return out


def words(x: Tensor) -> Array:
    """The flat numpy view of a contiguous tensor that the loops take."""
    kind = torch.uint8 if x.dtype == torch.bool else WORDS[x.dtype]
    return (x if kind == x.dtype else x.view(kind)).numpy().reshape(-1)


def _loop(plan: Plan, unit: int, given: bool) -> Callable[..., Any]:
    """The loop of a plan: under `given` scales, or made for stretches of `unit` elements, where there is one."""
    found = (given and LOOPS.get(f"{plan.loop} given")) or LOOPS[plan.loop]
    return (found.get(unit) or found[0]) if isinstance(found, dict) else found


def _flat(plan: Plan, x: Tensor, gated: bool, unit: int, shared: Array = NONE) -> Found:
    """`unit`: elements of a stretch, which a chunk must not part; `shared`: a row each, one for all, or none."""
    x = x.contiguous()
    out = torch.empty_like(x)
    gate = torch.empty(x.shape, dtype=torch.bool) if gated else None
    loop = _loop(plan, unit, len(shared) > 0)
    elements, results, gates = words(x), words(out), None if gate is None else words(gate)
    rest = elements.size % unit
    if not rest and parts(elements.size) < 2:
        every = loop(elements, results, gates, unit, shared, plan.constants)
        return None if every < 0 else (out, gate if every == 0 else None)

    found = over_stretches(loop, elements, results, gates, unit, shared, plan.constants)
    every = min(passes for passes, _ in found)
    if gates is not None and every == 0:
        for _, cut in (chunk for chunk in found if chunk[0] == 1):  # a loop that needs no gate writes none
            gates[cut] = 1
    return None if every < 0 else (out, gate if every == 0 else None)


def _in_blocks(plan: Plan, cut: Blocks, x: Tensor, gated: bool, shared: Array = NONE) -> Found:
    """Blocks that lie in one piece are taken where they lie; tiles and short blocks are gathered first."""
    shape, plain = tuple(x.shape), _plain(cut, x)
    seen = x.contiguous() if plain else cut.split(x).contiguous()
    if plan.loop == "nvfp4":
        shared = whole.scale_of(plan, words(seen), None)
    found = _flat(plan, seen, gated, cut.elements, shared)
    if found is None or plain:
        return found
    value, gate = found
    return cut.merge(value, shape), None if gate is None else cut.merge(gate, shape)


def _plain(cut: Blocks, x: Tensor) -> bool:
    """Whether blocks lie in one piece."""
    return cut.rows == 1 and x.ndim > 0 and x.shape[-1] % cut.block == 0


def _scaled(plan: Plan, x: Tensor, gated: bool, scale: Tensor | None) -> Found:
    """Under a given scale, or the tensor's own."""
    assert plan.per is not None and plan.shared is not None
    if not x.numel():
        return torch.empty_like(x), None
    given = None if scale is None else plan.shared(scale)
    if plan.per == TENSOR:
        x = x.contiguous()
        shared = whole.scale_of(plan, words(x), given)
        return _flat(plan, x, gated, SPAN, shared)
    shared = NONE if given is None else given
    if plan.per > 0:
        return _in_blocks(plan, Blocks(plan.per), x, gated, shared)
    assert plan.per == ROW
    return _flat(plan, x, gated, x.shape[-1] if x.ndim else 1, shared)
