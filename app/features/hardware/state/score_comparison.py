"""Texts comparing a hardware design with the scored model, for the command line and the panel."""

from __future__ import annotations

from typing import Any

from espalier.app.number_text import count, percent

NAMES = (("rtl", "RTL"), ("scored", "scored model"), ("float", "float"))
ADVICE = "Pass hardware_functions scores softmax, norms and tables with the design's own arithmetic."


def scored_verdict(comparison: dict[str, Any]) -> tuple[str, str]:
    """(tone, text) of the comparison; tone: "good" if equal, "bad" if different, "same" if not compared."""
    if "not_compared" in comparison:
        return "same", f"not compared with the scored model: {comparison['not_compared']}"
    of = f"{count(comparison['outputs'])} outputs, n = {count(comparison['n'])}"
    if not comparison["differing"]:
        return "good", f"✓ equals the scored model to float32's precision ({of})"
    equal = comparison["equal_argmax"]
    return "bad", (
        f"✗ differs from the scored model in {count(comparison['differing'])} of {of}: by at most "
        f"{comparison['max_abs_diff']:.2g} where their rms is {comparison['rms']:.2g}"
        + ("" if equal is None else f", argmax equal in {percent(equal)}")
    )


def scored_accuracy(comparison: dict[str, Any]) -> str:
    """The accuracies of RTL, scored model and float; empty without labels."""
    accuracies = comparison.get("accuracy") or {}
    if any(accuracies.get(name) is None for name, _ in NAMES):
        return ""
    parts = ", ".join(f"{title} {percent(accuracies[name])}" for name, title in NAMES)
    source = "simulated" if comparison["rtl"] == "simulated" else "of its integer model, not simulated"
    return f"accuracy: {parts} (n = {count(comparison['n'])}; RTL {source}; float: the model {comparison['float_is']})"
