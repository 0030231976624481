"""Trainings side by side, each with the threads of all processors: OpenMP's default spinning against that of workers.

Each process is timed alone and beside a second one, in turns; the ratios are of medians. Other programs on the machine
count as further processes, so measure on a quiet one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from espalier.passes.jobs.openmp import CHOSEN, yield_processors
from tests.benchmarks.record import report

STEPS, ROUNDS = 60, 3
VARIABLE = "GOMP_SPINCOUNT"


def train() -> float:
    """Seconds of some steps of a small convolutional network and a transformer layer."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    convolutions = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(32 * 256, 64), nn.ReLU(), nn.Linear(64, 10))  # fmt: skip
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    optimiser = torch.optim.SGD(convolutions.parameters(), 0.01)
    images, labels, tokens = torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,)), torch.randn(8, 32, 64)

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(convolutions(images), labels).backward()
        optimiser.step()
        layer(tokens).sum().backward()

    for _ in range(5):
        step()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return time.perf_counter() - begin


def seconds(environment: dict[str, str], processes: int) -> float:
    """The longest of `processes` trainings that begin at the same time."""
    command = [sys.executable, "-m", "tests.benchmarks.openmp_spin", "--train"]
    begun = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return max(float(process.communicate()[0]) for process in begun)


def main() -> None:
    """Print the figures."""
    if "--train" in sys.argv:
        print(train())
        return
    default = {k: v for k, v in os.environ.items() if k not in (*CHOSEN, "OMP_NUM_THREADS")}
    for name in CHOSEN:
        os.environ.pop(name, None)
    yield_processors()
    ours = {**default, VARIABLE: os.environ[VARIABLE]}
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for name, environment in (("default", default), ("ours", ours)):
            for count in (1, 2):
                found.setdefault((name, count), []).append(seconds(environment, count))
    medians = {key: statistics.median(times) for key, times in found.items()}
    figures: dict[str, Any] = {f"{name}_{count}_s": round(value, 2) for (name, count), value in medians.items()}
    figures |= {
        "alone": round(medians["ours", 1] / medians["default", 1], 3),
        "side_by_side": round(medians["ours", 2] / medians["default", 2], 3),
        "default_two_against_one": round(medians["default", 2] / medians["default", 1], 2),
        "ours_two_against_one": round(medians["ours", 2] / medians["ours", 1], 2),
        "least": {f"{name}_{count}": round(min(times), 2) for (name, count), times in found.items()},
    }
    report("openmp_spin", figures)


if __name__ == "__main__":
    main()
