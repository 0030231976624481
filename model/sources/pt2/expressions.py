"""Checks shape expressions of torch.export files by a grammar, since torch passes them to sympify, which evaluates
Python.

They are written by sympy.srepr: `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`.
"""

from __future__ import annotations

import ast
import re

LONGEST = 4000  # characters; expressions of real models have a few hundred
DEEPEST = 60
DIGITS = 20  # digits of a number; no size has more
HIGHEST_POWER = 16

SYMBOL = re.compile(r"[A-Za-z_]{1,12}\d{1,5}")  # largest exponent; torch expands some powers
# sympy's classes in sizes and conditions, and those of torch.utils._sympy.functions that torch's own reader knows.
FUNCTIONS = frozenset(
    ("Add", "Mul", "Pow", "Max", "Min", "Mod", "Rational", "Equality", "Unequality", "LessThan", "GreaterThan",
     "StrictLessThan", "StrictGreaterThan", "And", "Or", "Not", "FloorDiv", "ModularIndexing", "Where", "PythonMod",
     "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv",
     "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal",
     "ToFloat", "Identity")
)  # fmt: skip
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift", "RShift")
_NAMES = ("true", "false", "oo")
_ASSUMPTIONS = ("positive", "integer", "nonnegative", "real", "finite", "negative", "zero", "nonzero")


def check_expression(text: str) -> None:
    """Raise ValueError unless `text` is an expression of sizes."""
    if len(text) > LONGEST:
        raise ValueError("a shape expression is too long")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError("a shape expression is none") from error
    _check(tree, DEEPEST)


def _check(node: ast.expr, deep: int) -> None:
    if deep == 0:
        raise ValueError("a shape expression is too deep")
    match node:
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int(n)) if abs(n) < 10**DIGITS:
            return
        case ast.Constant(value=float(x)) if abs(x) < 1e30:
            return
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check(inner, deep - 1)
        case ast.Name(id=name) if name in _NAMES:
            return
        case ast.Call(func=ast.Name(id=name)):
            _check_call(name, node, deep - 1)
        case _:
            raise ValueError("a shape expression holds more than sizes")


def _check_call(name: str, node: ast.Call, deep: int) -> None:
    if name == "Symbol":
        return _check_symbol(node)
    if name in ("Integer", "Float"):
        return _check_number(name, node)
    if name not in FUNCTIONS or node.keywords:
        raise ValueError("a shape expression calls an unknown function")
    for arg in node.args:
        _check(arg, deep)
    if name in _POWERS and not (len(node.args) == 2 and _small(node.args[1]) and not _has_power(node.args[0])):
        raise ValueError("a shape expression raises to too high a power")
    return None


def _check_symbol(node: ast.Call) -> None:
    names = [a.value for a in node.args if isinstance(a, ast.Constant)]
    assumed = all(k.arg in _ASSUMPTIONS and isinstance(k.value, ast.Constant) for k in node.keywords)
    is_plain = len(names) == len(node.args) == 1 and isinstance(names[0], str) and SYMBOL.fullmatch(names[0])
    if not is_plain or not assumed or not all(isinstance(_value(k), bool) for k in node.keywords):
        raise ValueError("a shape expression has a symbol of no shape's name")


def _check_number(name: str, node: ast.Call) -> None:
    """Integer(3); Float('0.5', precision=53), with a number as text."""
    precise = name == "Float" and [k.arg for k in node.keywords] == ["precision"]
    if len(node.args) != 1 or (node.keywords and not precise):
        raise ValueError("a shape expression has a number of another form")
    value = node.args[0]
    if name == "Float" and isinstance(value, ast.Constant) and isinstance(value.value, str):
        if not re.fullmatch(r"-?\d{1,30}(\.\d{0,30})?(e[+-]?\d{1,2})?", value.value):
            raise ValueError("a shape expression has a number of another form")
        return
    _check(value, 2)


def _has_power(node: ast.expr) -> bool:
    """Whether it contains a power: nested powers may be too large to compute."""
    return any(isinstance(n, ast.Name) and n.id in _POWERS for n in ast.walk(node))


def _value(keyword: ast.keyword) -> object:
    return keyword.value.value if isinstance(keyword.value, ast.Constant) else None


def _small(node: ast.expr) -> bool:
    """Whether an exponent is a small number: nested powers may be too large to compute."""
    match node:
        case ast.Call(func=ast.Name(id="Integer" | "Float" | "Rational"), args=args):
            return all(_small(a) for a in args)
        case ast.UnaryOp(operand=inner):
            return _small(inner)
        case ast.Constant(value=int() | float() as n):
            return abs(n) <= HIGHEST_POWER
        case ast.Constant(value=str(text)):
            return bool(re.fullmatch(r"-?\d{1,2}(\.\d{0,30})?", text)) and abs(float(text)) <= HIGHEST_POWER
        case _:
            return False
