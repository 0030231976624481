"""Why a compiled model is faster or slower than an eager one, in words that follow from what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kernels.bench.others import busy_words

CLOSE = 0.05  # of the time: no difference worth a word
RESTLESS = 0.25  # spread of times beyond which differences of times tell nothing
HEAVY, SMALL = 0.6, 20e-6  # share of products above which they rule; seconds of an operation below which calls rule


@dataclass(frozen=True, slots=True)
class Facts:
    """Seconds of a call; `captured`: the graphs as found, run by torch without compiling. `products`: the share of
    matrix products and convolutions in the operations' time. `operations`: torch's calls in one of the model. `spread`:
    of the eager calls, as a share of their median. `fuses`: the backend generates code of its own. `others`: the share
    of the processors that other programs took.
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


def reasons(facts: Facts) -> list[str]:
    """Sentences, the weightiest first."""
    guards = facts.captured - facts.eager
    gain = (facts.eager - facts.compiled) / facts.eager
    found: list[str] = []
    if gain > CLOSE:
        found.append(f"Compiled code takes {1 - gain:.0%} of the eager time.")
    elif gain < -CLOSE:
        found.append(f"Compiled code takes {1 - gain:.2f} times the eager time.")
    else:
        found.append("Compiled and eager take the same time.")
    if facts.fuses:
        found += _fused(facts, gain)
    else:
        found.append("This backend generates no code: it runs torch's own operations in the graphs that were found.")
    still = facts.spread <= RESTLESS  # else differences of times tell nothing
    if still and guards > CLOSE * facts.eager:
        found.append(f"Checking that the compiled program still applies, and entering it, takes {1e6 * guards:.0f} µs "
                     f"a call, {guards / facts.eager:.0%} of an eager one.")  # fmt: skip
    code = facts.compiled - facts.captured
    if still and facts.fuses and gain < -CLOSE and code > CLOSE * facts.eager:
        found.append(f"The compiled code itself takes {1e6 * code:.0f} µs a call more than torch's own operations in "
                     "the same graphs.")  # fmt: skip
    if busy := busy_words(facts.others):
        found.append(busy)
    elif not still:
        found.append(f"Eager calls scatter by ±{facts.spread:.0%}: too much to compare differences of times. "
                     "Measure again.")  # fmt: skip
    if facts.graphs > 1:
        found.append(
            f"The model falls into {facts.graphs} graphs: between them Python runs, and nothing is fused across."
        )
    return found


def _fused(facts: Facts, gain: float) -> list[str]:
    """What the eager operations' times say of how much a backend's own code could gain; its code is not looked at."""
    each, found = facts.eager / max(facts.operations, 1), list[str]()
    if gain > CLOSE and each < SMALL:
        found.append(f"Eager calls {facts.operations} operations of {1e6 * each:.0f} µs on average; how many the "
                     "compiled code calls was not counted.")  # fmt: skip
    if gain > CLOSE and facts.products < HEAVY:
        found.append(f"{1 - facts.products:.0%} of the operations' time are elementwise operations and copies; "
                     "which of them the backend fused was not looked at.")  # fmt: skip
    if gain <= CLOSE and facts.products >= HEAVY:
        found.append(f"{facts.products:.0%} of the operations' time are matrix products and convolutions, "
                     f"{1 - facts.products:.0%} all others.")  # fmt: skip
    return found
