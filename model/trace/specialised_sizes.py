"""Input sizes that a model specialises to a constant, although torch.export reports them as dynamic."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import Tensor
from torch.export import ExportedProgram

_REACH = 64  # sizes tried on each side of the example's

Axes = dict[str, set[int]]


def specialised_axes(program: ExportedProgram) -> Axes:
    """Input name → axes that only allow the example's size, although the program declares them dynamic.

    `float(x.numel())` leaves the guard 4·batch·seq = 60: the product is a constant, so none of its sizes is dynamic.
    """
    inputs = _inputs(program)
    sizes = [d for value in inputs.values() for d in value.shape if isinstance(d, torch.SymInt)]
    if not sizes:
        return {}
    env: Any = sizes[0].node.shape_env
    guards = [g.expr.xreplace(env.replacements) for g in env.guards]
    stuck = {s for g in guards if _names_a_number(g) for s in g.free_symbols if _only(g, s, env.backed_var_to_val)}
    axes = {name: {i for i, d in enumerate(v.shape) if _free(d) & stuck} for name, v in inputs.items()}
    return {name: found for name, found in axes.items() if found}


def minimum_sizes(program: ExportedProgram) -> dict[str, int]:
    """`x[0]` → the smallest valid size, for dimensions whose size decides a branch of the model."""
    minimum: dict[str, int] = {}
    for name, value in _inputs(program).items():
        for axis, size in enumerate(value.shape):
            least = [program.range_constraints[s].lower for s in _free(size) if s in program.range_constraints]
            if (
                least and isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and least[0] > 2
            ):  # 0, 1: torch's own
                minimum[f"{name}[{axis}]"] = int(least[0])
    return minimum


def _inputs(program: ExportedProgram) -> dict[str, Tensor]:
    users = {str(n) for n in program.graph_signature.user_inputs}
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder" and n.name in users}
    return {k: v for k, v in values.items() if isinstance(v, Tensor)}


def _free(size: Any) -> set[Any]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def _names_a_number(guard: Any) -> bool:
    return isinstance(guard, sympy.Eq) and any(side.is_number for side in guard.args) and bool(guard.free_symbols)


def _only(guard: Any, symbol: Any, values: Any) -> bool:
    """Whether no other size of `symbol` alone satisfies the guard; a divisibility guard allows others."""
    if not guard.free_symbols <= set(values):  # a data-dependent size
        return False
    now = int(values[symbol])
    others = (n for n in range(max(1, now - _REACH), now + _REACH) if n != now)
    rest = {s: int(values[s]) for s in guard.free_symbols if s != symbol}
    return not any(_holds(guard, {**rest, symbol: sympy.Integer(n)}) for n in others)


def _holds(guard: Any, values: dict[Any, Any]) -> bool:
    try:
        return guard.xreplace(values) == sympy.true
    except ZeroDivisionError:  # the guard's arithmetic is undefined at this size
        return False
