"""Jobs about kernels, which are of the machine and of no document. No torch: the window makes them."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request


@dataclass(frozen=True, slots=True)
class LabJob:
    """List the kernels and what of this machine can run them; the result is a Lab."""


@dataclass(frozen=True, slots=True)
class KernelsJob:
    """Measure kernels. First comes the Results without rows as Found, then the ceilings and the rows, one by one.

    Its result: the number of the size to go on with where it was asked to make room, and 0 where all is measured;
    `first` and `limits` go on.
    """

    request: Request
    first: int = 0
    limits: Ceilings | None = None


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """Measure what answers one of the kernels' questions: Rows, Facts and Ceilings come as Found, one by one."""

    question: str
    device: str = "cpu"


KernelJob = LabJob | KernelsJob | AnswerJob
KERNEL_JOBS = (LabJob, KernelsJob, AnswerJob)
