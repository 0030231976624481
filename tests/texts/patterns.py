"""What an expression of the source may be as a text."""

from __future__ import annotations

import ast


def patterns(node: ast.AST) -> list[str]:
    """What an expression may be: a text, an f-string with `{}` in the place of each value, either of two, a sum."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)]
        case ast.IfExp(body=body, orelse=other):
            return [*patterns(body), *patterns(other)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [first + second for first in patterns(left) for second in patterns(right)]
        case _:
            return []
