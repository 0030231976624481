"""Links between ranks on this machine: fitted to timed collectives, and stored in the program's own state folder."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from espalier.model.borders import read_bytes, reading
from espalier.model.document.codec import decode
from espalier.model.errors import EspalierError, FileError, OptionsError, PassError
from espalier.model.files import check_target, explained, write_private
from espalier.model.private import own_folder, private_folder
from espalier.passes.sharding.collectives import Collective, Kind

FILE, MOST_BYTES = "links.json", 1 << 20
TINY = 1e-6  # share of the longest timing that its bytes take at least
AGAIN = "Measure this machine again."


@dataclass(frozen=True, slots=True)
class Timing:
    """The median seconds of a collective with which each of `ranks` ranks passes in `bytes`."""

    kind: Kind
    bytes: int
    seconds: float
    ranks: int

    @property
    def parts(self) -> tuple[float, float]:
        """How often the model counts a latency, and the bytes that it counts at the rate."""
        found = Collective(self.kind, 0, self.ranks, self.bytes, self.bytes)
        return found.messages, found.sent()


LATEST = 1 << 34  # seconds since 1970, in the year 2514: `time` takes no more everywhere


@dataclass(frozen=True, slots=True)
class Fit:
    """`latency`: seconds per message, `rate`: bytes per second. By which factor timings differ from that: of the mean
    square of logarithms (`factor`), and the largest (`worst`)."""

    latency: float
    rate: float
    factor: float
    worst: float

    def seconds(self, timing: Timing) -> float:
        """What the model says for a timing."""
        messages, sent = timing.parts
        return messages * self.latency + sent / self.rate


@dataclass(frozen=True, slots=True)
class Links(Fit):
    """A fit with the machine and the circumstances in which it was measured; `time` in seconds since 1970."""

    backend: str
    ranks: int
    threads: int
    time: float
    cores: int
    torch: str
    host: str

    @property
    def when(self) -> str:
        """The local time of the measurement."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.time))

    @property
    def about(self) -> str:
        """When and between what they were measured, and how well the model fits."""
        return (f"links measured on {self.when} between {self.ranks} processes over {self.backend}; timings differ "
                f"from the fit by a factor of {self.factor:.2f}, the worst by {self.worst:.2f}")  # fmt: skip


def fit(timings: Sequence[Timing]) -> Fit:
    """The latency and the rate, neither negative, of least squares of logarithms; raises PassError.

    Logarithms: the smallest sizes have the latency and the largest the rate, and all count alike.
    """
    import numpy as np
    from scipy.optimize import least_squares, nnls

    times = np.array([t.seconds for t in timings], float)
    if len(times) < 2 or not (np.isfinite(times).all() and (times > 0).all()):
        raise PassError("The timings of collectives cannot be fitted.", AGAIN)
    parts = np.array([t.parts for t in timings], float)
    scale = np.array([1 / times.min(), parts[:, 1].max() / times.max()])  # both near 1, for the solver
    scaled = parts * [1 / scale[0], 1 / scale[1]]
    first, _ = nnls(scaled / times[:, None], np.ones(len(times)))
    found = least_squares(lambda x: np.log(scaled @ x / times), np.maximum(first, 1e-9), bounds=(0.0, np.inf))
    latency, per_byte = (found.x / scale).tolist()
    off = found.fun
    if not per_byte > TINY * times.max() / parts[:, 1].max():
        raise PassError("The times of collectives do not grow with their bytes, so links have no rate.",
                        "Measure again while the machine has less to do.")  # fmt: skip
    return Fit(latency, 1 / per_byte, float(np.exp(np.sqrt(np.mean(off**2)))), float(np.exp(np.abs(off).max())))


def described(found: Fit, backend: str, ranks: int, threads: int) -> Links:
    """A fit as one of this machine, of now."""
    return Links(**asdict(found), backend=backend, ranks=ranks, threads=threads, time=time.time(), **_machine())


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count() or 1, "torch": version("torch"), "host": platform.node()}


# -- stored


def check_store() -> None:
    """Raise FileError if links cannot be stored, before they are measured."""
    path = _path()
    with explained(path):
        private_folder(path.parent)
    check_target(path)


def store_links(links: Links) -> None:
    """Store the links of this machine over one backend; raises FileError."""
    check_store()
    path = _path()
    try:
        stored = _read(path)
    except FileError:
        stored = {}
    stored[links.backend] = asdict(links)
    write_private(path, json.dumps(stored, indent=1) + "\n")


def stored_links(backend: str = "gloo") -> tuple[Links | None, str]:
    """The links of this machine over a backend, or None; and why stored ones are ignored, if they are."""
    path = _path()
    try:
        entry = _read(path).get(backend)
        if entry is None:
            return None, ""
        found = _links(entry)
    except EspalierError as error:
        return None, f"Measured links are ignored, as {path.name} is damaged ({error.message.rstrip('.')}). {AGAIN}"
    now = _machine()
    if other := [f"{name} {getattr(found, name)}" for name in now if getattr(found, name) != now[name]]:
        return None, f"Measured links are ignored, which are of another machine ({', '.join(other)}). {AGAIN}"
    return found, ""


def _path() -> Path:
    return own_folder("state") / FILE


def _read(path: Path) -> dict[str, Any]:
    """Backend → links as stored; raises FileError for a damaged file."""
    if not path.exists():
        return {}
    with reading(path, FileError, "cannot be read", AGAIN):
        return dict(json.loads(read_bytes(path, MOST_BYTES)))


def _links(entry: Any) -> Links:
    """Links from what a file says; raises OptionsError."""
    found: Links = decode(Links, entry)
    figures = (found.latency, found.rate, found.factor, found.worst, found.time)
    counts = (found.ranks >= 2, found.threads >= 1, found.cores >= 1, found.time <= LATEST)
    if not all(map(math.isfinite, figures)) or min(figures) < 0 or not found.rate or not all(counts):
        raise OptionsError("A figure of the links is out of range.", AGAIN)
    return found
