"""The usual ways to distribute a model, as restrictions of the strategies that a plan may choose from."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import OptionsError, nearest
from espalier.model.graph.ops import macs, spec
from espalier.passes.sharding.factors import REPLICATED
from espalier.passes.sharding.network import Held, Network, State, Unit
from espalier.passes.sharding.strategies import Strategy

BASELINES = ("replicated", "data", "fsdp", "megatron")
Mask = NDArray[np.bool_]
_TENSOR = ("column", "row", "heads", "vocabulary", "expert", "groups")


def masks(name: str, network: Network) -> list[Mask]:
    """The states that a baseline allows, of every unit; raises OptionsError where it splits nothing along an axis.

    data: each rank has a part of the batch (S. Li et al., "PyTorch Distributed", VLDB 2020). fsdp: the same, and
    weights are stored in parts (Y. Zhao et al., "PyTorch FSDP", VLDB 2023). megatron: data parallel along the first of
    two axes; along the last, layers column- or row-wise, attention by heads (M. Shoeybi et al., arXiv:1909.08053).
    """
    if name not in BASELINES:
        raise OptionsError(f"There is no baseline {name!r}.", nearest(name, BASELINES))
    found = [np.array(_allowed(name, u, network), bool) for u in network.units]
    for axis, n in enumerate(network.mesh):
        if n > 1 and name != "replicated" and not _splits(network, found, axis):
            data = name != "megatron" or axis < len(network.mesh) - 1
            hint = f"Give a batch_size that {n} divides." if data else _dividing(network, n)
            raise OptionsError(f"{name} splits nothing along the axis of {n} devices.", hint)
    return found


def _splits(network: Network, found: list[Mask], axis: int) -> bool:
    return any(
        isinstance(s, Strategy) and s.names[axis] not in (REPLICATED, "partial") and _is_product(u, network)
        for u, mask in zip(network.units, found, strict=True) for s, ok in zip(u.states, mask, strict=True) if ok
    )  # fmt: skip


def _is_product(unit: Unit, network: Network) -> bool:
    return unit.call is not None and macs(unit.call.node, network.sizing.sizes) > 0


def _allowed(name: str, unit: Unit, network: Network) -> list[bool]:
    last = len(network.mesh) - 1
    axes = {i: "replicated" if name == "replicated" else "tensor" if name == "megatron" and i == last else "data"
            for i in range(len(network.mesh))}  # fmt: skip
    scores = [_score(s, unit, axes, name, network) for s in unit.states]
    best = max(scores)
    return [s == best for s in scores]


def _score(state: State, unit: Unit, axes: dict[int, str], name: str, network: Network) -> int:
    """Axes that a state uses as the baseline means it; −1 for each on which it must not."""
    if isinstance(state, Held):
        return _held_score(state, unit, axes, name)
    total = 0
    for axis, what in axes.items():
        chosen = state.names[axis]
        if what == "data":
            total += 1 if chosen == "data" else 0 if chosen == REPLICATED else -9
        elif what == "replicated":
            total -= 9 * (chosen != REPLICATED)
        elif chosen in _TENSOR and _is_layer(unit, network):
            total += 1
        elif chosen in ("data", "sequence") or (unit.call and spec(unit.call.node.op).category == "norm"):
            total -= 9 * (chosen != REPLICATED)
    return total


def _is_layer(unit: Unit, network: Network) -> bool:
    return _is_product(unit, network) or bool(unit.call and unit.call.node.op == "embedding")


def _held_score(state: Held, unit: Unit, axes: dict[int, str], name: str) -> int:
    if unit.key[0] != "weight":
        return -9 * (name == "replicated" and any(p != "R" for p in (*state.placements, *state.gradient)))
    total = 0
    for axis, what in axes.items():
        at = state.placements[axis]
        if name == "fsdp":
            total += 1 if at == "S0" else 0 if at == "R" else -9
        elif what != "tensor":
            total -= 9 * (at != "R")
    return total


def divisors(number: int, limit: int = 1024) -> list[int]:
    """The numbers from 2 to `limit` that divide a number."""
    return [n for n in range(2, min(number, limit) + 1) if number % n == 0]


def heads_of(network: Network) -> list[int]:
    """The numbers of heads of the attentions."""
    found = (u.call.shapes["data_in"] for u in network.units if u.call and u.call.node.op in (
        "scaled_dot_product_attention",))  # fmt: skip
    return sorted({s[1] for s in found if len(s) == 4})


def widths_of(network: Network) -> list[int]:
    """The widths of the layers."""
    shapes = (u.weight.shape[:2] for u in network.units if u.weight and len(u.weight.shape) > 1)
    return sorted({d for shape in shapes for d in shape if d > 1})


def _dividing(network: Network, n: int) -> str:
    sizes = heads_of(network) or widths_of(network)
    fitting = divisors(math.gcd(*sizes)) if sizes else []
    text = ", ".join(map(str, fitting[:12]))
    return f"{text} devices would divide {'its heads' if heads_of(network) else 'its widths'}." if text else (
        "Use data parallelism.")  # fmt: skip
