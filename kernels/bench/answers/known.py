"""Measured data: rows of the bench, the machine's ceilings, single metrics; the latest last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Row


@dataclass(frozen=True, slots=True)
class Fact:
    """A measured figure that is no time of a kernel: `value` of `name`, at a size where there are several."""

    name: str
    value: float
    unit: str
    at: int = 0
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Known:
    """What has been measured on one device."""

    device: str = "cpu"
    rows: tuple[Row, ...] = ()
    facts: tuple[Fact, ...] = ()
    ceilings: Ceilings | None = None
    project: tuple[Mapping[str, object], ...] = ()  # lines of the memory ledger of a model
    project_name: str = ""

    def row(self, kernel: str, version: str, shape: Mapping[str, int] | None = None) -> Row | None:
        """The latest timed row of a version; `shape`: of just this size."""
        return next((r for r in reversed(self.timed(kernel, version)) if shape is None or r.shape == shape), None)

    def timed(self, kernel: str, version: str) -> list[Row]:
        """Rows of a version that have a time."""
        return [r for r in self.rows if (r.kernel, r.version) == (kernel, version) and r.seconds is not None]

    def problem(self, kernel: str, version: str) -> str:
        """Why there is no time of a version, where that was said."""
        return next((r.problem for r in reversed(self.rows) if (r.kernel, r.version) == (kernel, version)), "")

    def largest(self, kernel: str) -> Mapping[str, int] | None:
        """The size at which most versions were timed, of those the one that moves most; None: none was."""
        found: dict[tuple[tuple[str, int], ...], set[str]] = {}
        weight: dict[tuple[tuple[str, int], ...], int] = {}
        for row in self.rows:
            if row.kernel == kernel and row.seconds is not None:
                key = tuple(row.shape.items())
                found.setdefault(key, set()).add(row.version)
                weight[key] = row.bytes_least
        best = max(found, key=lambda k: (len(found[k]), weight[k]), default=None)
        return None if best is None else dict(best)

    def fact(self, name: str, at: int = 0) -> Fact | None:
        """A figure."""
        return next((f for f in reversed(self.facts) if (f.name, f.at) == (name, at)), None)

    def several(self, name: str) -> dict[int, float]:
        """Size → value of a figure, in order of size."""
        return dict(sorted((f.at, f.value) for f in self.facts if f.name == name))


def gathered(device: str, parts: Iterable[object], before: Known | None = None) -> Known:
    """What runs found, as a whole; what is of another device is left out, what is measured anew replaces the old."""
    rows = {r.key: r for r in (before.rows if before else ())}
    facts = {(f.name, f.at): f for f in (before.facts if before else ())}
    ceilings = before.ceilings if before else None
    for part in parts:
        match part:
            case Row() if part.device == device:
                rows.pop(part.key, None)
                rows[part.key] = part
            case Fact() if part.device == device:
                facts[part.name, part.at] = part
            case Ceilings() if part.device == device:
                ceilings = part
            case _:
                pass
    held = before or Known(device)
    return Known(device, tuple(rows.values()), tuple(facts.values()), _both(ceilings, held.ceilings), held.project,
                 held.project_name)  # fmt: skip


def _both(new: Ceilings | None, old: Ceilings | None) -> Ceilings | None:
    """The newer ceilings, with rates of dtypes that only the older ones have."""
    if new is None or old is None:
        return new or old
    return Ceilings(new.device, new.copy_gb_s, {**old.matmul_tflop_s, **new.matmul_tflop_s})
