"""A worker without torch whose jobs misbehave on demand, for the tests of the job runner."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from espalier.model.errors import PassError
from espalier.passes.jobs.kinds import LogLine, PluginJob
from espalier.passes.jobs.serving import Channel, serve

PLACES: list[Path] = []


@dataclass(frozen=True)
class Toy:
    """What to do, and with what."""

    verb: str
    value: Any = None


class Poison:
    """Goes through a pipe, but cannot be read at the other end."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_raise, ())


def _raise() -> None:
    raise ModuleNotFoundError("No module named 'plug_in_of_the_worker'")


class Unsendable:
    """Cannot be sent."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("cannot pickle this")


def handle(job: Toy | PluginJob, channel: Channel) -> Any:
    """Do as told; plug-ins are remembered, or kill the worker."""
    if isinstance(job, PluginJob):
        if job.places[0].name == "deadly":
            os._exit(5)
        if job.places[0].name == "slow":
            do_patient(60, channel)
        PLACES.extend(job.places)
        return ()
    return getattr(sys.modules[__name__], f"do_{job.verb}")(job.value, channel)


def do_echo(value: Any, channel: Channel) -> Any:
    return value


def do_count(value: int, channel: Channel) -> int:
    for i in range(value):
        channel.progress(i + 1, value, f"step {i + 1}")
    return value


def do_print(value: str, channel: Channel) -> str:
    print(value)  # noqa: T201
    print("to the other stream", file=sys.stderr)  # noqa: T201
    sys.stdout.write("no line")
    return "printed"


def do_train(value: float, channel: Channel) -> str:
    """Tells a figure and works on until it is asked for what it has."""
    channel.progress(0, 0, "begun")
    channel.metric("loss", 1, value)
    while not channel.enough():
        time.sleep(0.01)
    return "kept"


def do_patient(value: float, channel: Channel) -> None:
    """Works for long, and asks whether to stop."""
    channel.progress(0, 0, "begun")
    until = time.monotonic() + value
    while time.monotonic() < until:
        channel.progress(0, 0, "working")
        time.sleep(0.01)


def do_bereft(value: str, channel: Channel) -> None:
    """Works until its file is gone, and never asks whether to stop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    channel.progress(1, 1, "begun")
    while True:
        Path(value).read_bytes()
        time.sleep(0.001)


def do_deaf(value: float, channel: Channel) -> None:
    """Works for long, and hears nothing, as one operation of a library does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    channel.progress(1, 1, "begun")
    time.sleep(value)


def do_busy(value: float, channel: Channel) -> None:
    """Works for long in many operations, and never asks whether to stop."""
    channel.progress(1, 1, "begun")
    until = time.monotonic() + value
    while time.monotonic() < until:
        sum(range(1000))


def do_importing(value: str, channel: Channel) -> str:
    """Imports a module for a second, without one long operation."""
    channel.progress(1, 1, "begun")
    sys.path.insert(0, value)
    from slowly import whole  # pyright: ignore

    return whole


class _Slow(list[int]):
    """A list whose length is a long computation in Python."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __len__(self) -> int:
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            sum(range(1000))
        return super().__len__()


REGISTERED: list[Any] = []


def do_registering(value: float, channel: Channel) -> list[int]:
    """Takes what numba has registered anew, as each compilation does; `value`: the seconds that it takes."""
    from numba.core.utils import stream_list

    if not REGISTERED:
        REGISTERED.append(stream_list(_Slow(value)))
    channel.progress(1, 1, "begun")
    return list(next(REGISTERED[0]))


def do_talkative(value: float, channel: Channel) -> None:
    """As busy, but for long messages."""
    channel.progress(1, 1, "begun")
    until = time.monotonic() + value
    while time.monotonic() < until:
        channel.send(LogLine("x" * 100_000))


def do_fail(value: tuple[str, str, str | None], channel: Channel) -> None:
    raise PassError(*value)


def do_bug(value: str, channel: Channel) -> None:
    def in_the_users_code() -> None:
        raise ZeroDivisionError(value)

    in_the_users_code()


def do_raise(value: str, channel: Channel) -> None:
    raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt, "MemoryError": MemoryError,
           "GeneratorExit": GeneratorExit}[value]("out")  # fmt: skip


def do_exit(value: int, channel: Channel) -> None:
    os._exit(value)


def do_die(value: int, channel: Channel) -> None:
    channel.progress(1, 1, "dying")
    os.kill(os.getpid(), signal.Signals(value))
    time.sleep(60)


def do_done_and_die(value: Any, channel: Channel) -> None:
    from espalier.passes.jobs.kinds import Done

    channel.send(Done(value))
    os._exit(1)


def do_poison(value: Any, channel: Channel) -> Poison:
    return Poison()


def do_unsendable(value: Any, channel: Channel) -> Unsendable:
    return Unsendable()


def do_places(value: Any, channel: Channel) -> list[Path]:
    return list(PLACES)


def do_pid(value: Any, channel: Channel) -> int:
    return os.getpid()


def late_entry(pipe: Connection) -> None:
    """The same, after a second in which it loads what a worker needs."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        time.sleep(0.01)
    serve(pipe, handle)


def entry(pipe: Connection) -> None:
    """Where the spawned process begins."""
    serve(pipe, handle)
