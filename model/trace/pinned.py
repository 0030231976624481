"""Input sizes that a model has turned into a plain number: torch.export keeps the number and still calls them free."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import Tensor
from torch.export import ExportedProgram

_REACH = 64  # other sizes that are tried on each side of the example's

Places = dict[str, set[int]]


def pinned(program: ExportedProgram) -> Places:
    """Input name → axes that can have no other size than the example's, though the program calls them free.

    `float(x.numel())` leaves the guard 4·batch·seq = 60: the product is baked in, so none of its sizes is free.
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


def floors(program: ExportedProgram) -> dict[str, int]:
    """`x[0]` → the least size for which the program holds, where the model decides by its size."""
    found: dict[str, int] = {}
    for name, value in _inputs(program).items():
        for axis, size in enumerate(value.shape):
            least = [program.range_constraints[s].lower for s in _free(size) if s in program.range_constraints]
            if (
                least and isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and least[0] > 2
            ):  # 0, 1: torch's own
                found[f"{name}[{axis}]"] = int(least[0])
    return found


def _inputs(program: ExportedProgram) -> dict[str, Tensor]:
    users = {str(n) for n in program.graph_signature.user_inputs}
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder" and n.name in users}
    return {k: v for k, v in values.items() if isinstance(v, Tensor)}


def _free(size: Any) -> set[Any]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def _names_a_number(guard: Any) -> bool:
    return isinstance(guard, sympy.Eq) and any(side.is_number for side in guard.args) and bool(guard.free_symbols)


def _only(guard: Any, symbol: Any, values: Any) -> bool:
    """Whether the guard holds at no other size of `symbol` alone; a divisor of a size has others."""
    if not guard.free_symbols <= set(values):  # a size that only the data decides
        return False
    now = int(values[symbol])
    others = (n for n in range(max(1, now - _REACH), now + _REACH) if n != now)
    rest = {s: int(values[s]) for s in guard.free_symbols if s != symbol}
    return not any(_holds(guard, {**rest, symbol: sympy.Integer(n)}) for n in others)


def _holds(guard: Any, values: dict[Any, Any]) -> bool:
    try:
        return guard.xreplace(values) == sympy.true
    except ZeroDivisionError:  # a size that the guard's own arithmetic cannot take
        return False
