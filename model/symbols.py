"""Arithmetic over the symbolic sizes of shapes ("batch*seq//2"), without sympy and without eval."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

MAX_CHARACTERS = 1000  # Python's parser is recursive, and expressions come from files


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= 16:
        raise ValueError(f"not a size expression: a power of {exponent}")
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: _power,
}  # fmt: skip
_CALLS: dict[str, Callable[..., int]] = {
    "Mod": operator.mod, "PythonMod": operator.mod, "FloorDiv": operator.floordiv, "Max": max, "Min": min,
}  # fmt: skip


@lru_cache(maxsize=4096)
def _parse(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, symbols), _value(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            return _CALLS[name](*(_value(a, symbols) for a in args))
        case _:
            raise ValueError(f"not a size expression: {ast.unparse(node)}")


_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.LtE: operator.le, ast.Lt: operator.lt, ast.GtE: operator.ge, ast.Gt: operator.gt, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def holds(condition: str, symbols: Mapping[str, int]) -> bool:
    """Whether a comparison of two size expressions ("batch<=5") is true; raises as `evaluate` does."""
    match _tree(condition):
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_value(left, symbols), _value(right, symbols))
        case _:
            raise ValueError(f"not a comparison of sizes: {condition}")


def evaluate(expression: str, symbols: Mapping[str, int]) -> int:
    """The value of a size expression; raises ValueError for other syntax, KeyError for an unknown symbol."""
    return _value(_tree(expression), symbols)


def _tree(expression: str) -> ast.expr:
    if len(expression) > MAX_CHARACTERS:
        raise ValueError(f"not a size expression: {expression[:40]}…")
    try:
        return _parse(expression)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not a size expression: {expression!r}") from error
