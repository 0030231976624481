"""Which data an analysis or a calibration looks at: as for an evaluation, but less of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from espalier.passes.running.splits import EvaluateOptions


@dataclass(frozen=True, slots=True)
class ObserveOptions(EvaluateOptions):
    """Data that may be left out: then weights alone are looked at."""

    AGAINST_BASE: ClassVar[bool] = True  # where steps changed weights, the model without formats is not the one opened

    data: str = field(
        default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder; empty: weights alone", "edit": "data"}
    )
    limit: int = field(default=256, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})
