"""Texts comparing a hardware design with the scored model, for the command line and the panel."""

from __future__ import annotations

from typing import Any

from espalier.app.number_text import count, percent
from espalier.app.translation import tr

NAMES = (("rtl", "RTL"), ("scored", tr("scored model")), ("float", "float"))
ADVICE = tr("Pass hardware_functions scores softmax, norms and tables with the design's own arithmetic.")


def scored_verdict(comparison: dict[str, Any]) -> tuple[str, str]:
    """(tone, text) of the comparison; tone: "good" if equal, "bad" if different, "same" if not compared."""
    if "not_compared" in comparison:
        return "same", tr("not compared with the scored model: {}", comparison["not_compared"])
    of = tr("{} outputs, n = {}", count(comparison["outputs"]), count(comparison["n"]))
    if not comparison["differing"]:
        return "good", tr("✓ equals the scored model to float32's precision ({})", of)
    equal = comparison["equal_argmax"]
    return "bad", (
        tr(
            "✗ differs from the scored model in {} of {}: by at most {:.2g} where their rms is {:.2g}",
            count(comparison["differing"]),
            of,
            comparison["max_abs_diff"],
            comparison["rms"],
        )
        + ("" if equal is None else tr(", argmax equal in {}", percent(equal)))
    )


def scored_accuracy(comparison: dict[str, Any]) -> str:
    """The accuracies of RTL, scored model and float; empty without labels."""
    accuracies = comparison.get("accuracy") or {}
    if any(accuracies.get(name) is None for name, _ in NAMES):
        return ""
    parts = ", ".join(f"{title} {percent(accuracies[name])}" for name, title in NAMES)
    source = "simulated" if comparison["rtl"] == "simulated" else tr("of its integer model, not simulated")
    return tr(
        "accuracy: {} (n = {}; RTL {}; float: the model {})",
        parts,
        count(comparison["n"]),
        source,
        comparison["float_is"],
    )
