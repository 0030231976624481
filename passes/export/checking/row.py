"""What a check says of one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

OWN, MODEL = "this file", "Espalier"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A file in its runtime. `accuracy` with its 95 % interval, n = samples; `difference`: largest, from the model's
    results; `milliseconds`: median of a batch; `ratio`: to the float file; `peak_bytes`: of a process that runs it.

    `change`: of the main metric from Espalier's own, with a paired test. `reason`: why there is no such file. `metric`,
    `value`: the main metric of a task without accuracy.
    """

    name: str
    bytes: int | None = None
    accuracy: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    change: dict[str, Any] | None = None
    difference: float | None = None
    milliseconds: float | None = None
    ratio: float | None = None
    peak_bytes: int | None = None
    reason: str = ""
    metric: str = "accuracy"
    value: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)
