"""`worker`: joins a study on this machine, given its storage and its name."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, seconds, size
from espalier.app.commands.interrupts import ToldInterrupt, interruptible
from espalier.app.features.search.commands.storages import trying
from espalier.model.leftovers import scratch
from espalier.model.orphans import end_with_parent
from espalier.model.private import redacted
from espalier.passes.search.goals import wanted
from espalier.passes.search.storage import STORAGE_VARIABLE, damage_of, load_study, open_storage, study_names
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

DETAILS = """examples
  main.py worker --storage grpc://server:13000 --study mixed-precision
  main.py worker --storage journal:/shared/studies.journal --study mixed-precision --trials 20
  main.py worker --storage postgresql://me:secret@db/studies --study mixed-precision --timeout 3600
Any number may run, on any machines, and come and go: a trial whose worker is killed is queued again within a minute,
one that is stopped by Ctrl+C or SIGTERM (Slurm, Kubernetes) at once. The model comes from the path that it was
searched at, where there is one, else once through the storage into a cache (ESPALIER_CACHE); --project names another
copy, --data the data where they lie at another path here."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("--storage", metavar="URL", default=os.environ.get(STORAGE_VARIABLE), help="grpc://HOST:PORT, "
                        f"postgresql://…, journal:FILE (default: {STORAGE_VARIABLE} of the environment)")  # fmt: skip
    parser.add_argument("--study", metavar="NAME", help="the study (default: the only one there is)")
    parser.add_argument("--project", metavar="P.espalier", help="path of the model on this machine")
    parser.add_argument("--data", metavar="DATA", help="the data that trials are scored on, where they lie here")
    parser.add_argument(
        "--trials", type=int, default=0, metavar="N", help="end after N trials (default: all there are)"
    )
    parser.add_argument("--timeout", type=float, default=0.0, metavar="S", help="start no trial after S seconds")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="N", help="processor threads (default: as torch does)"
    )


def _run(arguments: Arguments, console: Console) -> Answer:
    from espalier.passes.search.fleet.memory import resident
    from espalier.passes.search.fleet.worker import PARENT, JoinOptions, WorkerState, join_plan, work

    _check(arguments)
    if os.environ.get(PARENT):
        end_with_parent(sys.stdin.fileno())
    if not arguments.storage:
        raise UsageError("--storage is missing.", f"Write worker --storage URL, or set {STORAGE_VARIABLE}.")
    with trying(arguments.storage, console):
        storage = open_storage(arguments.storage)
        name = arguments.study or _only(storage)
    if damage := damage_of(storage):
        console.note(damage)
    part = WorkerState(
        JoinOptions(arguments.storage, name, arguments.project, arguments.data, arguments.trials, arguments.timeout)
    )
    running: dict[int, Trial] = {}
    with scratch() as folder, interruptible():
        try:
            console.progress(0, 0, f"joining {name}")
            plan = join_plan(part.options, folder, console.progress, console.note, part)
            figures = wanted(plan.search.spec).figures
            _threads(arguments.threads)
            with contextlib.closing(work(plan, part, console.note)) as trials:
                for trial in trials:
                    _tell(trial, figures, running, console)
                    plan.context.store.flush(f"trial-{trial.number}-{len(part.ended)}")
        except KeyboardInterrupt:
            back = f" Trial {', '.join(map(str, running))} was given back." if running else ""
            message = f"Stopped after {_trials(len(part.ended))}.{back}"
            console.note(message)
            raise ToldInterrupt(message) from None
    took = time.monotonic() - part.begun
    data = {"study": name, "storage": redacted(arguments.storage), "ended": part.why or "as asked",
            "trials": [_row(t) for t in part.ended], "seconds": round(took, 3), "resident": resident()}  # fmt: skip
    return Answer(data, lambda: _lines(data, part.ended))


def _check(arguments: Arguments) -> None:
    for name in ("trials", "timeout", "threads"):
        if getattr(arguments, name) < 0:
            raise UsageError(
                f"--{name} is {getattr(arguments, name)}.", "It must be a number above 0, or 0 for no bound."
            )


def _only(storage: BaseStorage) -> str:
    names = study_names(storage)
    if len(names) != 1:
        there = f"There are {', '.join(names)}." if names else "Begin one with main.py search … --storage."
        raise UsageError(f"The storage has {len(names) or 'no'} studies; which?" if names else
                         "The storage has no study yet.", there)  # fmt: skip
    return load_study(storage, names[0]).study_name


def _threads(count: int) -> None:
    if count:
        import torch

        torch.set_num_threads(count)


def _tell(trial: Trial, figures: Iterable[str], running: dict[int, Trial], console: Console) -> None:
    """Print a line for each trial that ended here."""
    from espalier.passes.search.fleet.heartbeat import worker_name

    if trial.worker == worker_name() and trial.state == "running":
        running[trial.number] = trial
    elif running.pop(trial.number, None):
        console.note(f"trial {trial.number}: {words(trial, figures)}")


def words(trial: Trial, figures: Iterable[str]) -> str:
    """The result of a trial in one line, with some metrics."""
    took = f", {seconds(trial.seconds)}" if trial.seconds is not None else ""
    if trial.state != "complete":
        return f"{'lost' if trial.lost else trial.state}{took}: {trial.error}"
    metrics = ", ".join(f"{k.replace('_', ' ')} {cell(trial.figures.get(k))}" for k in figures)
    return f"{metrics}{took}{' (duplicate)' if trial.reused else ''}"


def _row(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "state": trial.state, "values": list(trial.values), "seconds": trial.seconds,
            "error": trial.error}  # fmt: skip


def _trials(count: int) -> str:
    return f"{count} trial{'' if count == 1 else 's'}"


def _lines(data: dict[str, Any], ended: list[Trial]) -> Iterable[str]:
    states = {s: sum(t.state == s for t in ended) for s in ("complete", "pruned", "failed")}
    counts = ", ".join(f"{n} {s}" for s, n in states.items() if n) or "none was left"
    ended_here = f"{_trials(len(ended))} ended here ({counts})"
    yield f"{data['study']}: {ended_here} in {seconds(data['seconds'])}; {data['ended']}."
    yield f"memory: {size(data['resident'])}"


COMMAND = Command("worker", "joins a study, from any machine", _arguments, _run, DETAILS)
