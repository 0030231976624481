"""The largest magnitudes of sixteen blocks at a time.

The maximum of one vector takes four shuffles that use few lanes; here sixteen vectors share them. 16-bit
words are processed two per lane and separated last.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

BATCH = 16  # blocks at a time
_LANE, _LANES = ir.IntType(32), 16
_VECTOR, _WORDS = ir.VectorType(_LANE, _LANES), ir.VectorType(ir.IntType(16), 2 * _LANES)
_HALF, _FLOAT = ir.VectorType(ir.HalfType(), _LANES), ir.VectorType(ir.FloatType(), _LANES)
_BYTES = 64


def splat(value: int) -> Any:
    """A vector with a number in every lane."""
    return ir.Constant(_VECTOR, [ir.Constant(_LANE, value)] * _LANES)


@intrinsic
def block_maxima(typing: Any, x: Any, start: Any, into: Any, block: Any) -> Any:  # pyright: ignore[reportUnusedParameter]
    """Write into `into` the float32 patterns of the largest magnitudes of BATCH blocks of `block` elements (a
    constant) from
    `start` on; NaN exceeds all. A block fills whole vectors, or two blocks fill one."""
    if not isinstance(block, types.IntegerLiteral):
        return None
    size = block.literal_value * (4 if x.dtype == types.float32 else 2)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, output = (context.make_array(kind)(context, builder, args[i]) for i, kind in ((0, x), (2, into)))
        address = builder.bitcast(cgutils.gep(builder, source.data, args[1]), _VECTOR.as_pointer())
        top = _Lanes(builder, address, x.dtype).patterns(size)
        builder.store(top, builder.bitcast(output.data, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(x, types.intp, into, block), generate


class _Lanes:
    """Generates instructions on vectors of an array's words."""

    def __init__(self, builder: Any, address: Any, kind: Any) -> None:
        self.builder, self.begin, self.kind = builder, address, kind
        self.wide = kind == types.float32

    def patterns(self, size: int) -> Any:
        """The patterns of blocks of `size` bytes."""
        if size >= _BYTES:
            return self.parted(self.tree(0, BATCH, size // _BYTES))
        paired = self.tree(0, BATCH // 2, 1)  # two blocks per vector, the even one in the lower eight lanes
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
        """Maxima of `count` blocks from `first` on: that of block j in the lanes whose low bits are j."""
        if count > 1:
            lower, upper = (self.tree(f, count // 2, pieces) for f in (first, first + count // 2))
            return self.met(lower, upper, count // 2)
        maxima = self.piece(first * pieces)
        for i in range(1, pieces):
            maxima = self.larger(maxima, self.piece(first * pieces + i))
        return maxima

    def met(self, a: Any, b: Any, distance: int) -> Any:
        """By lane, of a (lane bit `distance` clear) or b (set): the larger of the lane and the lane at that
        distance."""
        here = [lane + _LANES * bool(lane & distance) for lane in range(_LANES)]
        return self.larger(self.moved(a, b, here), self.moved(a, b, [lane ^ distance for lane in here]))

    def moved(self, a: Any, b: Any, order: list[int]) -> Any:
        """A shuffle of the lanes of two vectors."""
        return self.builder.shuffle_vector(a, b, ir.Constant(_VECTOR, [ir.Constant(_LANE, i) for i in order]))

    def piece(self, number: int) -> Any:
        """The magnitudes in a vector, by its number."""
        address = self.builder.gep(self.begin, [ir.Constant(ir.IntType(64), number)])
        return self.builder.and_(self.builder.load(address, align=2), splat(0x7FFFFFFF if self.wide else 0x7FFF7FFF))

    def larger(self, a: Any, b: Any) -> Any:
        """The larger words, lane by lane."""
        if not self.wide:
            a, b = (self.builder.bitcast(v, _WORDS) for v in (a, b))
        maximum = self.builder.select(self.builder.icmp_signed(">", a, b), a, b)
        return maximum if self.wide else self.builder.bitcast(maximum, _VECTOR)
