"""Rows of measurements and their files: JSON with the machine's name, its ceilings and the date."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.other_load import TELLING
from espalier.kernels.bench.spec import KernelError, Shape, shape_text
from espalier.model.borders import read_json, reading
from espalier.model.document.codec import decode
from espalier.model.files import check_target, write_text

MARK, FORMAT = "espalier_kernels", 1


ABOVE = "above the measured roof, so time and roof are not comparable: check caches and other load"


@dataclass(frozen=True, slots=True)
class Row:
    """One version of a kernel at one shape.

    `seconds`: median with cold caches, `warm` with warm ones, `least` the minimum; `spread`: half the interquartile
    range over the median; `first`: the first call. `bytes`: moved by this version, `bytes_least` by any version; GB/s
    count `bytes`. `ratio`: median speed-up over the baseline, round by round in the same run. `max_error` and
    `error`: largest difference from the reference, and the norm of the difference over the reference's. `of_roof`:
    share of the ceilings' limit; None if the row exceeds it (`above_roof`).
    `problem`: why there is no time, or what is wrong with it; `note`: a remark.
    `others`: the share of the processors used by other programs meanwhile.
    """

    kernel: str
    version: str
    device: str
    dtype: str
    shape: Shape
    seconds: float | None = None
    warm: float | None = None
    least: float | None = None
    spread: float | None = None
    first: float | None = None
    rounds: int = 0
    flops: int = 0
    bytes: int = 0
    bytes_least: int = 0
    ratio: float | None = None
    baseline: str = ""
    max_error: float | None = None
    error: float | None = None
    correct: bool | None = None
    of_roof: float | None = None
    above_roof: bool = False
    problem: str = ""
    note: str = ""
    others: float | None = None

    @property
    def gb_s(self) -> float | None:
        """10⁹ bytes per second, cold."""
        return self.bytes / self.seconds / 1e9 if self.seconds else None

    @property
    def tflop_s(self) -> float | None:
        """10¹² operations per second, cold."""
        return self.flops / self.seconds / 1e12 if self.seconds else None

    @property
    def intensity(self) -> float:
        """FLOPs per byte that must be moved."""
        return self.flops / self.bytes_least if self.bytes_least else 0.0

    @property
    def remark(self) -> str:
        """The problem and the note of the row, and whether it exceeds the roof."""
        return "; ".join(t for t in (self.problem or self.note, ABOVE if self.above_roof else "") if t)

    def as_row(self) -> dict[str, Any]:
        """The row for tables and JSON, with the command line's options first."""
        head = {"name": self.kernel, "version": self.version, "device": self.device, "dtype": self.dtype,
                "shape": shape_text(self.shape)}  # fmt: skip
        values = {k: v for k, v in asdict(self).items() if k not in ("kernel", *head)}
        return {**head, **values, "gb_s": self.gb_s, "tflop_s": self.tflop_s}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key that matches rows of several files."""
        return self.kernel, self.version, self.dtype, shape_text(self.shape)


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run on one device, rows in the order of measurement."""

    machine: dict[str, Any]
    date: str
    ceilings: Ceilings | None = None
    rows: tuple[Row, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def label(self) -> str:
        """Machine and date."""
        return f"{self.machine.get('name', 'unknown')}, {self.date}"


def share_of_roof(share: float | None) -> tuple[float | None, bool]:
    """(share of the roof, whether it exceeds 1): a share above 1 means that roof and time are not comparable."""
    above = share is not None and share > 1
    return (None if above else share), above


def disturbance(rows: Iterable[Row]) -> float | None:
    """The share of the processors used by other programs while rows were timed, if it affects times; else None."""
    shares = [r.others for r in rows if r.others is not None]
    share = sum(shares) / len(shares) if shares else 0.0
    return share if share >= TELLING else None


def to_json(results: Results) -> dict[str, Any]:
    """The results as JSON values."""
    return {
        MARK: FORMAT, "machine": results.machine, "date": results.date,
        "ceilings": asdict(results.ceilings) if results.ceilings else None, "settings": results.settings,
        "rows": [_rounded(asdict(r)) for r in results.rows],
    }  # fmt: skip


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) and math.isfinite(v) else
            (str(v) if isinstance(v, float) else v) for k, v in row.items()}  # fmt: skip


def check_writable(path: Path) -> None:
    """Raise KernelError if the file cannot be written, before the measurement starts."""
    check_target(path, KernelError)


def save(results: Results, path: Path) -> None:
    """Write a file atomically; raises KernelError."""
    text = json.dumps(to_json(results), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, KernelError)


def load(path: Path) -> Results:
    """Read a file that `save` wrote; raises KernelError."""
    hint = "Give a file that `kernels … -o FILE` wrote."
    with reading(path, KernelError, "is not readable JSON", hint):
        data = read_json(path)
    return from_json(data, path.name, hint)


def from_json(data: Any, name: str, hint: str = "") -> Results:
    """The inverse of `to_json`; raises KernelError, in which the data is called `name`."""
    if not isinstance(data, dict) or not isinstance(data.get(MARK), int):
        raise KernelError(f"{name} holds no measurements of kernels.", hint)
    if data[MARK] > FORMAT:
        raise KernelError(f"{name} was written by a newer Espalier.", "Update Espalier to read it.")
    with reading(name, KernelError, "is damaged", hint):
        machine = {"name": "unknown", "device": "unknown", **decode(dict[str, Any], data["machine"], "machine")}
        machine |= {k: str(machine[k]) for k in ("name", "device")}
        limits = decode(Ceilings | None, data.get("ceilings"), "ceilings")
        rows = tuple(_row(r) for r in data["rows"])
        settings = decode(dict[str, Any], data.get("settings") or {}, "settings")
        return Results(machine, str(data["date"]), limits, rows, settings)


_FLOATS = tuple(f.name for f in fields(Row) if "float" in str(f.type))


def _row(data: dict[str, Any]) -> Row:
    """A row; unknown keys of newer versions are dropped, and infinities are stored as text."""
    values = {k: data[k] for k in Row.__slots__ if k in data}
    values |= {k: float(values[k]) for k in _FLOATS if values.get(k) is not None}
    if (values.get("of_roof") or 0) > 1:  # the form of earlier versions
        values["of_roof"], values["above_roof"] = share_of_roof(values["of_roof"])
    return decode(Row, values, "row")


def compared(runs: Sequence[Results]) -> list[dict[str, Any]]:
    """A row for each measurement that is in several files: the seconds of each, and its speed relative to the first."""
    names = columns(runs)
    tables = [{r.key: r for r in run.rows if r.seconds} for run in runs]
    rows: list[dict[str, Any]] = []
    for key in _keys(tables):
        entries = [table.get(key) for table in tables]
        first = next(r.seconds for r in entries if r and r.seconds)
        row: dict[str, Any] = dict(zip(("name", "version", "dtype", "shape"), key, strict=True))
        for name, entry in zip(names, entries, strict=True):
            row[f"seconds {name}"] = entry.seconds if entry else None
            row[f"speed {name}"] = first / entry.seconds if entry and entry.seconds else None
        rows.append(row)
    return rows


def _keys(tables: Iterable[dict[Any, Row]]) -> list[Any]:
    """Keys of at least two tables, in the order of the first that has them."""
    counts = Counter(key for table in tables for key in table)
    return [key for key, count in counts.items() if count > 1]


def columns(runs: Sequence[Results]) -> list[str]:
    """Column titles of several runs: names of machines, numbered if equal."""
    names = [str(run.machine.get("name", "unknown")) for run in runs]
    return [f"{n} #{i + 1}" if names.count(n) > 1 else n for i, n in enumerate(names)]
