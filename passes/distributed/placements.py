"""Placements of a node's ports as DTensor's, where they apply to a tensor of a given shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.fx.node import map_aggregate

from espalier.model.graph.node import Node
from espalier.passes.sharding.apply import in_use

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Placements = tuple[Placement, ...]


def replicated(mesh: DeviceMesh) -> Placements:
    """Replicated over every axis of the mesh."""
    return (Replicate(),) * mesh.ndim


def applied(texts: Sequence[str], shape: Sequence[int], mesh: DeviceMesh, now: Placements | None = None) -> Placements:
    """The placements of a tensor of `shape`: an axis that does not divide its dimension replicates instead.

    `now`: the present placements, which a planned partial sum keeps, since none can be made of another placement.
    """
    sizes, wanted = list(shape), list[Placement]()
    for axis, text in enumerate(texts):
        count = mesh.size(axis)
        if text == "P":
            wanted.append(now[axis] if now else Replicate())
            continue
        dim = int(text[1:]) if text.startswith("S") else -1
        if 0 <= dim < len(sizes) and sizes[dim] % count == 0:
            sizes[dim] //= count
            wanted.append(Shard(dim))
        else:
            wanted.append(Replicate())
    return tuple(wanted)


def planned(node: Node | None, port: str, value: DTensor) -> Placements | None:
    """The placements that the node wants this value in; None where it has no choice."""
    if node is None or node.sharding is None:
        return None
    texts = in_use(node, port)
    if texts is None:
        return None
    return applied(texts, value.shape, value.device_mesh, tuple(value.placements))


def placed(value: DTensor, placements: Placements | None) -> DTensor:
    """The value in these placements; unchanged where it has them or there is no choice."""
    if placements is None or tuple(value.placements) == placements:
        return value
    # DTensor keeps a tensor's strides when it redistributes, but its parts come out contiguous (torch 2.13).
    dense: Any = value.contiguous()
    found: DTensor = dense.redistribute(placements=placements)
    if found.requires_grad and found.grad_fn is not None:
        found.register_hook(_contiguous)
    return found


def _contiguous(gradient: DTensor) -> DTensor:
    dense: Any = gradient.contiguous()
    return cast("DTensor", dense)


def settled(value: DTensor) -> DTensor:
    """The value without partial sums, which only linear operations may take."""
    if not any(p.is_partial() for p in value.placements):
        return value
    return placed(value, tuple(Replicate() if p.is_partial() else p for p in value.placements))


def of_gradient(gradient: DTensor, placements: Placements) -> Placements:
    """The placements of a gradient of a value with these: partial sums are added up, whole ones split as the value."""
    return tuple(Replicate() if at.is_partial() and not isinstance(wanted, Shard)
                 else wanted if isinstance(wanted, Shard) and not isinstance(at, Shard) else at
                 for at, wanted in zip(gradient.placements, placements, strict=True))  # fmt: skip


def without_masked_sums(value: DTensor) -> DTensor:
    """The value without partial sums of DTensor's own kinds, such as those of an embedding split by vocabulary."""
    foreign = [p.is_partial() and type(p) is not Partial for p in value.placements]
    if not any(foreign):
        return value
    pairs = zip(value.placements, foreign, strict=True)
    return placed(value, tuple(Replicate() if masked else p for p, masked in pairs))


def full(value: Any) -> Any:
    """The whole tensor on each rank; what is no DTensor stays."""
    if not isinstance(value, DTensor):
        return value
    return local(placed(value, replicated(value.device_mesh)))


def whole_call(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A function on whole tensors, on each rank alike."""
    return target(*map_aggregate(args, full), **map_aggregate(dict(kwargs), full))


def local(value: DTensor, split: Sequence[bool] = ()) -> Any:
    """The part on this rank. `split`: of each axis whether the computation is split along it, so that the gradient of
    a replicated operand is a partial sum there."""
    gradients = [
        Partial() if isinstance(p, Replicate) and axis < len(split) and split[axis] else p
        for axis, p in enumerate(value.placements)
    ]
    tensor: Any = value.to_local(grad_placements=gradients)
    return tensor.wait() if hasattr(tensor, "wait") and type(tensor).__name__ == "AsyncCollectiveTensor" else tensor


def as_replicated(value: Any, mesh: DeviceMesh) -> DTensor:
    """A tensor that is equal on all ranks."""
    return DTensor.from_local(value, mesh, replicated(mesh), run_check=False)
