"""Hardware tables stored in a project: the last run and the last front, without the written files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espalier.app.session.circuit_identity import circuit_fingerprint
from espalier.app.translation import tr
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
class RunResult:
    """Result of a run. `sources`: file name → SystemVerilog text; `verb`: one of VERBS.

    `graph` is None if it was read from a project; `mark` then identifies the circuit.
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
        """Module → edited text that the run used."""
        return self.options.modules

    def file_of(self, module: str) -> str:
        """The file name of a module."""
        return f"{module}.sv" if module == self.name else f"rtl/{module}.sv"

    def used(self, copies: Mapping[str, str]) -> dict[str, str]:
        """Those of the edited modules that the design contains."""
        return {m: t for m, t in copies.items() if m in self.summary.get("modules", ())}


@dataclass(frozen=True, slots=True)
class Front:
    """Designs from fully folded to maximally parallel; `graph` and `mark` as in RunResult."""

    graph: Graph | None
    options: BalanceFrontOptions
    rows: tuple[Row, ...]
    mark: str = ""
    unknown: tuple[str, ...] = ()  # modules without an estimate of their area


def waves_of(result: RunResult, folder: Path | None) -> Path | None:
    """The folder of the handshakes, as written by the run or relative to a project that was moved."""
    waves = Path(result.summary.get("waves") or "")
    if not waves.name:
        return None
    ends = (waves.parts[-n:] for n in range(1, len(waves.parts))) if folder else ()
    near = (folder.joinpath(*end) for end in ends) if folder else ()
    streams = [s["stream"] for s in result.summary.get("streams", ())]
    return waves if waves.is_dir() else next((f for f in near if _streams_in(f) == streams), None)


def _streams_in(folder: Path) -> list[str] | None:
    from espalier.verilog.proof.waves import HEAD  # late import: loads numpy, not needed for the first paint

    return tried(lambda: [s["name"] for s in read_json(folder / HEAD)["streams"]], None)


def to_bytes(result: RunResult | None, front: Front | None) -> bytes | None:
    """The project member; None if there is nothing to store."""
    data: dict[str, Any] = {"version": VERSION}
    if result:
        mark = result.mark or circuit_fingerprint(result.graph) if result.graph else result.mark
        options = encode(replace(result.options, folder=""))
        data["made"] = {"verb": result.verb, "options": options, "rows": list(result.rows),
                        "summary": result.summary, "mark": mark}  # fmt: skip
    if front:
        mark = front.mark or circuit_fingerprint(front.graph, parallel=False) if front.graph else front.mark
        data["front"] = {"options": encode(front.options), "rows": list(front.rows), "mark": mark,
                         "unknown": list(front.unknown)}  # fmt: skip
    return json.dumps(data, separators=(",", ":"), default=str).encode() if result or front else None


def from_bytes(raw: bytes) -> tuple[RunResult | None, Front | None]:
    """Inverse of `to_bytes`; raises OptionsError if the data is damaged."""
    title = tr("The results of hardware in the project")
    with reading(title, OptionsError, "cannot be read", "Check the hardware again."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise Damage("they were written by another version")
        return _result(data.get("made")), _front(data.get("front"))


def _result(data: Any) -> RunResult | None:
    if data is None:
        return None
    if data["verb"] not in VERBS or not set(NEEDED) <= set(data["summary"]):
        raise ValueError("no results")
    options = decode(HardwareOptions, data["options"], "options")
    rows = tuple({"node": "", "instance": "", "module": "", **dict(r)} for r in data["rows"])
    return RunResult(data["verb"], None, options, rows, dict(data["summary"]), {}, str(data["mark"]))


def _front(data: Any) -> Front | None:
    if data is None:
        return None
    rows = tuple(dict(r) for r in data["rows"])
    if rows and not any("fifos" in r for r in rows):
        return None  # written by a version whose areas omit FIFOs
    if not all(isinstance(r.get(k), int | float) for r in rows for k in ("multipliers", "interval")) or not all(
        isinstance(r.get(k, ""), int | float | None) for r in rows for k in ("lut", "dsp")
    ):
        raise ValueError("no front")
    return Front(None, decode(BalanceFrontOptions, data["options"], "options"), rows, str(data["mark"]),
                 tuple(map(str, data.get("unknown", ()))))  # fmt: skip
