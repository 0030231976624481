"""Starts the ranks of a job on this machine, waits for them, and ends them in every case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from espalier.model.errors import JobError
from espalier.model.trust import NAMED, factory_file, wanted_code
from espalier.passes.base import Context
from espalier.passes.distributed.job import Source
from espalier.passes.distributed.launcher import ENDED

START = 120.0  # seconds that ranks have to find one another
POLL = 0.1
LOG_BYTES, LINES, LINE = 1 << 14, 3, 200  # of a rank's standard error that are quoted: at most so much
GRACE = 10  # seconds after which a rank that ends was killed by torchrun, since another one had failed


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int, source: Source | None) -> dict[str, str]:
    """The environment of ranks: module path, threads, and the code that this process allowed for the source."""
    given = dict(os.environ)
    root = Path(__file__).parents[3] if "espalier" in __file__ else Path(__file__).parents[2]
    paths = [p for p in sys.path if p and Path(p, "espalier").exists()] or [str(root)]
    given["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [given.get("PYTHONPATH")])])
    given["PYTHONSAFEPATH"] = "1"  # the working folder may hold foreign modules
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        given[name] = str(threads)
    if source is not None and wanted_code(source.spec) is None and (file := factory_file(source.spec)) is not None:
        given[NAMED] = os.pathsep.join([*filter(None, [given.get(NAMED)]), str(file)])
    import socket

    if sys.platform == "linux" and any(name == "lo" for _, name in socket.if_nameindex()):
        given["GLOO_SOCKET_IFNAME"] = given["NCCL_SOCKET_IFNAME"] = "lo"
    options = [name for name in given if name.startswith("PET_")]  # torchrun's, as a cluster sets them
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", *options):
        given.pop(name, None)
    return given


@contextmanager
def _started(ranks: int, folder: Path, given: dict[str, str], restarts: int) -> Generator[subprocess.Popen[bytes]]:
    """The launcher's process; it and its ranks are killed at the end."""
    module = "espalier.passes.distributed.launcher"
    command = [sys.executable, "-m", module, str(ranks), str(folder), str(restarts)]
    given = {**given, "TMPDIR": str(folder)}  # what ranks leave goes with the job
    with (folder / "launcher.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=given, cwd=folder, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the ranks follow their parent
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def launch(
    ranks: int, folder: Path, given: dict[str, str], context: Context, start: float = START, restarts: int = 0,
    follow: Callable[[], None] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Run a job's ranks and return their reports, in order. Raises JobError naming the rank that failed.

    `restarts`: how many times they are started again after a failure. `follow` is called instead of a report of
    progress once all ranks have started.
    """
    begin = time.monotonic()
    with _started(ranks, folder, given, restarts) as process:
        while process.poll() is None:
            time.sleep(POLL)
            ready = sum((folder / f"started-{r}.json").exists() for r in range(ranks))
            done = sum((folder / f"report-{r}.json").exists() for r in range(ranks))
            if ready < ranks and time.monotonic() - begin > start and process.poll() is None:
                missing = ", ".join(str(r) for r in range(ranks) if not (folder / f"started-{r}.json").exists())
                text = f"Rank {missing} of {ranks} did not start within {start:g} s."
                raise JobError(text, "Use fewer ranks, or free memory and cores of this machine.")
            before = time.monotonic()
            if follow is not None and ready == ranks:
                follow()
            else:
                text = f"running on {ranks} ranks" if ready == ranks else "starting the ranks"
                context.progress(done if ready == ranks else ready, ranks, text)
            begin += time.monotonic() - before  # in which a paused job waits
        if process.returncode:
            raise failure_of(ranks, folder, process.returncode)
    return [json.loads((folder / f"report-{r}.json").read_text(encoding="utf-8")) for r in range(ranks)]


def failure_of(ranks: int, folder: Path, code: int) -> JobError:
    """Why a run failed: a signal, or a rank's own message, before others that lost their connection to it."""
    ended: dict[str, tuple[int, int]] = _read(folder / ENDED)
    files = sorted(folder.glob("failure-*.json"), key=lambda p: p.stat().st_mtime_ns)
    failures = {f.stem.partition("-")[2]: _read(f) for f in files}
    killed = {r: -number for r, (number, late) in ended.items() if number < 0 and r not in failures and late < GRACE}
    for rank, number in killed.items():
        if number != signal.SIGTERM:  # with which torchrun ends the others
            name = signal.Signals(number).name
            hint = "It may have been out of memory: use more ranks or smaller batches." if name == "SIGKILL" else ""
            said = _quoted(folder, rank) if name != "SIGKILL" else ""  # of which the rank knows nothing
            return JobError(f"Rank {rank} of {ranks} was ended by {name}{said}.", hint or "Start the run again.")
    for rank, failure in failures.items():
        if not failure.get("lost"):
            hint = failure["hint"] or "Run the model in one process first; its error is shown there."
            return JobError(f"Rank {rank} of {ranks} failed: {failure['message'].rstrip('.')}.", hint)
    if failures:
        return _lost(ranks, failures, [r for r, (number, _) in ended.items() if number < 0 and r not in failures])
    if ranked := ", ".join(f"rank {r} with exit code {number}" for r, (number, _) in ended.items()):
        said = _quoted(folder, next(iter(ended)))
        return JobError(f"A sharded run failed: {ranked}{said}.", "Use fewer ranks, or free memory of this machine.")
    if code < 0:
        return JobError(f"torchrun was ended by {signal.Signals(-code).name}.", "Start the run again.")
    lines = (folder / "launcher.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1][:200] if lines else f"exit code {code}"
    return JobError(f"torchrun did not start: {last.rstrip('.')}.", "Check that this machine allows local connections.")


def _quoted(folder: Path, rank: str) -> str:
    """The last lines that a rank wrote to standard error, at its last start, as the end of a message."""
    logs = sorted(folder.glob(f"logs/*/attempt_*/{rank}/stderr.log"), key=lambda p: int(p.parts[-3].rpartition("_")[2]))
    if not logs:
        return ""
    with logs[-1].open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    filled = [" ".join(line.split()) for line in lines if line.strip()]
    said = " / ".join(line[:LINE] for line in filled[-LINES:]).rstrip(".")
    return f"; its last lines: {said}" if said else ""


def _lost(ranks: int, failures: dict[str, dict[str, Any]], silent: list[str]) -> JobError:
    """All that failed lost their connection to another rank: one that is `silent` if there is any."""
    late = any("timed out" in f["message"].lower() for f in failures.values())
    names, hint = " or ".join(silent), "Free cores and memory of this machine, or raise the timeout of a run."
    if silent and late:
        return JobError(f"Rank {names} of {ranks} did not respond in time.", hint)
    if silent:
        return JobError(f"Rank {names} of {ranks} was ended by SIGTERM.", "Start the run again.")
    rank, failure = next(iter(failures.items()))
    return JobError(f"Rank {rank} of {ranks} lost its connection: {failure['message'].rstrip('.')[:200]}.", hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
