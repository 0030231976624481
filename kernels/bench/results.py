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
from espalier.kernels.bench.others import TELLING
from espalier.kernels.bench.spec import KernelError, Shape, shape_text
from espalier.model.borders import read_json, reading
from espalier.model.document.codec import decode
from espalier.model.files import check_target, write_text

MARK, FORMAT = "espalier_kernels", 1


ABOVE = "above the roof measured here, so time and roof do not compare: check caches and other load"


@dataclass(frozen=True, slots=True)
class Row:
    """One version of a kernel at one shape.

    `seconds`: median with cold caches, `warm` with warm ones, `least` of all; `spread`: half the quartiles' distance
    over the median; `first`: of the first call. `bytes`: what this version moves, `bytes_least` what any must; GB/s
    count `bytes`. `ratio`: how many times as fast as the baseline, round by round in the same run. `max_error` and
    `error`: largest difference from the reference, and its norm over that of the reference. `of_roof`: share of what
    the ceilings allow; none where it was faster than they do (`above_roof`).
    `problem`: why there is no time, or what is wrong with it; `note`: what to know of it.
    `others`: the share of the processors that other programs took meanwhile.
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
        """10⁹ bytes a second, cold."""
        return self.bytes / self.seconds / 1e9 if self.seconds else None

    @property
    def tflop_s(self) -> float | None:
        """10¹² operations a second, cold."""
        return self.flops / self.seconds / 1e12 if self.seconds else None

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that must move."""
        return self.flops / self.bytes_least if self.bytes_least else 0.0

    @property
    def remark(self) -> str:
        """What to know of the row: what is wrong, its note, and that it lies above the roof."""
        return "; ".join(t for t in (self.problem or self.note, ABOVE if self.above_roof else "") if t)

    def as_row(self) -> dict[str, Any]:
        """As a row of a table or of JSON: the names of the command line first."""
        head = {"name": self.kernel, "version": self.version, "device": self.device, "dtype": self.dtype,
                "shape": shape_text(self.shape)}  # fmt: skip
        rest = {k: v for k, v in asdict(self).items() if k not in ("kernel", *head)}
        return {**head, **rest, "gb_s": self.gb_s, "tflop_s": self.tflop_s}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What rows of several files are matched by."""
        return self.kernel, self.version, self.dtype, shape_text(self.shape)


@dataclass(frozen=True, slots=True)
class Results:
    """A run: rows in the order measured, on one device."""

    machine: dict[str, Any]
    date: str
    ceilings: Ceilings | None = None
    rows: tuple[Row, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def label(self) -> str:
        """The machine and the day."""
        return f"{self.machine.get('name', 'unknown')}, {self.date}"


def under_roof(share: float | None) -> tuple[float | None, bool]:
    """(share of the roof, whether it lies above): a share above 1 says only that roof and time do not compare."""
    above = share is not None and share > 1
    return (None if above else share), above


def disturbed(rows: Iterable[Row]) -> float | None:
    """The share of the processors that other programs took while rows were timed, where it is enough to matter."""
    taken = [r.others for r in rows if r.others is not None]
    share = sum(taken) / len(taken) if taken else 0.0
    return share if share >= TELLING else None


def dumped(results: Results) -> dict[str, Any]:
    """As JSON."""
    return {
        MARK: FORMAT, "machine": results.machine, "date": results.date,
        "ceilings": asdict(results.ceilings) if results.ceilings else None, "settings": results.settings,
        "rows": [_rounded(asdict(r)) for r in results.rows],
    }  # fmt: skip


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) and math.isfinite(v) else
            (str(v) if isinstance(v, float) else v) for k, v in row.items()}  # fmt: skip


def check_place(path: Path) -> None:
    """Raises KernelError where no file can be written, before anything is measured for it."""
    check_target(path, KernelError)


def save(results: Results, path: Path) -> None:
    """Write a file, whole or not at all; raises KernelError."""
    text = json.dumps(dumped(results), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, KernelError)


def load(path: Path) -> Results:
    """Read a file that `save` wrote; raises KernelError."""
    hint = "Give a file that `kernels … -o FILE` wrote."
    with reading(path, KernelError, "is not readable JSON", hint):
        data = read_json(path)
    return parsed(data, path.name, hint)


def parsed(data: Any, name: str, hint: str = "") -> Results:
    """What `dumped` gave; raises KernelError, which calls it `name`."""
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
    """Keys that a newer version added are left out; infinities were written as words."""
    kept = {k: data[k] for k in Row.__slots__ if k in data}
    kept |= {k: float(kept[k]) for k in _FLOATS if kept.get(k) is not None}
    if (kept.get("of_roof") or 0) > 1:  # as earlier versions wrote them
        kept["of_roof"], kept["above_roof"] = under_roof(kept["of_roof"])
    return decode(Row, kept, "row")


def compared(runs: Sequence[Results]) -> list[dict[str, Any]]:
    """A row for each measurement that several files have: seconds of each, and how many times as fast as the first."""
    names = columns(runs)
    tables = [{r.key: r for r in run.rows if r.seconds} for run in runs]
    rows: list[dict[str, Any]] = []
    for key in _keys(tables):
        held = [table.get(key) for table in tables]
        first = next(r.seconds for r in held if r and r.seconds)
        row: dict[str, Any] = dict(zip(("name", "version", "dtype", "shape"), key, strict=True))
        for name, found in zip(names, held, strict=True):
            row[f"seconds {name}"] = found.seconds if found else None
            row[f"speed {name}"] = first / found.seconds if found and found.seconds else None
        rows.append(row)
    return rows


def _keys(tables: Iterable[dict[Any, Row]]) -> list[Any]:
    """Keys of at least two tables, in the order of the first that has them."""
    every = Counter(key for table in tables for key in table)
    return [key for key, count in every.items() if count > 1]


def columns(runs: Sequence[Results]) -> list[str]:
    """What runs are called beside each other: names of machines, numbered where two are the same."""
    names = [str(run.machine.get("name", "unknown")) for run in runs]
    return [f"{n} #{i + 1}" if names.count(n) > 1 else n for i, n in enumerate(names)]
