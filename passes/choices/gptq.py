"""Options of GPTQ (Frantar et al. 2022, https://arxiv.org/abs/2210.17323)."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import OptionsError
from espalier.passes.choices.recovery import RecoveryOptions


@dataclass(frozen=True, slots=True)
class GptqOptions(RecoveryOptions):
    """On which data, and how the solver goes."""

    damping: float = field(
        default=0.01, metadata={"min": 0.0, "max": 1.0, "help": "share of the Hessian's mean diagonal added to it"}
    )
    act_order: bool = field(
        default=True, metadata={"help": "quantise inputs with the most energy first, under fixed scales"}
    )
    clip: bool = field(default=True, metadata={"help": "scales with the least squared error instead of the maximum"})

    def __post_init__(self) -> None:
        if not 0 < self.damping <= 1:
            raise OptionsError(f"damping is {self.damping:g}.", "It must be above 0 and at most 1, such as 0.01.")
