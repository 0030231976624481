"""Texts of the panel Hardware on a run: metrics, verdicts and table rows."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from espalier.app.features.hardware.state.score_comparison import scored_accuracy, scored_verdict
from espalier.app.number_text import count, percent, plural
from espalier.app.theme import Palette
from espalier.app.translation import message, tr

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.project_tables import RunResult

ABOUT = tr(
    "The model as SystemVerilog: one module per operation, linted by Verilator and slang, scheduled by cycle, and "
    "compared beat by beat with the integer model in a simulator."
)
NO_MODEL = tr("Open a model to write it as hardware.")
NO_FORMATS = tr("Hardware needs fixed point, and no layer has a format yet. Give every layer integer formats first.")
FIRST = tr("Check lints the design and estimates its cycles. Simulate also compares every stream.")


def figures(result: RunResult) -> str:
    """Interval, latency and bottleneck of a design."""
    summary = result.summary
    slow = summary["bottleneck"]
    busy = next((r["busy"] for r in result.rows if r["instance"] == slow), 0.0)
    parts = [
        tr("one sample every {} cycles", count(round(summary["interval"]))),
        tr("latency {} cycles", count(summary["cycles"])),
    ]
    parts += [tr("slowest: {} ({} busy)", slow, percent(busy, 0))] if slow else []
    area = summary.get("area") or {}
    parts += [_area(area)] if area else []
    return " · ".join([*parts, plural(summary["instances"], "instance")])


def _area(area: dict[str, Any]) -> str:
    """The total area, or the modules without an estimate and the area of the rest."""
    if names := area.get("unknown"):
        return tr("area unknown (no estimate for {}); the rest takes {}", ", ".join(names), _area(area["rest"]))
    return ", ".join(f"{count(area[k])} {k.upper()}" for k in ("lut", "ff", "dsp", "bram") if k in area)


def verdicts(result: RunResult) -> list[tuple[str, str]]:
    """(tone, text) of each check; tone: "good", "bad", or "same" if it was not run."""
    summary, tools = result.summary, tr(" and ").join(result.summary["lint"]["tools"])
    lint = len(summary["lint"]["findings"])
    texts = [("bad", tr("✗ lint: {}", plural(lint, "finding"))) if lint else ("good", tr("✓ lint: clean by {}", tools))]
    if not tools:
        texts = [("same", tr("lint: no tool installed (verilator or pyslang)"))]
    if folded := summary.get("remarks"):
        texts.append(("bad", tr("not unrolled: {} (see the remarks in Table)", ", ".join(folded))))
    texts += [("bad", note) for note in summary.get("notes", ())]
    if compared := summary.get("scored_model"):
        texts += [scored_verdict(compared), *(("same", text) for text in (scored_accuracy(compared),) if text)]
    if "simulator" not in summary:
        return [*texts, ("same", tr("not simulated yet"))]
    ran = tr("{} in {}", plural(summary["samples"], "sample"), summary["simulator"].capitalize())
    if summary["mismatches"]:
        texts.append(
            ("bad", tr("✗ does not match: {}, {}", plural(summary["mismatches"], "beat differs", "beats differ"), ran))
        )
    if summary["stuck"]:
        texts.append(("bad", tr("✗ deadlock")))
    if not summary["mismatches"] and not summary["stuck"]:
        texts.append(("good", tr("✓ matches in every beat, {}", ran)))
    if remark := summary.get("simulator_remark"):
        texts.append(("same", message(remark)))
    if edited := result.used(result.copies):
        texts.append(("same", tr("with edited {}", ", ".join(sorted(edited)))))
    return texts


def summary_html(result: RunResult, palette: Palette, stale: bool) -> str:
    """The summary as rich text."""
    colours = {"good": palette.good, "bad": palette.bad, "same": palette.muted}
    if stale:  # a green verdict would be read as one on the present model
        colours["good"] = palette.muted
    parts = [f'<span style="color:{colours[tone]}">{escape(text)}</span>' for tone, text in verdicts(result)]
    if synthesis := result.summary.get("synthesis"):
        parts.append(escape(synthesis_text(synthesis)))
    old = [tr('<b style="color:{}">Of an earlier state of the model: run again</b>', palette.bad)] if stale else []
    return " · ".join([*old, escape(figures(result)), *parts])


def synthesis_text(synthesis: dict[str, Any]) -> str:
    """Resources and clock by Yosys."""
    areas = ", ".join(f"{count(synthesis[k])} {k.upper()}" for k in ("lut", "ff", "dsp", "bram"))
    clock = f", {synthesis['fmax_mhz']:.0f} MHz" if synthesis.get("fmax_mhz") else ""
    return tr("Yosys for {}: {}{}", synthesis["target"], areas, clock)


def mismatch_rows(result: RunResult) -> list[dict[str, Any]]:
    """Table rows of the first mismatching beats."""
    return [{**m, "expected": _codes(m["expected"]), "got": _codes(m["got"]) or tr("nothing")}
            for m in result.summary.get("first_mismatches", ())]  # fmt: skip


def _codes(codes: Any) -> str:
    return " ".join(str(c) for c in codes).replace("-", "−")


def lint_rows(result: RunResult) -> list[dict[str, Any]]:
    """Table rows of lint findings: file, line, text."""
    rows = []
    for text in result.summary["lint"]["findings"]:
        file, _, rest = text.partition(":")
        line, _, message = rest.partition(":")
        rows.append({"file": file, "line": int(line) if line.isdigit() else 0, "finding": message.strip()})
    return rows


def host_rows(result: RunResult) -> list[dict[str, Any]]:
    """Table rows of the host: ports and the nodes that it computes."""
    ports = [{"node": r["node"], "where": tr("gives {}", r["port"]) if r["way"] == "in" else tr("takes {}", r["port"]),
              "host": r["host"], "stream": r["stream"], "beats": r["beats"]}
             for r in result.summary.get("ports", ())]  # fmt: skip
    nodes = [{"node": h["node"], "where": tr("computes {}", h["op"]), "host": h["why"], "stream": None, "beats": None}
             for h in result.summary.get("host", ())]  # fmt: skip
    return ports + nodes
