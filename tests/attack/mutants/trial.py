"""One mutant under limits of time and memory, and what came of it."""

from __future__ import annotations

import contextlib
import gc
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from espalier.model.errors import EspalierError
from tests.attack.mutants.calling import Failed
from tests.attack.mutants.kinds import Kind

SECONDS, MEGABYTES = 20.0, 500  # what a mutant may take
ROOM = 6 << 30  # bytes of memory beyond which there is none; the machine lives on
OUTCOMES = ("clear", "read", "exit 1", "over time", "over memory")


class OverTime(BaseException):
    """The time is over; no reader takes it for a fault of the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """`outcome`: one of OUTCOMES; `why`: the error, with the place in our code where it left a reader."""

    outcome: str
    why: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0


def tried(kind: Kind, seeds: list[Path], number: int, folder: Path) -> Found:
    """The mutant of a number, always the same, opened; what takes too long is opened twice, as much is made once."""
    found = _tried(kind, seeds, number, folder)
    return _tried(kind, seeds, number, folder) if found.outcome == "over time" else found


def _tried(kind: Kind, seeds: list[Path], number: int, folder: Path) -> Found:
    rng = Random(f"{kind.name} {number}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = kind.mutant(seeds, folder, rng)
    begin, before = time.monotonic(), _peak_reset()
    outcome, why = _outcome(lambda: kind.act(path, rng))
    seconds, grown = time.monotonic() - begin, _peak() - before
    if seconds >= SECONDS:
        return Found("over time", why, seconds, grown)
    return Found(outcome if grown < MEGABYTES else "over memory", why, seconds, grown)


def _outcome(act: Callable[[], None]) -> tuple[str, str]:
    try:
        with _timed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act()
    except EspalierError as error:
        clear = error.message.strip() and error.hint.strip() and "Traceback" not in error.message
        return ("clear", "") if clear else ("exit 1", f"no two sentences: {str(error)[:200]}")
    except OverTime as error:
        return "over time", _place(error)
    except KeyboardInterrupt:
        raise
    except Failed as error:
        return "exit 1", _place(error.__cause__ or error)
    except BaseException as error:  # noqa: BLE001
        return "exit 1", _place(error)
    return "read", ""


@contextlib.contextmanager
def _timed() -> Generator[None]:
    def over(*_: Any) -> None:
        raise OverTime

    held = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, held)


def _place(error: BaseException) -> str:
    """What was raised, and the last lines of our own code on the way to it."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if _is_own(f.filename)]
    lines = " < ".join(f"{'/'.join(Path(f.filename).parts[-3:])}:{f.lineno}" for f in reversed(own[-3:]))
    return f"{type(error).__name__}: {str(error)[:100]!r} at {lines}"


def _is_own(file: str) -> bool:
    return any(f"/{part}/" in file for part in ("model", "passes", "kernels", "verilog", "app")) and ".venv" not in file


# -- memory


def limit_memory() -> None:
    """What a mutant asks for beyond that is refused, as on a machine that has no more."""
    used = _status("VmData") << 10
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, hard))


def _status(field: str) -> int:
    """Kilobytes, from Linux's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def _peak_reset() -> float:
    """Megabytes that are held now; the peak is counted from here."""
    gc.collect(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS") / 1024


def _peak() -> float:
    return _status("VmHWM") / 1024
