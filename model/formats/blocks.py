"""Base classes of block formats: the division of tensors into blocks, and rounding with a shared power of two.

A block is `block` elements along the last axis, or a tile of `rows` such rows (along the last axis but one, within
each leading index). The last block of a row or column may be short.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from espalier.model.formats.base import Array, Encoded, Format, Shared, whole
from espalier.model.formats.small_float import (
    SmallFloat,
    exponent,
    exponents,
    finite,
    signed_code,
    signed_value,
    times_power,
    to_dtype,
    to_float32,
    work_tensor,
)

if TYPE_CHECKING:
    from torch import Tensor

MAX_SIZE = 65536
BLOCK = {"help": "elements that share a scale", "min": 1, "max": MAX_SIZE}
ROWS = {"help": "rows of a tile that shares a scale", "min": 1, "max": MAX_SIZE}


@dataclass(frozen=True, slots=True)
class Blocks:
    """The division of a tensor of any rank into blocks, for torch tensors and numpy arrays."""

    block: int
    rows: int = 1

    @property
    def elements(self) -> int:
        """Elements of a full block."""
        return self.block * self.rows

    @property
    def text(self) -> str:
        """`16`, for tiles `2×16`."""
        return str(self.block) if self.rows == 1 else f"{self.rows}×{self.block}"

    def counts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of an array with one element per block: leading axes, blocks down, blocks across."""
        *lead, down, across = _plane(shape)
        return (*lead, ceil_div(down, self.rows), ceil_div(across, self.block))

    def split(self, x: Any) -> Any:
        """Split `x` into (*counts, rows, block), padded with zeros."""
        *lead, down, across = _plane(tuple(x.shape))
        *_, n, m = self.counts(tuple(x.shape))
        flat = x.reshape(*lead, down, across)
        full = _pad_blocks(flat, n * self.rows - down, m * self.block - across)
        return full.reshape(*lead, n, self.rows, m, self.block).swapaxes(-3, -2)

    def merge(self, blocks: Any, shape: tuple[int, ...]) -> Any:
        """The inverse of `split` for a tensor of `shape`; contiguous."""
        *lead, down, across = _plane(shape)
        *_, n, m, rows, block = blocks.shape
        full = blocks.swapaxes(-3, -2).reshape(*lead, n * rows, m * block)
        merged = full[..., :down, :across].reshape(shape)
        return merged if isinstance(merged, np.ndarray) else merged.contiguous()


def ceil_div(size: int, per: int) -> int:
    """size/per, rounded up. Not −(−size // per): ONNX rounds the division of negative integers towards 0."""
    return (size + per - 1) // per


def _plane(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (2 - len(shape)) + shape


def _pad_blocks(x: Any, down: Any, across: Any) -> Any:
    # Symbolic sizes of an export are always padded: a comparison with 0 would specialise them.
    if isinstance(down, int) and isinstance(across, int) and not down and not across:
        return x
    if isinstance(x, np.ndarray):
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, down), (0, across)])
    from torch.nn.functional import pad

    return pad(x, (0, across, 0, down))


