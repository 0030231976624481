"""compressed-tensors' QuantizationArgs (0.20): how a tensor is rounded.

Schema: compressed_tensors.quantization.QuantizationArgs, https://github.com/vllm-project/compressed-tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Args:
    """QuantizationArgs of a tensor."""

    num_bits: int
    strategy: str
    type: str = "int"
    symmetric: bool = True
    group_size: int | None = None
    dynamic: bool = False
    scale_dtype: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `config.json`."""
        scale = {"scale_dtype": f"torch.{self.scale_dtype}"} if self.scale_dtype else {}
        return {"num_bits": self.num_bits, "type": self.type, "symmetric": self.symmetric, "strategy": self.strategy,
                "group_size": self.group_size, "dynamic": self.dynamic, **scale}  # fmt: skip
