"""The largest magnitudes of sixteen blocks at a time, found side by side.

One vector's maximum takes four rounds of moving lanes, mostly for nothing: here sixteen vectors share theirs. Words of
16 bits lie two in a lane, and part last.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

SIDE = 16  # blocks
_LANE, _LANES = ir.IntType(32), 16
_VECTOR, _WORDS = ir.VectorType(_LANE, _LANES), ir.VectorType(ir.IntType(16), 2 * _LANES)
_HALF, _FLOAT = ir.VectorType(ir.HalfType(), _LANES), ir.VectorType(ir.FloatType(), _LANES)
_BYTES = 64


def splat(value: int) -> Any:
    """A number in every lane."""
    return ir.Constant(_VECTOR, [ir.Constant(_LANE, value)] * _LANES)


@intrinsic
def tops(typing: Any, x: Any, start: Any, into: Any, block: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Into `into`: float32 patterns of the largest magnitudes of `SIDE` blocks of `block` elements (a constant) from
    `start` on, NaN above all. Blocks fill whole vectors, or one by twos."""
    if not isinstance(block, types.IntegerLiteral):
        return None
    size = block.literal_value * (4 if x.dtype == types.float32 else 2)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, found = (context.make_array(kind)(context, builder, args[i]) for i, kind in ((0, x), (2, into)))
        begin = builder.bitcast(cgutils.gep(builder, source.data, args[1]), _VECTOR.as_pointer())
        top = _Lanes(builder, begin, x.dtype).patterns(size)
        builder.store(top, builder.bitcast(found.data, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(x, types.intp, into, block), generate


class _Lanes:
    """Instructions on vectors of an array's words."""

    def __init__(self, builder: Any, begin: Any, kind: Any) -> None:
        self.builder, self.begin, self.kind = builder, begin, kind
        self.wide = kind == types.float32

    def patterns(self, size: int) -> Any:
        """The patterns of blocks of `size` bytes."""
        if size >= _BYTES:
            return self.parted(self.tree(0, SIDE, size // _BYTES))
        paired = self.tree(0, SIDE // 2, 1)  # two blocks a vector: the lower eight lanes are those of even ones
        order = [lane // 2 + lane % 2 * 8 for lane in range(_LANES)]
        return self.parted(self.moved(paired, paired, order))

    def parted(self, v: Any) -> Any:
        """The larger word of each lane, as float32."""
        b = self.builder
        if self.wide:
            return v
        high, low = b.and_(v, splat(0xFFFF0000)), b.shl(v, splat(16))
        top = b.select(b.icmp_unsigned(">", high, low), high, low)
        if self.kind == types.uint16:
            return top
        words = b.trunc(b.lshr(top, splat(16)), ir.VectorType(ir.IntType(16), _LANES))
        return b.bitcast(b.fpext(b.bitcast(words, _HALF), _FLOAT), _VECTOR)

    def tree(self, first: int, count: int, pieces: int) -> Any:
        """Maxima of `count` blocks from `first` on: block j's in the lanes whose low bits are j."""
        if count > 1:
            left, right = (self.tree(f, count // 2, pieces) for f in (first, first + count // 2))
            return self.met(left, right, count // 2)
        found = self.piece(first * pieces)
        for i in range(1, pieces):
            found = self.larger(found, self.piece(first * pieces + i))
        return found

    def met(self, a: Any, b: Any, distance: int) -> Any:
        """Of a where a lane has no bit `distance`, of b where it has: the larger of it and what lies so far from it."""
        here = [lane + _LANES * bool(lane & distance) for lane in range(_LANES)]
        return self.larger(self.moved(a, b, here), self.moved(a, b, [lane ^ distance for lane in here]))

    def moved(self, a: Any, b: Any, order: list[int]) -> Any:
        """Lanes of two vectors."""
        return self.builder.shuffle_vector(a, b, ir.Constant(_VECTOR, [ir.Constant(_LANE, i) for i in order]))

    def piece(self, number: int) -> Any:
        """The magnitudes in the vector of this number."""
        place = self.builder.gep(self.begin, [ir.Constant(ir.IntType(64), number)])
        return self.builder.and_(self.builder.load(place, align=2), splat(0x7FFFFFFF if self.wide else 0x7FFF7FFF))

    def larger(self, a: Any, b: Any) -> Any:
        """The larger words."""
        if not self.wide:
            a, b = (self.builder.bitcast(v, _WORDS) for v in (a, b))
        found = self.builder.select(self.builder.icmp_signed(">", a, b), a, b)
        return found if self.wide else self.builder.bitcast(found, _VECTOR)
