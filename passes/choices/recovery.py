"""Which data a recovery looks at, and which layers it works on."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.select import Select


@dataclass(frozen=True, slots=True)
class RecoveryOptions(EvaluateOptions):
    """Calibration data: as for an evaluation, but few samples, and of the training split."""

    split: str = field(default="train", metadata={"help": "must not be the split that is scored", "edit": "split"})
    limit: int = field(default=128, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})
    batch_size: int = field(default=32, metadata={"min": 1, "max": 4096, "help": "batch size"})
    select: Select = field(default=Select(), metadata={"help": "layers to work on"})
