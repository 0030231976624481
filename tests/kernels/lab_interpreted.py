"""Run with TRITON_INTERPRET=1: holds the Triton kernels of the lab to their references on small CPU tensors of odd
shapes and strides, in all dtypes; prints what is wrong as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from espalier.kernels.bench.run import errors
from espalier.kernels.lab import (
    attention,
    layer_norm,
    linear_gelu,
    mx_dequantize,
    mx_linear,
    mx_matmul,
    mxfp_dequantize,
    softmax,
)
from espalier.model.formats.mxint import MXInt
from espalier.model.torch.mx_weights import packed, plain

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1.5e-2, torch.float16: 4e-3}
Case = tuple[str, Any, Any, float]


def rows(dtype: torch.dtype) -> Iterator[Case]:
    """Softmax and layer norm, of transposed and cut tensors."""
    x = torch.randn(3, 5, 7).to(dtype).transpose(0, 2)
    yield "softmax", softmax.softmax(x), torch.softmax(x.double(), -1), TOLERANCE[dtype]
    wide = torch.randn(2, 33000).to(dtype)
    yield "softmax of long rows", softmax.softmax(wide), torch.softmax(wide.double(), -1), TOLERANCE[dtype]
    x, w, b = torch.randn(5, 3, 45).to(dtype).transpose(0, 1), *torch.randn(2, 45).to(dtype)
    want = F.layer_norm(x.double(), (45,), w.double(), b.double())
    yield "layer norm", layer_norm.forward(x, w, b)[0], want, TOLERANCE[dtype]
    held = [t.detach().requires_grad_() for t in (x, w, b)]
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    dy = torch.randn(x.shape).to(dtype)
    got = torch.autograd.grad(layer_norm.layer_norm(*held), held, dy)
    wanted = torch.autograd.grad(F.layer_norm(exact[0], (45,), *exact[1:]), exact, dy.double())
    yield "gradients", got, wanted, TOLERANCE[dtype]


def products(dtype: torch.dtype) -> Iterator[Case]:
    """Attention, a product with its activation."""
    for s, t, d, causal, masked in ((40, 40, 64, False, False), (35, 35, 128, True, False), (33, 50, 24, False, True)):
        q = torch.randn(1, s, 2, d).to(dtype).transpose(1, 2)
        k, v = torch.randn(2, 1, 2, t, d).to(dtype)
        mask = torch.rand(1, 1, s, t) > 0.2 if masked else None
        want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), attn_mask=mask, is_causal=causal)
        yield f"attention {s, t, d}", attention.attention(q, k, v, mask, causal), want, TOLERANCE[dtype]
    x, w, b = torch.randn(4, 0).to(dtype), torch.randn(45, 0).to(dtype), torch.randn(45).to(dtype)
    want = F.gelu(F.linear(x.double(), w.double(), b.double()))
    yield "linear without columns", linear_gelu.linear_gelu(x, w, b), want, TOLERANCE[dtype]
    x, w, b = torch.randn(70, 30).to(dtype).t(), (torch.randn(45, 70) / 8).to(dtype), torch.randn(45).to(dtype)
    want = F.gelu(F.linear(x.double(), w.double(), b.double()))
    yield "linear and GELU", linear_gelu.linear_gelu(x, w, b), want, TOLERANCE[dtype]


def weights(dtype: torch.dtype) -> Iterator[Case]:
    """MX weights: values bit for bit, products."""
    for width, block, columns in ((8, 32, 96), (8, 16, 45), (4, 32, 64), (4, 16, 45)):
        held = packed(MXInt(width, block), torch.randn(20, columns))
        yield f"values {width, block}", mx_dequantize.by_triton(held, dtype), plain(held, dtype), 0.0
        for m in (1, 3, 17):
            x, b = torch.randn(columns, m).to(dtype).t(), torch.randn(20).to(dtype)
            want = F.linear(x.double(), plain(held, dtype).double(), b.double())
            yield f"product {m, width, block}", mx_linear.linear_triton(x, held, b), want, TOLERANCE[dtype]
    for width, block, columns in ((8, 1, 45), (8, 7, 45), (4, 1, 45), (4, 2, 45), (4, 24, 45)):
        held = packed(MXInt(width, block), torch.randn(5, columns))
        yield f"values {width, block}", mx_dequantize.values(held, dtype), plain(held, dtype), 0.0
    a, b = (packed(MXInt(8, 32), torch.randn(rows, 70)) for rows in (33, 20))
    want = plain(a, torch.float64) @ plain(b, torch.float64).t()
    yield "mxint8 × mxint8", mx_matmul.matmul_triton(a, b, dtype), want, TOLERANCE[dtype]
    eight = packed(MXInt(8, 32), torch.randn(4, 64))
    if dtype != torch.float16:
        yield "bits", mx_dequantize.by_bits(eight, torch.bfloat16), plain(eight, torch.bfloat16), 0.0
    for element in ("e5m2", "e4m3", "e3m2", "e2m3", "e2m1"):
        floats = mxfp_dequantize.random_floats(5, 45, element, "cpu", 0)
        yield element, mxfp_dequantize.by_triton(floats, dtype), mxfp_dequantize.by_torch(floats, dtype), 0.0


def main() -> None:
    """Every case."""
    torch.manual_seed(0)
    wrong: list[Any] = []
    count = 0
    for dtype in TOLERANCE:
        for cases in (rows, products, weights):
            for name, got, want, allowed in cases(dtype):
                count += 1
                share = errors(got, want)[1]
                if not share <= allowed:
                    wrong.append([name, str(dtype), share])
    sys.stdout.write("RESULT" + json.dumps({"count": count, "wrong": wrong}))


if __name__ == "__main__":
    main()
