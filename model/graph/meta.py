"""Facts of tensors (shape, dtype) and choices for ports (format, pruning).

Facts come from the trace; choices are set by the user or a pass.
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
    """A parameter, buffer or constant of the model; `key`: content hash of its values, None for a model without weights
    (meta device). Nodes that share a weight refer to the same one, so it stays tied in training.

    `rests`: it is frozen while the graph has adapters.
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

    `scale`: name of the graph's weight with a calibrated or learned scale, for formats that have one. `gradient`:
    straight-through only inside the format's range, or everywhere.
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
    """The pruning of a port: method, ratio and mask.

    `mask`: key of a uint8 tensor with one bit per element (numpy.packbits order), 1 = kept. `zeros`: number of masked
    elements. `pattern`: "element", "n:m" or "block", of `size` (n, m) or (rows, columns). Activations have no stored
    mask but a rule: "top_k" (a share of each sample) or "threshold" (all magnitudes up to `threshold`); `seed`: of the
    random method.
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
        """Whether it prunes activations by a rule instead of a stored tensor by a mask."""
        return self.pattern in FLOWING

    @property
    def label(self) -> str:
        """The pattern in words: "2:4", "4×4 blocks"."""
        first, second = self.size
        return {"n:m": f"{first}:{second}", "block": f"{first}×{second} blocks"}.get(self.pattern, self.pattern)


@dataclass(frozen=True, slots=True)
class Parallel:
    """The parallelism of a node in hardware: numbers of inputs, outputs and rows (tokens) per cycle."""

    inputs: int = 1
    outputs: int = 1
    tokens: int = 1

    @property
    def label(self) -> str:
        """Short text for badges: `4×8`, with several tokens `4×8×2`."""
        return f"{self.inputs}×{self.outputs}" + (f"×{self.tokens}" if self.tokens > 1 else "")


@dataclass(frozen=True, slots=True)
class Sharding:
    """How the tensors of a node are distributed over a mesh of devices of this shape.

    `ports`: of each port (data_in, weight, bias, data_out, …) a placement per axis of the mesh, in DTensor's terms: "R"
    (replicated), "S0", "S1", … (split along that dimension of the tensor) or "P" (a partial sum).
    """

    mesh: tuple[int, ...]
    ports: dict[str, tuple[str, ...]]

    @property
    def label(self) -> str:
        """Short text for badges: the placements of the result, `S0 R`."""
        return " ".join(self.ports.get("data_out", ()))


@dataclass(frozen=True, slots=True)
class Adapter:
    """A low-rank adapter of a weight (LoRA): the layer computes W·x + s·B·A·dropout(x).

    `a` [rank, inputs] and `b` [outputs, rank] are names of weights (shapes of other layers: model/graph/adapters.py).
    s = alpha/rank or, if `rooted`, alpha/√rank; `dropout`: probability in training.
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
