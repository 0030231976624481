"""Measured data: rows of the bench, the machine's ceilings and single metrics, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Row


@dataclass(frozen=True, slots=True)
class Fact:
    """A measured metric other than a kernel's time: `value` of `name`, at size `at` if there are several."""

    name: str
    value: float
    unit: str
    at: int = 0
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class MeasuredData:
    """All measurements of one device."""

    device: str = "cpu"
    rows: tuple[Row, ...] = ()
    facts: tuple[Fact, ...] = ()
    ceilings: Ceilings | None = None
    project: tuple[Mapping[str, object], ...] = ()  # lines of the memory ledger of a model
    project_name: str = ""

    def row(self, kernel: str, version: str, shape: Mapping[str, int] | None = None) -> Row | None:
        """The latest timed row of a version; `shape`: of this shape only."""
        return next((r for r in reversed(self.timed(kernel, version)) if shape is None or r.shape == shape), None)

    def timed(self, kernel: str, version: str) -> list[Row]:
        """The rows of a version with a time."""
        return [r for r in self.rows if (r.kernel, r.version) == (kernel, version) and r.seconds is not None]

    def problem(self, kernel: str, version: str) -> str:
        """The reason why a version has no time; empty without one."""
        return next((r.problem for r in reversed(self.rows) if (r.kernel, r.version) == (kernel, version)), "")

    def largest(self, kernel: str) -> Mapping[str, int] | None:
        """The shape at which most versions were timed, ties broken by the bytes moved; None without a time."""
        versions: dict[tuple[tuple[str, int], ...], set[str]] = {}
        weight: dict[tuple[tuple[str, int], ...], int] = {}
        for row in self.rows:
            if row.kernel == kernel and row.seconds is not None:
                key = tuple(row.shape.items())
                versions.setdefault(key, set()).add(row.version)
                weight[key] = row.bytes_least
        best = max(versions, key=lambda k: (len(versions[k]), weight[k]), default=None)
        return None if best is None else dict(best)

    def fact(self, name: str, at: int = 0) -> Fact | None:
        """The latest metric of a name at a size."""
        return next((f for f in reversed(self.facts) if (f.name, f.at) == (name, at)), None)

    def by_size(self, name: str) -> dict[int, float]:
        """Size → value of a metric, sorted by size."""
        return dict(sorted((f.at, f.value) for f in self.facts if f.name == name))


def merge_measurements(device: str, parts: Iterable[object], previous: MeasuredData | None = None) -> MeasuredData:
    """Merge results of runs; those of other devices are dropped, and newer measurements replace older ones."""
    rows = {r.key: r for r in (previous.rows if previous else ())}
    facts = {(f.name, f.at): f for f in (previous.facts if previous else ())}
    ceilings = previous.ceilings if previous else None
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
    base = previous or MeasuredData(device)
    ceilings = _merge_ceilings(ceilings, base.ceilings)
    return MeasuredData(device, tuple(rows.values()), tuple(facts.values()), ceilings, base.project, base.project_name)


def _merge_ceilings(new: Ceilings | None, old: Ceilings | None) -> Ceilings | None:
    """The newer ceilings, with rates of dtypes that only the older ones have."""
    if new is None or old is None:
        return new or old
    return Ceilings(new.device, new.copy_gb_s, {**old.matmul_tflop_s, **new.matmul_tflop_s})
