"""Options of AWQ (Lin et al. 2024, https://arxiv.org/abs/2306.00978)."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.passes.choices.recovery import RecoveryOptions


@dataclass(frozen=True, slots=True)
class AwqOptions(RecoveryOptions):
    """On which data, how many scales are tried, and whether weights are clipped."""

    grid: int = field(default=20, metadata={"min": 2, "max": 200, "help": "number of exponents tried, from 0 on"})
    clip: bool = field(default=True, metadata={"help": "then clip weights for the least error of each group's output"})
    insert: bool = field(default=False, metadata={"help": "insert a division where no previous layer can absorb it"})