@dataclass(frozen=True, slots=True)
class BlockFormat(Format):
    """A format whose blocks share a field computed from the block's largest magnitude.

    NaN is ignored for it, ±inf counts as the largest number of its dtype. A block of zeros is zero.
    """

    rowwise: ClassVar[bool] = True

    @property
    @abstractmethod
    def blocks(self) -> Blocks:
        """How a tensor is divided into blocks."""

    @property
    @abstractmethod
    def wide(self) -> bool:
        """Whether some values exceed float32's precision, so that float64 is used."""

    @abstractmethod
    def in_blocks(self, x: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        """(values, bool mask of unclipped elements) of blocks `x` (*counts, rows, block) with largest magnitudes `top`
        (*counts, 1, 1)."""

    @classmethod
    def normalise(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Accept `block_size` for block and `[columns]` or `[rows, columns]` for a tile. Blocks never extend over
        leading axes, so the MASE labs' `skip_first_dim` is dropped."""
        parameters = {k: v for k, v in values.items() if k != "skip_first_dim" or not isinstance(v, bool)}
        if "block_size" in parameters and "block" not in parameters:
            parameters["block"] = parameters.pop("block_size")
        match parameters.get("block"):
            case [int() as columns]:
                parameters["block"] = columns
            case [int() as rows, int() as columns] if "rows" not in parameters:
                parameters |= {"block": columns, "rows": rows}
            case _:
                pass
        return parameters

    @property
    def element_bits(self) -> int:
        """Bits of one element's code, without the shared field even for blocks of one element."""
        return sum(f.bits for f in self.layout() if f.kind != "shared")

    def stored_bits(self, shape: tuple[int, ...]) -> int:
        """Bits of the elements, of the shared field of every block (short ones included) and of fields per tensor."""
        shared = [f for f in self.layout() if f.kind == "shared"]
        blocks = math.prod(self.blocks.counts(shape))
        return math.prod(shape) * self.element_bits + sum(f.bits * (blocks if f.per else 1) for f in shared)

    def define(self, x: Tensor) -> Tensor:
        """The value, block by block."""
        value, _ = self._split(x)
        return to_dtype(self.blocks.merge(value, tuple(x.shape)), x.dtype)

    def inside(self, x: Tensor) -> Tensor:
        """Where the value was not clipped: rounding can exceed the largest element of a block."""
        _, unclipped = self._split(x)
        return self.blocks.merge(unclipped, tuple(x.shape)) & x.isfinite()

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        blocks = self.blocks.split(work_tensor(x, self.wide))
        return self.in_blocks(blocks, blocks.abs().nan_to_num(nan=0.0).amax((-2, -1), keepdim=True))

    def check_blocks(self, name: str) -> None:
        """Raise FormatError unless block and rows are within 1 … 65536."""
        whole(name, "block", self.blocks.block, 1, MAX_SIZE)
        whole(name, "rows", self.blocks.rows, 1, MAX_SIZE)


@dataclass(frozen=True, slots=True)
class PowerBlocks(BlockFormat):
    """Blocks with a shared power of two: element(x·2^−e)·2^e, where e is stored as an unsigned field."""

    @property
    @abstractmethod
    def grid(self) -> SmallFloat:
        """The value set of an element for a scale of 1."""

    @abstractmethod
    def field_of(self, top: Any) -> Any:
        """The stored field of blocks whose largest magnitude has the exponent `top` (integers, torch or numpy)."""

    @abstractmethod
    def scale_exponent(self, stored: Any) -> Any:
        """e of a stored field."""

    @property
    def wide(self) -> bool:
        """Whether elements have more than 24 bits."""
        return self.grid.wide

    def in_blocks(self, x: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
        """Round with the block's scale, then clip."""
        e, largest = self.scale_exponent(self.field_of(exponent(top))), self.grid.largest
        rounded = self.grid.nearest(times_power(x, -e))
        return times_power(rounded.clamp(-largest, largest), e), rounded.abs() <= largest

    def encode(self, x: Array) -> Encoded:
        """Sign-magnitude codes and one shared field per block."""
        blocks = self.blocks.split(finite(x))
        stored = self.field_of(exponents(np.abs(blocks).max((-2, -1), initial=0.0)))
        magnitude = self.grid.magnitude(np.ldexp(blocks, -self.scale_exponent(stored)[..., None, None]))
        codes = self._code(np.signbit(np.asarray(x)), self.blocks.merge(magnitude, np.shape(x)))
        return Encoded(codes, (Shared("scale", stored, self._shared_bits),))

    def decode(self, encoded: Encoded) -> Array:
        """Element times the power of two of its block."""
        codes = self.blocks.split(np.asarray(encoded.codes))
        e = self.scale_exponent(encoded.shared[0].values)[..., None, None]
        return to_float32(self.blocks.merge(np.ldexp(self._value(codes), e), np.shape(encoded.codes)))

    def codes(self) -> Array:
        """All values of an element for a scale of 1."""
        whole(self.name, "width (to list its codes)", self.element_bits, 1, 16)
        return self.grid.values()

    @property
    def _shared_bits(self) -> int:
        return next(f.bits for f in self.layout() if f.kind == "shared")

    def _code(self, sign: Array, magnitude: Array) -> Array:
        return signed_code(sign, magnitude, self.element_bits)

    def _value(self, codes: Array) -> Array:
        bits = self.element_bits
        return signed_value(codes, self.grid.value(codes & (2 ** (bits - 1) - 1)), bits)
