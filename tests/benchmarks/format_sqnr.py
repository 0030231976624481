"""SQNR of all of BERT-base's weights under all formats at their usual widths, against one copy of them a format.

Everything counts: masks, fitted parameters, sums. The first run, which compiles or loads compiled loops, is told apart.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from espalier.model.opening import open_source
from espalier.passes.analysis.format_sqnr import FormatSqnrOptions, format_sqnr, usual_formats
from espalier.passes.base import Context
from tests.benchmarks.record import report

ROUNDS = 3


def main() -> None:
    """Print the figures as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_source("config:bert", Path(folder))
        heard: list[float] = []
        runs: list[float] = []
        processor: list[float] = []
        for _ in range(ROUNDS + 1):
            begin, busy = time.perf_counter(), time.process_time()
            context = Context(opened.store, found=lambda _, begin=begin: heard.append(time.perf_counter() - begin))
            _, found = format_sqnr(opened.project.graph, FormatSqnrOptions(), context)
            runs.append(time.perf_counter() - begin)
            processor.append(time.process_time() - busy)
        rows = len(found.rows)
        elements = sum(row["elements"] for row in found.rows)
        x, out = torch.zeros(elements), torch.zeros(elements)
        copies = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            out.copy_(x)
            copies.append(time.perf_counter() - begin)
    formats = len(usual_formats())
    figures = {"weights": rows, "formats": formats, "elements": elements, "first_s": round(runs[0], 2),
               "s": round(min(runs[1:]), 2), "processor_s": round(min(processor[1:]), 2),
               "first_row_s": round(min(heard[rows::rows]), 2),
               "ratio_to_copies": round(min(runs[1:]) / (formats * min(copies)), 2)}  # fmt: skip
    report("format_sqnr", figures)


if __name__ == "__main__":
    main()
