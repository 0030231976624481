"""What a project keeps of its hardware: the tables of the last run and of the last front, never the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espalier.app.session.circuits import mark_of
from espalier.model.borders import parse_json, read_json, reading, tried
from espalier.model.document.codec import decode, encode
from espalier.model.errors import Damage, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.balance_front import BalanceFrontOptions
from espalier.passes.analysis.hardware import HardwareOptions

MEMBER = "hardware.json"  # of the project file
VERSION = 1
VERBS = ("check", "simulate", "emit")
NEEDED = ("lint", "interval", "cycles", "bottleneck", "instances", "modules")  # of a summary
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """What a run gave. `sources`: file name → text of the SystemVerilog; `verb`: one of VERBS.

    `graph` is None where it came with a project; `mark` tells then what it is of. `copies`: the edited modules in it.
    """

    verb: str
    graph: Graph | None
    options: HardwareOptions
    rows: tuple[Row, ...]
    summary: Row
    sources: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]
    mark: str = ""

    @property
    def name(self) -> str:
        """The name of the top module."""
        return self.options.name

    @property
    def copies(self) -> dict[str, str]:
        """Module → the edited text that it was made with."""
        return self.options.modules

    def file_of(self, module: str) -> str:
        """The file that a module is written in."""
        return f"{module}.sv" if module == self.name else f"rtl/{module}.sv"

    def used(self, copies: Mapping[str, str]) -> dict[str, str]:
        """Of edited modules those that this design has."""
        return {m: t for m, t in copies.items() if m in self.summary.get("modules", ())}


@dataclass(frozen=True, slots=True)
class Front:
    """Designs from fully folded to as parallel as it helps; `graph` and `mark` as of Made."""

    graph: Graph | None
    options: BalanceFrontOptions
    rows: tuple[Row, ...]
    mark: str = ""
    unknown: tuple[str, ...] = ()  # modules without an estimate of their area


def waves_of(made: Made, home: Path | None) -> Path | None:
    """The folder of the handshakes: where the run left it, or in the same place near the project, which was moved."""
    place = Path(made.summary.get("waves") or "")
    if not place.name:
        return None
    ends = (place.parts[-n:] for n in range(1, len(place.parts))) if home else ()
    near = (home.joinpath(*end) for end in ends) if home else ()
    wanted = [s["stream"] for s in made.summary.get("streams", ())]
    return place if place.is_dir() else next((f for f in near if _streams_in(f) == wanted), None)


def _streams_in(folder: Path) -> list[str] | None:
    from espalier.verilog.proof.waves import HEAD  # which loads numpy; the window paints before

    return tried(lambda: [s["name"] for s in read_json(folder / HEAD)["streams"]], None)


def to_bytes(made: Made | None, front: Front | None) -> bytes | None:
    """The member of the project; None where there is nothing to keep."""
    data: dict[str, Any] = {"version": VERSION}
    if made:
        mark = made.mark or mark_of(made.graph) if made.graph else made.mark
        data["made"] = {"verb": made.verb, "options": encode(replace(made.options, folder="")), "rows": list(made.rows),
                        "summary": made.summary, "mark": mark}  # fmt: skip
    if front:
        mark = front.mark or mark_of(front.graph, parallel=False) if front.graph else front.mark
        data["front"] = {"options": encode(front.options), "rows": list(front.rows), "mark": mark,
                         "unknown": list(front.unknown)}  # fmt: skip
    return json.dumps(data, separators=(",", ":"), default=str).encode() if made or front else None


def from_bytes(raw: bytes) -> tuple[Made | None, Front | None]:
    """What `to_bytes` gave; raises OptionsError where it cannot be read."""
    what = "The results of hardware in the project"
    with reading(what, OptionsError, "cannot be read", "Check the hardware again."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise Damage("they were written by another version")
        return _made(data.get("made")), _front(data.get("front"))


def _made(data: Any) -> Made | None:
    if data is None:
        return None
    if data["verb"] not in VERBS or not set(NEEDED) <= set(data["summary"]):
        raise ValueError("no results")
    options = decode(HardwareOptions, data["options"], "options")
    rows = tuple({"node": "", "instance": "", "module": "", **dict(r)} for r in data["rows"])
    return Made(data["verb"], None, options, rows, dict(data["summary"]), {}, str(data["mark"]))


def _front(data: Any) -> Front | None:
    if data is None:
        return None
    rows = tuple(dict(r) for r in data["rows"])
    if rows and not any("fifos" in r for r in rows):
        return None  # of a version whose areas left the FIFOs out
    if not all(isinstance(r.get(k), int | float) for r in rows for k in ("multipliers", "interval")) or not all(
        isinstance(r.get(k, ""), int | float | None) for r in rows for k in ("lut", "dsp")
    ):
        raise ValueError("no front")
    return Front(None, decode(BalanceFrontOptions, data["options"], "options"), rows, str(data["mark"]),
                 tuple(map(str, data.get("unknown", ()))))  # fmt: skip
