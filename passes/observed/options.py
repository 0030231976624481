"""Data options of analyses and calibrations: as for an evaluation, with fewer samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from espalier.passes.running.splits import EvaluateOptions


@dataclass(frozen=True, slots=True)
class ObserveOptions(EvaluateOptions):
    """Optional data; without them only weights are analysed."""

    AGAINST_BASE: ClassVar[bool] = True  # if steps changed weights, the model without formats is not the one opened

    data: str = field(
        default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder; empty: weights alone", "edit": "data"}
    )
    limit: int = field(default=256, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})
