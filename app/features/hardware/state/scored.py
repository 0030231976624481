"""What a run of Hardware says of the design beside the model that scores come from, for command line and panel."""

from __future__ import annotations

from typing import Any

from espalier.app.words import count, percent

NAMES = (("rtl", "RTL"), ("scored", "scored model"), ("float", "float"))
ADVICE = "Pass hardware_functions scores softmax, norms and tables with the design's own arithmetic."


def scored_verdict(found: dict[str, Any]) -> tuple[str, str]:
    """(tone, words): whether the design computes what is scored; "good", "bad", or "same" where it was not compared."""
    if "not_compared" in found:
        return "same", f"not compared with the scored model: {found['not_compared']}"
    of = f"{count(found['outputs'])} outputs, n = {count(found['n'])}"
    if not found["differing"]:
        return "good", f"✓ equals the scored model to float32's precision ({of})"
    equal = found["equal_argmax"]
    return "bad", (
        f"✗ differs from the scored model in {count(found['differing'])} of {of}: by at most "
        f"{found['max_abs_diff']:.2g} where their rms is {found['rms']:.2g}"
        + ("" if equal is None else f", argmax equal in {percent(equal)}")
    )


def scored_accuracy(found: dict[str, Any]) -> str:
    """The accuracies side by side; empty without labels."""
    held = found.get("accuracy") or {}
    if any(held.get(name) is None for name, _ in NAMES):
        return ""
    parts = ", ".join(f"{title} {percent(held[name])}" for name, title in NAMES)
    source = "simulated" if found["rtl"] == "simulated" else "of its integer model, not simulated"
    return f"accuracy: {parts} (n = {count(found['n'])}; RTL {source}; float: the model {found['float_is']})"
