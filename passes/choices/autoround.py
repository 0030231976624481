"""Options of AutoRound (Cheng et al. 2023, https://arxiv.org/abs/2309.05516)."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.errors import OptionsError
from espalier.passes.choices.recovery import RecoveryOptions

_LOW_BITS, _MANY = 3, 1000  # where the authors' code doubles the step size


@dataclass(frozen=True, slots=True)
class AutoroundOptions(RecoveryOptions):
    """On which data, and how rounding is learned; defaults are those of the authors' code."""

    batch_size: int = field(default=8, metadata={"min": 1, "max": 4096, "help": "samples of a step"})
    steps: int = field(default=200, metadata={"min": 1, "max": 100_000, "help": "steps for each block"})
    lr: float = field(default=0.0, metadata={
        "min": 0.0, "max": 1.0, "help": "step size of rounding offsets, falling to 0; 0: 1/steps"})  # fmt: skip
    minmax_lr: float = field(default=0.0, metadata={
        "min": 0.0, "max": 1.0, "help": "step size of range factors; 0: as lr", "when": ("minmax", True)})  # fmt: skip
    minmax: bool = field(
        default=True, metadata={"help": "also learn factors of each scale's smallest and largest value"}
    )
    quantised_inputs: bool = field(
        default=True, metadata={"help": "inputs of a block from quantised blocks before it; no: from the float model"}
    )

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionsError(f"steps is {self.steps}.", "It must be at least 1, such as 200.")
        for name in ("lr", "minmax_lr"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionsError(f"{name} is {getattr(self, name):g}.", "It must be from 0 to 1, such as 0.005.")

    def rates(self, bits: int) -> tuple[float, float]:
        """First step sizes of rounding offsets and of range factors, for weights of `bits` bits."""
        lr = self.lr or (2.0 if self.steps >= _MANY and bits <= _LOW_BITS else 1.0) / self.steps
        return lr, self.minmax_lr or lr
