"""Jobs about kernels; they belong to the machine, not to a document. Without torch: the window creates them."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.request import Request


@dataclass(frozen=True, slots=True)
class LabJob:
    """List the kernels and the devices of this machine that can run them; the result is a Lab."""


@dataclass(frozen=True, slots=True)
class KernelsJob:
    """Measure kernels. Sends Results without rows, then the ceilings and the rows one by one, as PartialResult.

    The result is the index of the next size if the job yielded, 0 if all sizes are measured. `first` and `limits`
    continue a job that yielded.
    """

    request: Request
    first: int = 0
    limits: Ceilings | None = None


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """Run the measurements of one of the kernels' questions; sends Rows, Facts and Ceilings as PartialResult."""

    question: str
    device: str = "cpu"


KernelJob = LabJob | KernelsJob | AnswerJob
KERNEL_JOBS = (LabJob, KernelsJob, AnswerJob)
