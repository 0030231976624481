"""Input sizes that a model specialises to a constant, although torch.export reports them as dynamic."""

from __future__ import annotations

import os
import traceback
from itertools import pairwise
from pathlib import Path
from typing import Any

import sympy
import torch
from sympy.core.relational import Relational
from torch import Tensor
from torch.export import ExportedProgram

from espalier.model.graph.size_limit import SizeLimit
from espalier.model.symbols import holds
from espalier.model.trace.shapes import Names

_REACH = 64  # sizes tried on each side of the example's
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_UNBOUNDED = 2**31 - 1  # of a size that a program declares without an upper end

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


def size_limits(program: ExportedProgram, names: Names) -> tuple[SizeLimit, ...]:
    """The conditions on free sizes that the model's code tested at capture, with file name and line.

    What torch's operators test of sizes on their own is left out, as the graph holds these operators. A loaded program
    has no record of tests, but the range of each size, which its own module enforces.
    """
    found: dict[SizeLimit, None] = {}
    for guard in _guards(program):
        place = guard.sloc.framework_loc
        if isinstance(place, traceback.FrameSummary) and not _internal(place.filename):
            source = f"{_short(Path(place.filename))}:{place.lineno}"
            found |= {SizeLimit(text, source): None for text in _conditions(guard.expr, names)}
    return tuple(found)


def range_limits(program: ExportedProgram, names: Names) -> tuple[SizeLimit, ...]:
    """The ranges that a loaded program declares for its free sizes, without torch's own from 0 or 2."""
    found: list[SizeLimit] = []
    for symbol, ends in program.range_constraints.items():
        name = names.write(symbol)
        if name is not None:
            found += [SizeLimit(f"{name}>={int(ends.lower)}")] if 2 < ends.lower < _UNBOUNDED else []
            found += [SizeLimit(f"{name}<={int(ends.upper)}")] if ends.upper < _UNBOUNDED else []
    return tuple(found)


def _guards(program: ExportedProgram) -> list[Any]:
    sizes = [d for value in _inputs(program).values() for d in value.shape if isinstance(d, torch.SymInt)]
    return list(sizes[0].node.shape_env.guards) if sizes else []


def _short(file: Path) -> str:
    """The name of a file, after that of its package where one is installed."""
    *_, package = ("", *(after for name, after in pairwise(file.parts) if name == "site-packages"))
    return f"{package}/{file.name}" if package else file.name


def _internal(file: str) -> bool:
    """Whether a file belongs to torch; its layers and functionals choose operators, as a model's code does."""
    return file.startswith(_TORCH) and not file.startswith(f"{_TORCH}nn{os.sep}")


def _conditions(guard: Any, names: Names) -> list[str]:
    """The comparisons of a guard over named sizes, as texts."""
    if isinstance(guard, sympy.And):
        return [text for part in guard.args for text in _conditions(part, names)]
    if not isinstance(guard, Relational):
        return []
    relation: Any = guard  # sympy has no types of its attributes
    left, right = names.write(relation.lhs), names.write(relation.rhs)
    text = f"{left}{relation.rel_op}{right}"
    try:
        # a test of sizes that are equal in the graph says nothing
        usable = None not in (left, right) and left != right and holds(text, names.symbols)
    except (ValueError, KeyError, ZeroDivisionError):
        return []
    return [text] if usable else []


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
