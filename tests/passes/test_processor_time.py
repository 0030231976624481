"""What a job tells of the time that it took: that of the processor, whatever else the machine does."""

from __future__ import annotations

import time
from typing import Any

from espalier.passes.jobs.kinds import Done
from espalier.passes.jobs.serving import Channel, run_one


class Pipe:
    """Nobody at the other end."""

    def poll(self) -> bool:
        """Nothing was said."""
        return False

    def send(self, value: Any) -> None:
        """Nobody listens."""


def test_a_job_tells_its_processor_time_not_that_of_the_clock() -> None:
    def work(job: str, channel: Channel) -> None:
        _burn(0.2)  # such as the loading of data
        channel.progress(0, 2, "steps")
        time.sleep(0.4)  # such as a machine that is busy
        _burn(0.05)

    channel = Channel(Pipe())  # type: ignore[arg-type]
    channel.begin()
    event = run_one("job", channel, work)
    assert isinstance(event, Done) and 0.05 <= event.seconds < 0.15


def _burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
