"""Leaves of a built model over split tensors: what DTensor computes by rules of its own, and what needs others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor

from espalier.model.torch.layers import Compressed
from espalier.model.torch.low_rank import Adapted
from espalier.passes.distributed.placements import full, local, placed, replicated, settled

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class SplitAdapted(nn.Module):
    """A leaf with an adapter. The sum is not in place, since base and adapter may have different placements."""

    def __init__(self, base: nn.Module | Callable[..., Any], old: Adapted, layer: nn.Module) -> None:
        super().__init__()
        self.base, self.adapter = base, old.adapter
        self.layer = [layer]  # in a list, so that it is no submodule of this module

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The base's result plus the adapter's, in the base's dtype."""
        y = self.base(x, *args, **kwargs)
        more = self.adapter(settled(x) if isinstance(x, DTensor) else x, self.layer[0])
        if isinstance(y, DTensor) and isinstance(more, DTensor):
            more = _in_sum(settled(more), y)
        return cast("Tensor", y + more.to(y.dtype))


def _in_sum(value: DTensor, total: DTensor) -> DTensor:
    """A value in the placements of a tensor that it is added to: to a partial sum the first rank of an axis adds it."""
    mesh, sums = total.device_mesh, [p.is_partial() for p in total.placements]
    pairs = zip(total.placements, sums, strict=True)
    value = placed(value, tuple(Replicate() if is_sum else p for p, is_sum in pairs))
    if not any(sums):
        return value
    first = all(mesh.get_local_rank(axis) == 0 for axis, is_sum in enumerate(sums) if is_sum)
    part = local(value, sums) * float(first)
    return DTensor.from_local(part, mesh, total.placements, run_check=False)


