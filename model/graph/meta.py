"""What is known of a tensor (facts) and what is chosen for a port (choices).

Facts come from the trace and never change by hand; choices are set by the user or a pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from espalier.model.formats.base import Format
from espalier.model.symbols import evaluate

Dim = int | str
TensorKey = str
FLOWING = ("top_k", "threshold")  # patterns of a Sparsity of activations

BITS: dict[str, int] = {
    "float64": 64, "int64": 64, "complex64": 64, "complex128": 128, "float32": 32, "int32": 32, "uint32": 32,
    "float16": 16, "bfloat16": 16, "int16": 16, "uint16": 16, "uint64": 64,
    "int8": 8, "uint8": 8, "bool": 8, "float8_e4m3fn": 8, "float8_e5m2": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Shape and dtype of one tensor; a shape entry is an int or an expression over symbols ("batch*seq")."""

    shape: tuple[Dim, ...]
    dtype: str

    def sizes(self, symbols: dict[str, int]) -> tuple[int, ...]:
        """The shape as integers, symbols replaced by their values."""
        return tuple(d if isinstance(d, int) else evaluate(d, symbols) for d in self.shape)

    def elements(self, symbols: dict[str, int]) -> int:
        """Number of elements under `symbols`."""
        return math.prod(self.sizes(symbols))


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter, buffer or constant of the model by name; `key` is the content hash of its values.

    Two nodes that share a weight name the same `Weight`, so ties survive training.
    `key` is None for a model that was captured without weights (meta device).
    `rests`: it does not train as long as the graph has adapters; when the last is gone, it trains again.
    """

    key: TensorKey | None
    shape: tuple[int, ...]
    dtype: str
    role: Literal["parameter", "buffer", "constant"] = "parameter"
    trainable: bool = True
    rests: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def float_bits(self) -> int:
        """Bits of one element as stored in the source."""
        return BITS[self.dtype]


@dataclass(frozen=True, slots=True)
class Precision:
    """The format chosen for a port.

    `scale` names the weight of the graph that holds a scale given from outside (calibrated or learned), for formats
    that take one. `gradient`: straight-through inside the format's range only, or everywhere.
    """

    format: Format
    scale: str | None = None
    gradient: Literal["range", "identity"] = "range"

    @property
    def label(self) -> str:
        """Short text for badges."""
        return self.format.label


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The pruning chosen for a port: how, how much, and the mask that came of it.

    `mask` is the key of a uint8 tensor that holds one bit an element (numpy.packbits order), 1 = kept.
    `zeros` is the exact number of elements that the mask removes. `pattern`: "element", "n:m" or "block", of `size`
    (n, m) or (rows, columns). Activations have no mask but a rule for each tensor that comes, the patterns "top_k"
    (the share of each sample) and "threshold" (all magnitudes up to `threshold`); `seed`: of random places.
    """

    method: str
    ratio: float
    scope: str
    mask: TensorKey | None
    zeros: int
    pattern: str = "element"
    size: tuple[int, int] = (1, 1)
    threshold: float | None = None
    seed: int = 0

    @property
    def flows(self) -> bool:
        """Whether it prunes what flows, by a rule, and not a stored tensor, by a mask."""
        return self.pattern in FLOWING

    @property
    def label(self) -> str:
        """The pattern in words: "2:4", "4×4 blocks"."""
        first, second = self.size
        return {"n:m": f"{first}:{second}", "block": f"{first}×{second} blocks"}.get(self.pattern, self.pattern)


@dataclass(frozen=True, slots=True)
class Parallel:
    """What hardware computes of a node in one cycle: so many inputs of so many outputs, of so many rows (tokens)."""

    inputs: int = 1
    outputs: int = 1
    tokens: int = 1

    @property
    def label(self) -> str:
        """Short text for badges: `4×8`, with several tokens `4×8×2`."""
        return f"{self.inputs}×{self.outputs}" + (f"×{self.tokens}" if self.tokens > 1 else "")


@dataclass(frozen=True, slots=True)
class Adapter:
    """A low-rank correction beside a weight (LoRA): the layer gives W·x + s·B·A·dropout(x).

    `a` [rank, inputs] and `b` [outputs, rank] name weights of the graph (of other layers: model/graph/adapters.py). s
    is alpha/rank or, `rooted`, alpha/√rank; `dropout` acts in training.
    """

    rank: int
    alpha: float
    dropout: float
    a: str
    b: str
    rooted: bool = False

    @property
    def scaling(self) -> float:
        """s."""
        return self.alpha / (math.sqrt(self.rank) if self.rooted else self.rank)

    @property
    def label(self) -> str:
        """Short text for badges."""
        return f"LoRA r{self.rank}"
