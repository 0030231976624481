"""Runs plans on CPU tensors: flat numpy views, chunks on torch's number of threads, the definition where no plan fits.

The loops release the GIL, so Python threads suffice: no second OpenMP, nothing that breaks after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from kernels.fake_quant.loops import blocks, elementwise, nvfp4, scales
from kernels.fake_quant.plan import Plan, plan_of
from model.formats.base import Array, Format
from model.formats.blocks import Blocks
from model.formats.nvfp4 import TINY
from model.formats.scaled import ROW, ScaledFormat

LOOPS: dict[str, Callable[..., Any]] = {
    "integer": elementwise.integer,
    "integer_floor": elementwise.integer_floor,
    "minifloat": elementwise.minifloat,
    "fixed_blocks": blocks.fixed_blocks,
    "power_of_two": elementwise.power_of_two,
    "above": elementwise.above,
    "float_blocks": blocks.float_blocks,
    "power_blocks": blocks.power_blocks,
    "nvfp4": nvfp4.nvfp4,
    "scaled_integer": scales.scaled_integer,
    "signs": scales.signs,
    "ternary": scales.ternary,
}
_SHARED = {"scaled_integer": 3, "signs": 3, "ternary": 1}  # arrays of a given scale
WORDS = {torch.float32: torch.float32, torch.bfloat16: torch.uint16, torch.float16: torch.int16}
CHUNK = 1 << 17  # elements that are worth a thread: tens of microseconds
_PLAIN = (Tensor, torch.nn.Parameter)


def quantized(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> tuple[Tensor, Tensor | None] | None:
    """(value, gate if `gated` and some gradient does not pass) of `x`; None where only the definition will do."""
    plan = plan_of(fmt, x.dtype) if x.dtype in WORDS and type(x) in _PLAIN else None
    if plan is None or torch.compiler.is_compiling():
        return None
    if plan.per is not None:
        return _scaled(plan, cast("ScaledFormat", fmt), x.detach(), gated, scale)
    return _in_blocks(plan, x.detach(), gated) if plan.blocks else _flat(plan, x.detach(), gated)


def passed(grad: Tensor, gate: Tensor) -> Tensor:
    """grad·gate."""
    if grad.dtype not in WORDS or not grad.is_contiguous() or type(grad) is not Tensor:
        return grad * gate
    out = torch.empty_like(grad)
    _spread(elementwise.passed, words(grad), words(out), words(gate.contiguous()), 1, ())
    return out


def words(x: Tensor) -> Array:
    """The flat numpy view of a contiguous tensor that the loops take."""
    kind = torch.uint8 if x.dtype == torch.bool else WORDS[x.dtype]
    flat = x.view(-1)
    return (flat if kind == x.dtype else flat.view(kind)).numpy()


def _flat(
    plan: Plan, x: Tensor, gated: bool, unit: int = 1, shared: tuple[Array, ...] = ()
) -> tuple[Tensor, Tensor | None] | None:
    """`unit`: elements that a chunk must not part; `shared`: arrays of one number a unit, or empty ones."""
    x = x.contiguous()
    out = torch.empty_like(x)
    gate = torch.empty(x.shape, dtype=torch.bool) if gated else None
    loop, gates = LOOPS[plan.loop], None if gate is None else words(gate)
    found = _spread(loop, words(x), words(out), gates, unit, plan.constants, shared)
    every = min(passes for passes, _ in found)
    if gates is not None and every == 0:
        for _, cut in (chunk for chunk in found if chunk[0] == 1):  # a loop that needs no gate writes none
            gates[cut] = 1
    return None if every < 0 else (out, gate if every == 0 else None)


def _in_blocks(
    plan: Plan, x: Tensor, gated: bool, shared: tuple[Array, ...] = ()
) -> tuple[Tensor, Tensor | None] | None:
    """Blocks that lie in one piece are taken where they lie; tiles and short blocks are gathered first."""
    cut = plan.blocks
    assert cut is not None
    shape = tuple(x.shape)
    whole = cut.rows == 1 and shape and shape[-1] % cut.block == 0
    seen = x.contiguous() if whole else cut.split(x).contiguous()
    more = _tensor_scale(seen, plan.constants[0]) if plan.loop == "nvfp4" else ()
    framed = Plan(plan.loop, (np.int64(cut.elements), *plan.constants, *more))
    found = _flat(framed, seen, gated, cut.elements, shared)
    if found is None or whole:
        return found
    value, gate = found
    return cut.merge(value, shape), None if gate is None else cut.merge(gate, shape)


def _scaled(
    plan: Plan, fmt: ScaledFormat, x: Tensor, gated: bool, scale: Tensor | None
) -> tuple[Tensor, Tensor | None] | None:
    """Under a given scale, or the tensor's own."""
    assert plan.per is not None and plan.shared is not None
    if not x.numel():
        return torch.empty_like(x), None
    if scale is None and not plan.own:
        scale = fmt.scale_of(x)
    if scale is None:
        shared = (np.empty(0, np.float32),) * _SHARED[plan.loop]
    else:
        shared = plan.shared(scale)
    if plan.per > 0:
        framed = Plan(plan.loop, plan.constants, Blocks(plan.per))
        return _in_blocks(framed, x, gated, shared)
    block = x.shape[-1] if plan.per == ROW and x.ndim else x.numel()
    framed = Plan(plan.loop, (np.int64(block), *plan.constants))
    return _flat(framed, x, gated, block, shared)


def _tensor_scale(x: Tensor, most: np.int32) -> tuple[np.float32]:
    """The tensor's scale of nvfp4, from its largest magnitude."""
    flat = words(x)
    top = np.int32(max(m for m, _ in _spread(nvfp4.tensor_pattern, flat, flat, None, 1, (most,)))).view(np.float32)
    return (np.float32(max(np.float32(top / np.float32(6 * 448)), np.float32(TINY))),)


def _spread(
    loop: Any,
    x: Array,
    out: Array,
    gate: Array | None,
    unit: int,
    constants: tuple[Any, ...],
    shared: tuple[Array, ...] = (),
) -> list[tuple[int, slice]]:
    """Run `loop` over chunks of whole units, this thread taking the first; results and chunks in order.

    Loops with a unit take it before `shared`, as the first of the constants.
    """
    count = min(torch.get_num_threads(), x.size // CHUNK)
    each = -(-x.size // (max(count, 1) * unit)) * unit

    def chunk(start: int) -> tuple[int, slice]:
        cut, units = slice(start, start + each), slice(start // unit, (start + each) // unit)
        own = tuple(numbers[units] for numbers in shared)
        own_gate = None if gate is None else gate[cut]
        return int(loop(x[cut], out[cut], own_gate, *constants[:1], *own, *constants[1:])), cut

    others = [_pool(os.getpid()).submit(chunk, start) for start in range(each, x.size, each)] if each else []
    return [chunk(0), *(other.result() for other in others)]


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool a process: threads do not live on in a forked child."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "fake-quant")
