"""Studies that nobody ran, by seed: trials of every state over formats, shares and options."""

from __future__ import annotations

import numpy as np

from espalier.passes.search.space import Choice
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial

FORMATS = ("integer(width=2, frac_width=1)", "integer(width=4, frac_width=2)", "mxint(width=4)",
           "integer(width=8, frac_width=6)", "float")  # fmt: skip
BITS = (2.0, 4.0, 4.25, 8.0, 32.0)
GOALS = (Goal("accuracy"), Goal("weight_bits"))
LAYERS = ("attention.query", "attention.key", "attention.value", "attention.output", "intermediate", "output")
RUNGS = (100, 200, 400, 800)
START = 1.7e9


def choices(layers: int = 8) -> tuple[Choice, ...]:
    """Formats of layers, a sparsity, and a method."""
    names = [f"bert.encoder.layer.{i // len(LAYERS)}.{LAYERS[i % len(LAYERS)]}.dense" for i in range(layers)]
    made = [Choice(f"{n} weight", "format", FORMATS, ordered=True, nodes=(n,), ports=("weight",)) for n in names]
    return (*made, Choice("sparsity", "sparsity", low=0.0, high=0.9),
            Choice("learning rate", "option", low=1e-5, high=1e-2, log=True),
            Choice("method", "option", ("l1", "random", "wanda")))  # fmt: skip


def trial(number: int, seed: int = 0, layers: int = 8, running: bool = False, third: bool = False) -> Trial:
    """One trial: better with more bits, by chance, and with its number."""
    luck = np.random.default_rng((seed, number))
    space = choices(layers)
    taken = luck.integers(0, len(FORMATS), layers)
    share, rate = float(luck.random() * 0.9), float(10 ** luck.uniform(-5, -2))
    values = [*(FORMATS[k] for k in taken), round(share, 3), rate, str(luck.choice(["l1", "random", "wanda"]))]
    params = dict(zip((c.name for c in space), values, strict=True))
    begun = START + 3.1 * (number // 3)
    common = {"number": number, "params": params, "started": begun, "worker": f"worker {number % 3 + 1}"}
    if running:
        return Trial(state="running", **common)
    bits = float(np.mean([BITS[k] for k in taken]))
    weak = sum(w / (1 + k) for w, k in zip((0.06, 0.02, *(0.01,) * layers), taken, strict=False))
    accuracy = 0.8 - weak - 0.15 * share**3 + 0.01 * luck.normal() + 0.02 * (1 - np.exp(-number / 40))
    steps = tuple((s, float(accuracy + 0.08 / np.sqrt(s) * luck.normal())) for s in RUNGS)
    seconds = float(2 + luck.random())
    if number % 17 == 11:
        error = "The loss is no number." if number % 2 else "8 rows do not divide by 3."
        return Trial(state="failed", seconds=0.4, error=error, **common)
    if number % 7 == 5:
        return Trial(state="pruned", steps=steps[:2], seconds=seconds / 2, **common)
    figures = {"accuracy": accuracy, "loss": 1.2 - accuracy, "weight_bits": bits, "size_bytes": 4e5 * bits / 8}
    told = (accuracy, bits, figures["size_bytes"]) if third else (accuracy, bits)
    origin = "front" if number < 5 else "tpe"
    return Trial(state="complete", values=told, figures=figures, steps=steps, seconds=seconds, origin=origin,
                 violation={"weight_bits<=16": bits - 16.0}, **common)  # fmt: skip


def trials(count: int, seed: int = 0, layers: int = 8, third: bool = False) -> list[Trial]:
    """A study of so many."""
    return [trial(i, seed, layers, third=third) for i in range(count)]


BASELINE = {"accuracy": 0.79, "loss": 0.42, "weight_bits": 32.0, "size_bytes": 1.6e6}
WITHIN = ("weight_bits<=16",)
