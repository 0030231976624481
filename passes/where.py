"""Expressions that select nodes by facts and choices: `op == "linear" and params > 1e4 and bits <= 4`.

A subset of Python's syntax with its own evaluator: numbers, texts, names of facts, comparisons, `and`, `or`, `not`,
`in` and arithmetic. There are no calls or attributes, so that expressions from files cannot run code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from espalier.model.errors import OptionsError, nearest
from espalier.model.graph.graph import Node
from espalier.model.graph.meta import BITS
from espalier.model.graph.ops import category, kind

MAX_CHARACTERS = 1000  # Python's parser is recursive, and expressions come from files
Value = float | str | bool


def _elements(node: Node) -> float:
    """Elements of weight and bias of fixed sizes."""
    sizes = [node.ports[p].shape for p in ("weight", "bias") if p in node.ports]
    fixed = [s for s in sizes if all(isinstance(d, int) for d in s)]
    return float(sum(math.prod(d for d in s if isinstance(d, int)) for s in fixed))


def _bits(port: str) -> Callable[[Node], float]:
    def bits(node: Node) -> float:
        if chosen := node.precision.get(port):
            return float(chosen.format.bits)
        meta = node.ports.get(port)
        return float(BITS.get(meta.dtype, 0)) if meta else math.nan

    return bits


def _last(port: str) -> Callable[[Node], float]:
    def size(node: Node) -> float:
        meta = node.ports.get(port)
        last = meta.shape[-1] if meta and meta.shape else None
        return float(last) if isinstance(last, int) else math.nan

    return size


FACTS: Mapping[str, tuple[Callable[[Node], Value], str]] = {
    "name": (lambda n: n.id, "the node's id"),
    "path": (lambda n: n.target if n.call == "call_module" else n.module_path, "module path"),
    "op": (lambda n: n.op, "operation, such as linear"),
    "type": (lambda n: str(n.attrs.get("class", "")), "class of the module, such as Linear"),
    "category": (category, "linear, matmul, activation, norm, embedding, add, shape, io or other"),
    "kind": (kind, "module_related_func, builtin_func, …"),
    "params": (_elements, "elements of weight and bias"),
    "bits": (_bits("weight"), "bits of an element of the weight, in its format or as stored"),
    "in_bits": (_bits("data_in"), "bits of an element of the first input"),
    "out_bits": (_bits("data_out"), "bits of an element of the result"),
    "sparsity": (lambda n: float(n.sparsity["weight"].ratio) if "weight" in n.sparsity else 0.0,
                 "share of the weight that is pruned, 0 to 1"),
    "features_in": (_last("data_in"), "last size of the first input"),
    "features_out": (_last("data_out"), "last size of the result"),
    "inputs": (lambda n: float(len(set(n.inputs))), "number of input tensors"),
    "adapters": (lambda n: float(len(n.adapters)), "number of LoRA adapters"),
    "title": (lambda n: n.annotation.title, "title set by the user"),
    "note": (lambda n: n.annotation.note, "note written by the user"),
    "tag": (lambda n: n.annotation.colour, "colour tag: red, orange, …"),
    "muted": (lambda n: n.annotation.muted, "whether it is muted"),
}  # fmt: skip
_ALLOWED = (ast.Name, ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Load, ast.And, ast.Or,
            ast.Not, ast.USub, ast.cmpop, ast.operator)  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}  # fmt: skip


@lru_cache(maxsize=256)
def parse(expression: str) -> ast.expr:
    """The syntax tree of an expression; raises OptionsError for other syntax and unknown names."""
    if len(expression) > MAX_CHARACTERS:
        raise OptionsError(
            f"The expression has {len(expression)} characters.", f"Shorten it to at most {MAX_CHARACTERS}."
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        hint = 'Write it like: op == "linear" and params > 1e4.'
        raise OptionsError(f"{expression!r} is not a valid expression.", hint) from error
    _check(tree, expression)
    return tree


def _check(tree: ast.expr, expression: str) -> None:
    for part in ast.walk(tree):
        match part:
            case ast.Name(id=name) if name not in FACTS:
                raise OptionsError(f"There is no fact {name!r}.", nearest(name, FACTS))
            case ast.Constant(value=value) if isinstance(value, bool | int | float | str):
                pass
            case ast.BinOp(op=op) if type(op) not in _ARITHMETIC:
                raise _unsupported(part, expression)
            case ast.Compare(ops=ops) if not all(type(o) in _COMPARED for o in ops):
                raise _unsupported(part, expression)
            case _ if isinstance(part, _ALLOWED):
                pass
            case _:
                raise _unsupported(part, expression)


def _unsupported(part: ast.AST, expression: str) -> OptionsError:
    try:
        text = ast.unparse(part) if isinstance(part, ast.expr) else type(part).__name__
    except RecursionError:
        text = type(part).__name__
    return OptionsError(
        f"{text!r} is not supported in {expression!r}.", "Use facts, numbers, texts, comparisons, and, or, not."
    )


def holds(expression: str, node: Node) -> bool:
    """Whether an expression is true for a node; comparisons of missing facts are false.

    Raises OptionsError for syntax, unknown names, and comparisons of a number with a text.
    """
    try:
        return bool(_value(parse(expression), node))
    except TypeError as error:
        raise OptionsError(
            f"{expression!r} compares a number with a text.", 'Write texts in quotes: op == "linear".'
        ) from error
    except (ArithmeticError, RecursionError):
        return False


def _value(tree: ast.expr, node: Node) -> Any:
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return FACTS[name][0](node)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(_value(p, node) for p in parts)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(p, node) for p in parts)
        case ast.BoolOp(values=parts):
            return any(_value(p, node) for p in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _value(part, node)
        case ast.UnaryOp(operand=part):
            return -_number(_value(part, node))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_value(left, node)), _number(_value(right, node)))
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(p, node) for p in (left, *others)]
            return all(_COMPARED[type(o)](a, b) for o, a, b in zip(ops, values, values[1:], strict=False))
        case _:
            raise TypeError(type(tree).__name__)


def _number(value: Any) -> float:
    """A number as a float; integers of unlimited size would allow expressions that never finish."""
    if not isinstance(value, int | float):
        raise TypeError("expected a number, not a text")
    return float(value)
