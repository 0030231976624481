"""What AutoRound wins back over rounding to nearest beside GPTQ, AWQ and HQQ, in perplexity of a small Llama.

The Llama of `language_methods`, trained on the reviews of IMDB3k (`--model FOLDER`: one that is trained already);
skipped where ../shared is absent. Weights of 3 bits by channel, and of 4 and 2 bits in groups of 32; the output layer
stays float. Changes of the mean loss in nats a token with 95 % intervals as in `language_methods`; seconds are those of
the processor, in one thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.transform.autoround import autoround
from tests.benchmarks.language_methods import SAMPLES, TESTED, figures, in_format, losses, methods, opened_in, reviews
from tests.benchmarks.record import report

FORMATS: dict[str, tuple[int, Any]] = {
    "3 bits, by channel": (3, "channel"), "4 bits, groups of 32": (4, "group"), "2 bits, groups of 32": (2, "group"),
}  # fmt: skip


def table(base: Graph, context: Context, data: dict[str, Any]) -> dict[str, Any]:
    """Format → method → figures; each method is compared with rounding in its own format."""
    split = load_split(EvaluateOptions(**data, split="test", limit=TESTED), context)
    others = {name: method for name, (_, rotated, method) in methods(context, data).items() if not rotated}

    def learn(graph: Graph) -> Graph:
        return autoround(graph, AutoroundOptions(**data, limit=SAMPLES), context)[0]

    rows: dict[str, Any] = {"float": figures(losses(base, split, context), None, 0.0)}
    for label, (bits, granularity) in FORMATS.items():
        element: Any = f"int{bits}"
        plain, found = ScaledElement(element, granularity, 32), dict[str, Any]()
        each = {
            plain: {n: others[n] for n in ("rounded", "gptq", "awq")} | {"autoround": learn},
            OffsetInteger(bits, granularity, 32): {"offset, rounded": others["rounded"], "hqq": others["hqq"]},
        }
        for fmt, tried in each.items():
            reference: Any = None
            for name, method in tried.items():
                start = time.process_time()
                graph = method(in_format(base, fmt, None, context))
                seconds = time.process_time() - start
                now = losses(graph, split, context)
                reference = now if reference is None else reference
                found[name] = figures(now, reference, seconds)
                print(label, name, found[name], file=sys.stderr, flush=True)
        rows[label] = found
    return rows


def main() -> None:
    """One table, or why there is none."""
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp())
    given = reviews(folder)
    found: Any = "skipped: the reviews are absent"
    if given:
        graph, context = opened_in(folder / "opened", given[0])
        found = table(graph, context, given[1])
    report("autoround", {"calibration_windows": SAMPLES, "tested_windows": TESTED, "reviews": found})


if __name__ == "__main__":
    main()
