"""Sizes as products: "2*batch*seq" is the number 2 times the dynamic sizes batch and seq."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from espalier.model.graph.meta import Dim
from espalier.model.symbols import MAX_CHARACTERS


@dataclass(frozen=True, slots=True)
class Size:
    """A number times sorted dynamic sizes; other expressions count as one dynamic size ("seq+1")."""

    count: int
    free: tuple[str, ...] = ()

    def times(self, other: Size) -> Size:
        """The product."""
        return Size(self.count * other.count, tuple(sorted((*self.free, *other.free))))

    def over(self, other: Size) -> Size | None:
        """The quotient, or None if it is not integral."""
        left = Counter(self.free)
        left.subtract(other.free)
        if not other.count or self.count % other.count or any(n < 0 for n in left.values()):
            return None
        return Size(self.count // other.count, tuple(sorted(left.elements())))

    @property
    def dim(self) -> Dim:
        """As a shape entry."""
        if not self.free:
            return self.count
        factors = [f if f.isidentifier() else f"({f})" for f in self.free]
        return "*".join(factors if self.count == 1 else [str(self.count), *factors])


ONE = Size(1)


@lru_cache(maxsize=4096)
def size_of(dim: Dim) -> Size:
    """The size of a shape entry."""
    if isinstance(dim, int):
        return Size(dim)
    try:
        return _product(ast.parse(dim, mode="eval").body) if len(dim) <= MAX_CHARACTERS else Size(1, (dim,))
    except (SyntaxError, RecursionError):
        return Size(1, (dim,))


def _product(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value=int(value)):
            return Size(value)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _product(left).times(_product(right))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 < power < 9:
            product = ONE
            for _ in range(power):
                product = product.times(_product(left))
            return product
        case _:
            return Size(1, (ast.unparse(node).replace(" ", ""),))
