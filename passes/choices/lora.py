"""Options of LoRA adapters (Hu et al. 2021, https://arxiv.org/abs/2106.09685)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from espalier.model.errors import OptionsError
from espalier.passes.select import Select


@dataclass(frozen=True, slots=True)
class Rank:
    """Another rank of the selected layers; 0 = no adapter."""

    select: Select
    rank: int = field(default=8, metadata={"min": 0, "max": 4096, "help": "rank of the correction; 0 = no adapter"})

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise OptionsError(f"rank is {self.rank}.", "It must be a whole number from 0.")


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """Which layers get adapters of which rank, how much these count, and what else trains."""

    rank: int = field(default=8, metadata={"min": 0, "max": 4096, "help": "rank of the correction; 0 removes adapters"})
    alpha: float = field(default=16.0, metadata={"min": 0.0, "help": "the correction is scaled by alpha / rank"})
    dropout: float = field(
        default=0.0, metadata={"min": 0.0, "max": 0.99, "help": "dropout of the adapter's input in training"}
    )
    rooted: bool = field(default=False, metadata={"help": "the correction is scaled by alpha / √rank (rsLoRA)"})
    select: Select = field(default=Select("type", ("linear",)), metadata={"help": "which layers"})
    ranks: tuple[Rank, ...] = field(
        default=(), metadata={"help": "other ranks for some layers; the last match applies"}
    )
    train_head: bool = field(
        default=False, metadata={"help": "train the last layer whole, without adapter, for new classes"}
    )
    freeze: bool = field(default=True, metadata={"help": "freeze all except adapters and the head"})

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise OptionsError(f"rank is {self.rank}.", "It must be a whole number from 0.")
        if not (math.isfinite(self.alpha) and self.alpha >= 0):
            raise OptionsError(f"alpha is {self.alpha}.", "It must be a number from 0.")
        if not 0 <= self.dropout < 1:
            raise OptionsError(f"dropout is {self.dropout}.", "It must be at least 0 and below 1.")
