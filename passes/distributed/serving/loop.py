"""The loop that answers requests in batches: alone, or as rank 0, which tells the other ranks what to run."""

from __future__ import annotations

import bisect
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.passes.distributed.serving.answers import Answers
from espalier.passes.distributed.serving.load import MOST, Load, Samples
from espalier.passes.distributed.step import results_of

if TYPE_CHECKING:
    from torch import Tensor

Inputs = dict[str, "Tensor"]
PULSE = 0.5  # seconds after which ranks that wait for a batch hear that there is none
NONE, END = 0, -1  # in place of the number of samples


@dataclass(frozen=True, slots=True)
class Queue:
    """The requests of a load that have no answer yet."""

    load: Load
    answers: Answers
    arrivals: Sequence[float]

    def ready(self) -> int:
        """Number of requests for the next batch, END after the last one."""
        done, load = self.answers.answered, self.load
        if self.arrivals:
            arrived = bisect.bisect(self.arrivals, time.monotonic() - self.answers.begin)
            return END if done == len(self.arrivals) else min(load.batch_size, arrived - done)
        if load.requests:
            return min(load.batch_size, load.requests - done) or END
        over = self.answers.last - self.answers.begin >= load.seconds
        return END if over else min(load.batch_size, MOST - done) or END

    def pause(self) -> float:
        """Seconds until the next request arrives, at most those of a pulse."""
        due = self.answers.begin + self.arrivals[self.answers.answered]
        return min(PULSE, max(0.0, due - time.monotonic()))


def serve(
    queue: Queue, samples: Samples, model: Callable[..., Any], device: str,
    send: Callable[[int, Inputs], None] = lambda count, inputs: None,
) -> None:  # fmt: skip
    """Answer all requests. `send` gives each batch to the other ranks."""
    answers = queue.answers
    while (count := queue.ready()) != END:
        if count == NONE:
            pause = queue.pause()
            time.sleep(pause)
            if pause == PULSE:
                send(NONE, {})
            continue
        begin = time.monotonic()
        inputs = samples.batch(answers.answered, count, device)
        send(count, inputs)
        answers.add(count, begin, answer(model, inputs))
    send(END, {})


def answer(model: Callable[..., Any], inputs: Inputs) -> list[Tensor]:
    """The results of a batch, in the memory of the host."""
    import torch

    with torch.no_grad():
        return [t.cpu() for t in results_of(model(**inputs))]


def warm_up(load: Load, samples: Samples, model: Callable[..., Any], device: str) -> None:
    """Run batches of each size once, since the first run of a size takes longer."""
    for size in sorted({samples.size(n + 1) for n in range(load.batch_size)}, reverse=True):
        answer(model, samples.batch(0, size, device))


def serve_by_ranks(
    load: Load, samples: Samples, model: Callable[..., Any], device: str, answers: Answers, restart: int
) -> None:
    """Answer all requests of a load as one of the ranks of the process group."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()

    def told(count: int) -> int:
        header = torch.tensor([count], device=device)
        dist.broadcast(header, 0)
        return int(header.item())

    def send(count: int, inputs: Inputs) -> None:
        told(count)
        share(inputs)

    def share(inputs: Inputs) -> None:
        for part in samples.parts(inputs) if inputs else ():
            dist.broadcast(part, 0)

    warm_up(load, samples, model, device)
    dist.barrier()
    if rank == load.kill_rank and not restart:
        timer = threading.Timer(load.after, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
    if rank == 0:
        answers.start(restart)
        serve(Queue(load, answers, load.arrivals()), samples, model, device, send)
        return
    while (count := told(NONE)) != END:
        if count != NONE:
            inputs = samples.empty(count, device)
            share(inputs)
            answer(model, inputs)
