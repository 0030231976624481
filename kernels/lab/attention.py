"""Attention in one kernel with an online softmax over the keys, so that the matrix of scores is never in memory.

Dao et al. 2022 and 2023 (FlashAttention). The naive version writes and reads the matrix at every step.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from espalier.kernels.bench.argument_checks import check_float_dtypes, check_no_gradient
from espalier.kernels.bench.jit import in_float32, jit, next_power_of_2, tl
from espalier.kernels.bench.spec import Inputs, Kernel, KernelError, Shape, Version, add
from espalier.kernels.bench.tuned import Config, bucket, tuned

LOG2_E = 1.4426950408889634
DEEPEST = 256  # largest head size that fits the registers


@jit
def _read(pointers, there, deep, EDGE: tl.constexpr, RAGGED: tl.constexpr):
    """Load a tile, masked only if it can extend beyond the tensor."""
    if EDGE:
        return tl.load(pointers, mask=there & deep, other=0)
    elif RAGGED:
        return tl.load(pointers, mask=deep, other=0)
    else:
        return tl.load(pointers)


@jit
def _span(
    total, largest, sums, q, k, v, mask, row, inner, s, t, d, first, last, scale, k_row, k_step, v_row, v_step,
    mask_row, mask_step,
    N: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, EDGE: tl.constexpr, EXACT: tl.constexpr,
    RAGGED: tl.constexpr,
):  # fmt: skip
    """Process keys first … last: scores, rescaling of the running softmax to the new maximum, and weighted values."""
    for start in range(first, last, N):
        key = start + tl.arange(0, N)
        pointers = k + key[None, :].to(tl.int64) * k_row + inner[:, None] * k_step
        keys = _read(pointers, key[None, :] < t, inner[:, None] < d, EDGE, RAGGED)
        if EXACT:
            score = tl.dot(q.to(tl.float32), keys.to(tl.float32), input_precision="ieee") * scale
        else:
            score = tl.dot(q, keys) * scale
        if MASKED:
            there = (row[:, None] < s) & (key[None, :] < t)
            pointers = mask + row[:, None].to(tl.int64) * mask_row + key[None, :] * mask_step
            score += tl.load(pointers, mask=there, other=0).to(tl.float32) * 1.4426950408889634
        if EDGE:
            in_range = key[None, :] < t
            if CAUSAL:
                in_range = in_range & (row[:, None] >= key[None, :])
            score = tl.where(in_range, score, -float("inf"))
        higher = tl.maximum(largest, tl.max(score, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        part = tl.exp2(score - base[:, None])
        factor = tl.exp2(largest - base)
        sums = sums * factor + tl.sum(part, 1)
        total = total * factor[:, None]
        pointers = v + key[:, None].to(tl.int64) * v_row + inner[None, :] * v_step
        values = _read(pointers, key[:, None] < t, inner[None, :] < d, EDGE, RAGGED)
        if EXACT:
            total = tl.dot(part, values.to(tl.float32), total, input_precision="ieee")
        else:
            total = tl.dot(part.to(values.dtype), values, total)
        largest = higher
    return total, largest, sums


@jit
def _attend(
    q, k, v, mask, out, s, t, d, heads, scale,
    q_batch, q_head, q_row, q_step, k_batch, k_head, k_row, k_step, v_batch, v_head, v_row, v_step,
    mask_batch, mask_head, mask_row, mask_step, out_batch, out_head, out_row,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    EXACT: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """M queries of one head against all keys that they attend to; keys without a mask come first."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # longest rows first
    batch, head = (tl.program_id(1) // heads).to(tl.int64), (tl.program_id(1) % heads).to(tl.int64)
    row, inner = block * M + tl.arange(0, M), tl.arange(0, D)
    here = (row[:, None] < s) & (inner[None, :] < d)
    query_pointers = q + batch * q_batch + head * q_head + row[:, None].to(tl.int64) * q_row + inner[None, :] * q_step
    queries = tl.load(query_pointers, mask=here, other=0)
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    mask += batch * mask_batch + head * mask_head
    total = tl.zeros((M, D), tl.float32)
    largest = tl.full((M,), -float("inf"), tl.float32)
    sums = tl.zeros((M,), tl.float32)
    last = tl.minimum((block + 1) * M, t) if CAUSAL else t
    free = tl.minimum(block * M, t) // N * N if CAUSAL else t // N * N
    total, largest, sums = _span(total, largest, sums, queries, k, v, mask, row, inner, s, t, d, 0, free, scale, k_row,
                              k_step, v_row, v_step, mask_row, mask_step, N, CAUSAL, MASKED, False, EXACT,
                              RAGGED)  # fmt: skip
    total, largest, sums = _span(total, largest, sums, queries, k, v, mask, row, inner, s, t, d, free, last, scale,
                              k_row, k_step, v_row, v_step, mask_row, mask_step, N, CAUSAL, MASKED, True, EXACT,
                              RAGGED)  # fmt: skip
    total = total / tl.where(sums == 0, 1.0, sums)[:, None]  # a query that attends to nothing gives zero
    pointers = out + batch * out_batch + head * out_head + row[:, None].to(tl.int64) * out_row + inner[None, :]
    tl.store(pointers, total.to(out.dtype.element_ty), mask=here)


CONFIGS: list[Config] = [
    {"m": m, "n": n, "num_warps": w, "num_stages": s}
    for m, n, w, s in ((128, 64, 8, 3), (128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (64, 64, 4, 3))
]  # fmt: skip


SMALL: list[Config] = [{"m": 32, "n": 32, "num_warps": 4, "num_stages": 1}]  # float32 has no matrix units


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """softmax(q·kᵀ/√d + mask)·v of [batch, heads, tokens, d] by Triton, any strides; d up to 256.

    `mask`: bool (True: attend) or additive, in any shape that broadcasts. `causal`: token i attends to 0 … i.
    """
    _check(q, k, v)
    batch, heads, s, d = q.shape
    t, dk = k.shape[-2], next_power_of_2(max(d, 16))
    out = torch.empty_strided(q.shape, (heads * s * d, s * d, d, 1), dtype=q.dtype, device=q.device)
    added = q if mask is None else _added(mask, q, (batch, heads, s, t))
    strides = (0, 0, 0, 0) if mask is None else added.stride()
    exact = in_float32(q.dtype, q.device.type)

    def _launch(c: Config) -> None:
        _attend[(-(-s // c["m"]), batch * heads)](
            q, k, v, added, out, s, t, d, heads, LOG2_E / math.sqrt(d), *q.stride(), *k.stride(), *v.stride(), *strides,
            *out.stride()[:3], M=c["m"], N=c["n"], D=dk, CAUSAL=causal, MASKED=mask is not None, EXACT=exact,
            RAGGED=dk != d, num_warps=c["num_warps"], num_stages=c["num_stages"],
        )  # fmt: skip

    if out.numel():
        configs = SMALL if exact else CONFIGS
        key = f"attention|{q.dtype}|{bucket(s=s, t=t, d=d, n=batch * heads)},{causal:d}{mask is not None:d}"
        _launch(tuned(key, q.device.type, configs, _launch))
    return out


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise KernelError for shapes and dtypes that the kernel does not support."""
    check_float_dtypes("attention", q, k, v)
    check_no_gradient("attention", q, k, v)
    compatible = q.ndim == k.ndim == v.ndim == 4 and k.shape == v.shape and q.shape[:2] == k.shape[:2]
    if not compatible or q.shape[-1] != k.shape[-1]:
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        raise KernelError(f"attention does not take queries, keys and values of {shapes}.",
                          "Give [batch, heads, tokens, d], all with the same batch, heads and d.")  # fmt: skip
    if q.shape[-1] > DEEPEST:
        raise KernelError(f"attention does not take heads of {q.shape[-1]}.", f"They have at most {DEEPEST} elements.")


def _added(mask: Tensor, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    """An additive mask with the strides of a broadcast."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(~mask, float("-inf"))
    return mask.expand(shape)


def naive(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Three steps through memory: scores, softmax, weighted values."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """torch's fused version."""
    if mask is not None and causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        mask, causal = mask.masked_fill(hidden, float("-inf")), False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


QUERIES, HEADS = 256, 2  # compared with the reference


def _inputs(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    generator = torch.Generator(device).manual_seed(seed)
    size = shape["b"], shape["h"], shape["s"], shape["d"]
    q, k, v = (torch.randn(size, generator=generator, device=device, dtype=torch.float32).to(dtype) for _ in range(3))
    mask = None
    if shape["mask"]:
        hidden = torch.rand(size[0], 1, size[2], size[2], generator=generator, device=device) < 0.1
        hidden.diagonal(dim1=-2, dim2=-1).fill_(
            False
        )  # each token attends to itself, since an empty softmax is undefined
        mask = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return q, k, v, mask, bool(shape["causal"])


def _reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The last queries of the first heads in double precision."""
    first = max(q.shape[2] - QUERIES, 0)
    queries, keys, values = q[:1, :HEADS, first:].double(), k[:1, :HEADS].double(), v[:1, :HEADS].double()
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask[:1, :HEADS, first:]
    if causal:
        row = torch.arange(first, q.shape[2], device=q.device)[:, None]
        scores = scores.masked_fill(row < torch.arange(k.shape[2], device=q.device), float("-inf"))
    return torch.softmax(scores, -1) @ values


def _sampled(out: Tensor, *inputs: object) -> Tensor:
    return out[:1, :HEADS, -QUERIES:]


def _flops(shape: Shape) -> int:
    return 4 * shape["b"] * shape["h"] * shape["s"] ** 2 * shape["d"] // (2 if shape["causal"] else 1)


def _bytes(shape: Shape, size: int) -> int:
    square = shape["b"] * shape["s"] ** 2 * shape["mask"]
    return (4 * shape["b"] * shape["h"] * shape["s"] * shape["d"] + square) * size


def _naive_bytes(shape: Shape, size: int) -> int:
    """Bytes of the score matrix: written, scaled, masked, normalised and read."""
    steps = 6 + 2 * (shape["mask"] + shape["causal"])
    return _bytes(shape, size) + steps * shape["b"] * shape["h"] * shape["s"] ** 2 * size


def _shape(b: int, h: int, s: int, d: int, causal: int = 0, mask: int = 0) -> Shape:
    return {"b": b, "h": h, "s": s, "d": d, "causal": causal, "mask": mask}


def _deep(shape: Shape, dtype: str, device: str) -> str:
    return f"heads of more than {DEEPEST} do not fit" if shape["d"] > DEEPEST else ""


KERNEL = add(
    Kernel(
        name="attention",
        title="Attention",
        about="Scaled dot-product attention. Fused, the matrix of scores stays on the chip.",
        formula="softmax(q·kᵀ/√d + mask)·v",
        family="Attention, softmax",
        dims=("b", "h", "s", "d", "causal", "mask"),
        inputs=_inputs,
        reference=_reference,
        versions=(
            Version("torch", fused, "torch's scaled_dot_product_attention"),
            Version("triton", attention, "online softmax over blocks of keys", ("cuda",), ("triton",), refuses=_deep,
                    shows=(_read, _span, _attend)),
            Version("naive", naive, "three steps through memory", traffic=_naive_bytes),
        ),
        flops=_flops,
        traffic=_bytes,
        shapes={
            "cpu": (_shape(1, 4, 256, 64), _shape(1, 4, 256, 64, 1), _shape(1, 2, 200, 128, 0, 1)),
            "cuda": (_shape(4, 16, 4096, 128), _shape(1, 16, 16384, 128), _shape(4, 16, 4096, 128, 1),
                     _shape(4, 16, 4096, 64), _shape(4, 16, 2048, 128, 0, 1)),
        },
        sweep={
            "cpu": tuple(_shape(1, 4, s, 64) for s in (32, 64, 128, 256, 512, 1024)),
            "cuda": tuple(_shape(4, 16, s, 128) for s in (128, 256, 512, 1024, 2048, 4096, 8192)),
        },
        tolerance={"float32": 2e-5, "bfloat16": 1.5e-2, "float16": 4e-3},
        sampled=_sampled,
    )
)  # fmt: skip