class SplitConvolution(nn.Module):
    """A convolution: split by samples, by output channels, or by input channels (a partial sum)."""

    def __init__(self, leaf: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.leaf = leaf
        self.inner = [layer]

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As the leaf."""
        if not isinstance(x, DTensor):
            return self.leaf(x, *args, **kwargs)
        weight, bias = (_tensor(self.leaf, port) for port in ("weight", "bias"))
        inner: Any = self.inner[0]
        x = settled(x)
        kinds = [_convolution_split(inner, x, weight, axis) for axis in range(x.device_mesh.ndim)]
        groups = math.prod(x.device_mesh.size(axis) for axis, k in enumerate(kinds) if k == "groups")
        if inner.groups % groups:
            kinds = ["" if k == "groups" else k for k in kinds]
        x = placed(x, tuple(_CONVOLUTION[k][0] for k in kinds))
        weight = placed(weight, tuple(_CONVOLUTION[k][1] for k in kinds))
        sums = "inputs" in kinds
        samples = [k == "samples" for k in kinds]
        values = {"weight": local(weight, samples)}
        if bias is not None:
            bias = placed(bias, tuple(Shard(0) if k in ("outputs", "groups") else Replicate() for k in kinds))
            part = local(bias, samples)
            values["bias"] = torch.zeros_like(part) if sums else part  # is added once, to the sum
        given = local(x, [k == "outputs" for k in kinds])
        if "groups" in kinds:
            function: Any = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
            result = function(given, values["weight"], values.get("bias"), inner.stride, inner.padding, inner.dilation,
                              inner.groups // groups)  # fmt: skip
        else:
            result = torch.func.functional_call(inner, values, (given, *args), kwargs)
        y = DTensor.from_local(result, x.device_mesh, [_CONVOLUTION[k][2] for k in kinds], run_check=False)
        if not sums or bias is None:
            return y
        y = settled(y)
        return y + bias.reshape(-1, *(1,) * (y.dim() - 2))


_CONVOLUTION: dict[str, tuple[Placement, Placement, Placement]] = {  # of the input, the weight and the result
    "": (Replicate(), Replicate(), Replicate()),
    "samples": (Shard(0), Replicate(), Shard(0)),
    "outputs": (Replicate(), Shard(0), Shard(1)),
    "groups": (Shard(1), Shard(0), Shard(1)),
    "inputs": (Shard(1), Shard(1), Partial()),
}


def _convolution_split(inner: Any, x: DTensor, weight: DTensor, axis: int) -> str:
    """How one axis of the mesh splits a convolution; empty where it cannot without changing the result."""
    given, stored = x.placements[axis], weight.placements[axis]
    if x.dim() != weight.dim():  # one sample without a batch axis
        return ""
    if given == Shard(0):
        return "samples"
    if inner.padding_mode != "zeros":
        return ""
    if inner.groups != 1:
        return "groups" if given == Shard(1) and stored == Shard(0) else ""
    if stored == Shard(0) and given == Replicate():
        return "outputs"
    return "inputs" if stored == Shard(1) and given == Shard(1) else ""


def _tensor(leaf: nn.Module, port: str) -> Any:
    return leaf.tensor(port) if isinstance(leaf, Compressed) else getattr(leaf, port, None)


class SplitNorm(nn.Module):
    """A batch normalisation: in evaluation split by samples, in training and otherwise on whole tensors."""

    def __init__(self, leaf: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.leaf = leaf
        self.inner = [layer]

    def forward(self, x: Any) -> Any:
        """As the leaf."""
        if not isinstance(x, DTensor):
            return self.leaf(x)
        inner: Any = self.inner[0]
        uses_batch = inner.training or inner.running_mean is None
        x = settled(x)
        split = [p == Shard(0) and not uses_batch for p in x.placements]
        x = placed(x, tuple(Shard(0) if s else Replicate() for s in split))
        values: dict[str, Any] = {}
        for port in ("weight", "bias", "running_mean", "running_var"):
            value = _tensor(self.leaf, port)
            if isinstance(value, DTensor):
                values[port] = local(placed(value, replicated(x.device_mesh)), split)
            elif value is not None:
                values[port] = value
        result = torch.func.functional_call(inner, values, (local(x),))
        if inner.training:
            for port in ("running_mean", "running_var"):  # those of a split one were updated in a copy
                stored = getattr(inner, port)
                if isinstance(stored, DTensor):
                    after = distribute_tensor(values[port], x.device_mesh, stored.placements, src_data_rank=None)
                    stored.copy_(after)
        return DTensor.from_local(result, x.device_mesh, x.placements, run_check=False)


class SplitEmbedding(nn.Module):
    """An embedding: split by samples, by features, or by vocabulary (a partial sum)."""

    def __init__(self, leaf: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.leaf = leaf
        self.inner = [layer]

    def forward(self, x: Any) -> Any:
        """As the leaf."""
        inner: Any = self.inner[0]
        if not isinstance(x, DTensor):
            return self.leaf(x)
        if inner.max_norm is not None:
            raise NotImplementedError("it renormalises its weight")
        return embedding(_tensor(self.leaf, "weight"), x, inner.padding_idx)


def embedding(weight: DTensor, indices: DTensor, padding: int | None = None) -> DTensor:
    """Rows of a weight, of parts of both; torch's own rule has no gradient of a sum over masked parts."""
    mesh = weight.device_mesh
    given, stored, result = list(indices.placements), list(weight.placements), list[Placement]()
    for axis in range(mesh.ndim):
        if isinstance(given[axis], Shard):
            stored[axis] = Replicate()
        own = stored[axis]
        by_row = own == Shard(0)
        result.append(Partial() if by_row else Shard(indices.dim()) if own == Shard(1) else given[axis])
    weight = placed(weight, tuple(stored))
    rows = local(weight, [isinstance(p, Shard) for p in given])
    index = local(indices)
    if Shard(0) not in stored:
        pad = -1 if padding is None else padding
        value = torch.ops.aten.embedding.default(rows, index, pad, False, False)
        return DTensor.from_local(value, mesh, result, run_check=False)
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(weight.shape, mesh, weight.placements)
    index = index - offset[0]
    outside = (index < 0) | (index >= rows.shape[0])
    pad = padding - offset[0] if padding is not None and _is_own(padding, offset[0], rows) else -1
    value = torch.ops.aten.embedding.default(rows, index.masked_fill(outside, 0), pad, False, False)
    value = value.masked_fill(outside.unsqueeze(-1), 0.0)
    return DTensor.from_local(value, mesh, result, run_check=False)


def _is_own(padding: int, offset: int, rows: Tensor) -> bool:
    return offset <= padding < offset + rows.shape[0]


def attention(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """scaled_dot_product_attention on the parts of each rank, split by samples or heads; torch's own rule does not
    return on CPUs with a mask."""
    query = settled(args[0])
    causal = kwargs.get("is_causal") is True or args[5:6] == (True,)
    rows = query.dim() - 1 - causal  # rows of the query are independent, but a causal mask needs their positions
    splits = [p.dim if isinstance(p, Shard) and p.dim < rows else None for p in query.placements]
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    operands: list[Any] = [query, *args[1:3], mask]
    for axis, dim in enumerate(splits):
        count = query.device_mesh.size(axis)
        shared = operands[: 1 if dim == query.dim() - 2 else 3]
        if dim is not None and any(o.shape[dim] % count for o in shared):
            splits[axis] = None
    batch = [d if d is None or d < query.dim() - 2 else None for d in splits]  # keys and values have all rows
    split = [d is not None for d in splits]
    parts = [_attention_part(o, batch if i in (1, 2) else splits, split, query.dim()) for i, o in enumerate(operands)]
    positional = [*parts[:3], *args[3:]]
    named = dict(kwargs)
    if len(args) > 3:
        positional[3] = parts[3]
    elif "attn_mask" in named:
        named["attn_mask"] = parts[3]
    result = function(*positional, **named).contiguous()  # DTensor's rule for reshape takes views
    placements = [Replicate() if d is None else Shard(d) for d in splits]
    return DTensor.from_local(result, query.device_mesh, placements, run_check=False)


def takes_all(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call is a slice of all rows of a DTensor, as transformers' models have them."""
    if str(function) != "aten.slice.Tensor" or not isinstance(args[0], DTensor):
        return False
    given: tuple[Any, ...] = (*args[1:], *(0, None, None, 1)[len(args) - 1 :])
    dim, start, end, step = given
    return not start and step == 1 and (end is None or (isinstance(end, int) and end >= args[0].shape[dim]))


def drops(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of scaled_dot_product_attention drops scores at random."""
    return bool(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))


def _attention_part(value: Any, splits: list[int | None], split: list[bool], rank: int) -> Any:
    """This rank's part of an operand; a mask may lack leading dimensions or have them of size 1."""
    if not isinstance(value, DTensor):
        return value
    wanted = list[Placement]()
    for dim in splits:
        own = None if dim is None else dim - (rank - value.dim())
        wanted.append(Replicate() if own is None or own < 0 or value.shape[own] == 1 else Shard(own))
    return local(placed(value, tuple(wanted)), split)


def whole(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A module on whole tensors, on each rank alike."""
    values = {n: full(v) for n, v in (*module.named_parameters(), *module.named_buffers()) if isinstance(v, DTensor)}
    given = tuple(full(a) for a in args)
    return torch.func.functional_call(module, values, given, {k: full(v) for k, v in kwargs.items()}, tie_weights=False)
