"""Explains the speed of a compiled model relative to eager execution, from measurements only."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kernels.bench.other_load import busy_note

CLOSE = 0.05  # relative difference of times that counts as none
RESTLESS = 0.25  # relative spread of times above which differences are not interpreted
HEAVY, SMALL = 0.6, 20e-6  # share of products that counts as large; seconds of an operation that count as small


@dataclass(frozen=True, slots=True)
class CompileFacts:
    """Seconds of a call: `eager`, `compiled`, and `captured`: the captured graphs run without compilation. `products`:
    share of matrix products and convolutions in the operations' time. `operations`: per call of the model. `spread`:
    of the eager calls, relative to their median. `fuses`: the backend generates its own code. `others`: share of the
    processors used by other programs.
    """

    eager: float
    compiled: float
    captured: float
    graphs: int
    products: float
    operations: int
    spread: float = 0.0
    fuses: bool = True
    others: float | None = None


def explanation(facts: CompileFacts) -> list[str]:
    """Sentences, most important first."""
    guards = facts.captured - facts.eager
    gain = (facts.eager - facts.compiled) / facts.eager
    sentences: list[str] = []
    if gain > CLOSE:
        sentences.append(f"Compiled code takes {1 - gain:.0%} of the eager time.")
    elif gain < -CLOSE:
        sentences.append(f"Compiled code takes {1 - gain:.2f} times the eager time.")
    else:
        sentences.append("Compiled and eager take the same time.")
    if facts.fuses:
        sentences += _fused(facts, gain)
    else:
        sentences.append("This backend generates no code: it runs torch's operations in the captured graphs.")
    stable = facts.spread <= RESTLESS
    if stable and guards > CLOSE * facts.eager:
        sentences.append(f"Checking guards and entering the compiled program takes {1e6 * guards:.0f} µs "
                         f"a call, {guards / facts.eager:.0%} of an eager one.")  # fmt: skip
    code = facts.compiled - facts.captured
    if stable and facts.fuses and gain < -CLOSE and code > CLOSE * facts.eager:
        sentences.append(f"The compiled code itself takes {1e6 * code:.0f} µs a call more than torch's operations in "
                         "the same graphs.")  # fmt: skip
    if busy := busy_note(facts.others):
        sentences.append(busy)
    elif not stable:
        sentences.append(f"Eager calls vary by ±{facts.spread:.0%}: too much to compare differences of times. "
                         "Measure again.")  # fmt: skip
    if facts.graphs > 1:
        sentences.append(f"The model has {facts.graphs} graphs: Python runs between them, and nothing is fused across.")
    return sentences


def _fused(facts: CompileFacts, gain: float) -> list[str]:
    """Sentences on the eager operations' times, which bound the gain of fusion; the generated code is not examined."""
    each, sentences = facts.eager / max(facts.operations, 1), list[str]()
    if gain > CLOSE and each < SMALL:
        sentences.append(f"Eager calls {facts.operations} operations of {1e6 * each:.0f} µs on average; the calls of "
                         "the compiled code were not counted.")  # fmt: skip
    if gain > CLOSE and facts.products < HEAVY:
        sentences.append(f"{1 - facts.products:.0%} of the operations' time goes to elementwise operations and copies; "
                         "which of them the backend fused was not examined.")  # fmt: skip
    if gain <= CLOSE and facts.products >= HEAVY:
        sentences.append(f"{facts.products:.0%} of the operations' time goes to matrix products and convolutions, "
                         f"{1 - facts.products:.0%} all others.")  # fmt: skip
    return sentences
