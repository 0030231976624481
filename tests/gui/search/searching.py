"""What tests of searches in the window share: the panel on a small model, a search that runs, trials that come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from espalier.app.features.search.panel import SearchPanel
from espalier.app.shell.window import Window
from espalier.passes.jobs.kinds import (
    JobInfo,
    PartialResult,
    SearchJob,
    Started,
    Stopped,
)
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.trial import Trial
from tests.gui.conftest import FakeRunner, open_small, small_project

DATA = EvaluateOptions(data="demo:small")
WIDTHS = tuple(f"integer(width={w})" for w in (2, 3, 4, 5, 6, 8))


def search_panel(window: Window, runner: list[FakeRunner]) -> SearchPanel:
    """The panel on a model that knows its data."""
    window.live.enabled = False
    open_small(window, runner, small_project("demo:small"))
    quiet(runner)
    window.show_dock("search")
    made = window.docks.panels["search"]
    assert isinstance(made, SearchPanel)
    made.setup.settle()  # the window of a test is not in sight
    return made


def quiet(runner: list[FakeRunner]) -> None:
    """End the jobs that other panels began by themselves."""
    while runner[-1].waiting:
        runner[-1].tell(runner[-1].waiting[0], Stopped())


def search_job(runner: list[FakeRunner]) -> JobInfo:
    """The search that waits or runs."""
    return next(j for j in runner[-1].waiting if isinstance(j.job, SearchJob))


def begin(panel: SearchPanel, runner: list[FakeRunner]) -> JobInfo:
    """Run the search that the form begins with; the worker has begun."""
    panel.setup.run()
    info = search_job(runner)
    runner[-1].tell(info, Started())
    return info


def trial(number: int, accuracy: float = 0.8, bits: float = 4.0, *, state: str = "complete", **more: object) -> Trial:
    """A trial that chose widths by its number."""
    params = {"fc1.weight": WIDTHS[number % 6], "fc2.weight": WIDTHS[(number + 1) % 6]}
    figures = {"accuracy": accuracy, "loss": 0.5, "weight_bits": bits, "size_bytes": 1000.0 * bits}
    done = state == "complete"
    return replace(
        Trial(number, state, params, (accuracy,) if done else (), figures if state != "failed" else {},  # type: ignore[arg-type]
              violation={"weight_bits<=4.5": bits - 4.5}, started=1e9 + number, seconds=2.0, origin="tpe"), **more
    )  # fmt: skip


def feed(runner: list[FakeRunner], info: JobInfo, trials: Sequence[Trial]) -> None:
    for each in trials:
        runner[-1].tell(info, PartialResult(each))
