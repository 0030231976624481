"""The worker's side of a job, with a pipe that is a list: its events, words from the window, interrupts."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from espalier.model.borders import reading
from espalier.model.errors import Interrupted, PassError, ProjectError
from espalier.model.registry import PASSES
from espalier.model.sources.source import call_user_code
from espalier.passes.base import Cancelled
from espalier.passes.jobs.kinds import (
    Continue,
    Continued,
    Done,
    Event,
    Failed,
    Finish,
    LogLine,
    Pause,
    Paused,
    Progress,
    Ready,
    Started,
    Stopped,
)
from espalier.passes.jobs.serving import INTERRUPT, Channel, run_one, serve
from espalier.passes.plugins.plugins import load_plugin, unload_plugins
from tests.passes.toy_worker import Toy, handle


class Pipe:
    """What a Connection does, from lists; `asked` are the messages that wait."""

    def __init__(self, *asked: Any) -> None:
        self.asked = list(asked)
        self.sent: list[Any] = []
        self.broken = False

    def poll(self) -> bool:
        return bool(self.asked)

    def recv(self) -> Any:
        if not self.asked:
            raise EOFError
        return self.asked.pop(0)

    def send(self, value: Any) -> None:
        if self.broken:
            raise BrokenPipeError
        pickle.dumps(value)
        self.sent.append(value)


def served(*jobs: Any) -> list[Any]:
    pipe = Pipe(*jobs)
    serve(pipe, handle)  # type: ignore[arg-type]
    assert pipe.sent[0] == Ready()
    return pipe.sent[1:]


def ended(job: Toy, pipe: Pipe | None = None) -> Event:
    return run_one(job, Channel(pipe or Pipe()), handle)  # type: ignore[arg-type]


class SlowPipe(Pipe):
    """Each message comes when somebody asks for it a second time."""

    def __init__(self, *asked: Any) -> None:
        super().__init__(*asked)
        self.looks = 0

    def poll(self) -> bool:
        self.looks += 1
        return self.looks == 1 and bool(self.asked)


def test_a_job_starts_and_ends() -> None:
    assert served(Toy("echo", 3)) == [Started(), Done(3)]
    assert served(Toy("echo", 1), Toy("echo", 2)) == [Started(), Done(1), Started(), Done(2)]
    assert served() == []


def test_a_late_cancel_is_not_for_the_next_job() -> None:
    assert served(Toy("echo", 1), None, None, Toy("count", 2)) == [
        Started(), Done(1), Started(), Progress(1, 2, "step 1"), Progress(2, 2, "step 2"), Done(2)
    ]  # fmt: skip


def test_users_mistakes_keep_their_words() -> None:
    assert ended(Toy("fail", ("It cannot.", "Do otherwise.", "node"))) == Failed("It cannot.", "Do otherwise.", "node")


def test_bugs_come_with_their_traceback() -> None:
    event = ended(Toy("bug", "division"))
    assert isinstance(event, Failed) and event.message == "ZeroDivisionError: division" and event.hint
    assert "in_the_users_code" in event.details and "toy_worker.py" in event.details


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_nothing_escapes(kind: str) -> None:
    event = ended(Toy("raise", kind))
    assert isinstance(event, Failed) and event.message.startswith(f"{kind}: out") and event.details


def test_lack_of_memory_has_words_of_its_own() -> None:
    event = ended(Toy("raise", "MemoryError"))
    assert isinstance(event, Failed) and "memory" in event.message and not event.details


def test_long_messages_are_cut() -> None:
    event = ended(Toy("bug", "x" * 5000))
    assert isinstance(event, Failed) and len(event.message) < 600 and "x" * 5000 in event.details


def test_prints_become_lines() -> None:
    """Of both streams; the last needs no end."""
    lines = [LogLine(t) for t in ("hello", "world", "to the other stream", "no line")]
    assert served(Toy("print", "hello\n\nworld  ")) == [Started(), *lines, Done("printed")]


def test_cancelling_stops_at_the_next_progress() -> None:
    pipe = Pipe(None)
    assert ended(Toy("count", 3), pipe) == Stopped() and pipe.sent == [] and pipe.asked == []


def test_progress_is_thinned_but_its_end_is_told() -> None:
    pipe = Pipe()
    ended(Toy("count", 5000), pipe)
    assert pipe.sent[0] == Progress(1, 5000, "step 1") and pipe.sent[-1] == Progress(5000, 5000, "step 5000")
    assert len(pipe.sent) < 500


def test_a_closed_pipe_ends_the_worker() -> None:
    pipe = Pipe(Toy("echo", 1))
    pipe.broken = True
    serve(pipe, handle)  # type: ignore[arg-type]
    assert pipe.sent == []


def test_results_that_cannot_be_sent_are_failures() -> None:
    sent = served(Toy("unsendable"), Toy("echo", 2))
    assert [type(e) for e in sent] == [Started, Failed, Started, Done]
    assert "cannot pickle this" in sent[1].message and sent[1].hint


def test_a_pause_waits_for_a_word() -> None:
    pipe = Pipe(Pause(), Pause(), Continue())
    assert ended(Toy("count", 1), pipe) == Done(1)
    assert pipe.sent == [Progress(1, 1, "step 1")]  # taken back before anybody waited
    for word, end in ((Continue(), Done(1)), (Finish(), Done(1)), (None, Stopped())):
        slow = SlowPipe(Pause(), word)
        assert ended(Toy("count", 1), slow) == end
        assert slow.sent == [Paused()] + ([Continued(), Progress(1, 1, "step 1")] if word else [])


@pytest.mark.skipif(INTERRUPT is None, reason="this system has no such signal")
def test_an_import_is_not_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is half imported would stay so for as long as the worker lives."""
    (tmp_path / "half.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    channel, before = Channel(Pipe()), signal.getsignal(signal.SIGUSR1)  # type: ignore[arg-type]
    signal.signal(signal.SIGUSR1, channel.interrupt)
    try:
        channel.working = True
        assert importlib.import_module("half").whole
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
        sys.modules.pop("half", None)


@pytest.fixture
def interruptible() -> Iterator[Channel]:
    """A channel that hears this process's interrupts."""
    if INTERRUPT is None:
        pytest.skip("this system has no such signal")
    channel, before = Channel(Pipe()), signal.getsignal(INTERRUPT)  # type: ignore[arg-type]
    signal.signal(INTERRUPT, channel.interrupt)
    yield channel
    signal.signal(INTERRUPT, before)


def sleeps() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(1)


def reads() -> None:
    with reading("a.safetensors", ProjectError, "is damaged", "Open another."):
        sleeps()


def calls_the_users() -> None:
    call_user_code(sleeps, Path("net.py"), "make()")


@pytest.mark.parametrize("work", [sleeps, reads, calls_the_users])
def test_a_job_that_is_broken_off_is_no_damaged_file(interruptible: Channel, work: Callable[[], None]) -> None:
    """Readers make an error of whatever is raised in them, but not of the end of a cancelled job."""
    assert run_one(None, interruptible, lambda job, channel: work()) == Stopped()


def test_cancelled_is_a_users_error_too() -> None:
    with pytest.raises(Cancelled):
        Channel(Pipe(None)).progress(0, 1, "x")  # type: ignore[arg-type]
    assert issubclass(Cancelled, Exception) and not issubclass(Cancelled, PassError)


def test_a_job_that_a_plugin_fails_names_its_line(tmp_path: Path) -> None:
    (file := tmp_path / "serving_plugin.py").write_text(
        "from espalier.passes.base import NoOptions, Report, analysis\n"
        "@analysis('serving_faulty', 'Faulty', NoOptions)\n"
        "def serving_faulty(graph, options, context):\n"
        "    return graph, Report('serving_faulty', (), {'a': 1 // 0})\n"
    )
    load_plugin(file)
    try:
        run = PASSES.get("serving_faulty").run
        failed = run_one(None, Channel(Pipe()), lambda job, channel: run(None, None, None))  # type: ignore[arg-type]
    finally:
        unload_plugins()
    assert isinstance(failed, Failed) and "serving_plugin.py raised ZeroDivisionError" in failed.message
    assert failed.message.endswith("(line 4).") and "Correct the file" in failed.hint and failed.details


def test_a_job_that_prepares_its_pauses_sees_a_pause_between_two_calls() -> None:
    """A training writes its checkpoint before it waits, also if the pause arrives just after it looked."""
    pipe = Pipe()
    channel = Channel(pipe)  # type: ignore[arg-type]
    assert not channel.paused()
    pipe.asked = [Pause()]
    channel.progress(1, 9, "training")
    assert Paused() not in pipe.sent and channel.paused()
    pipe.asked, pipe.poll = [Continue()], lambda: False  # type: ignore[method-assign]
    channel.progress(2, 9, "training")
    assert pipe.sent.count(Paused()) == 1 and not channel.paused()

    channel.begin()  # a job that never looks waits at once
    pipe.asked = [Pause(), Continue()]
    pipe.poll = lambda: len(pipe.asked) > 1  # type: ignore[method-assign]
    channel.progress(3, 9, "evaluating")
    assert pipe.sent.count(Paused()) == 2
