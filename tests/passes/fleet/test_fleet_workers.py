"""Real workers on real storages: one is killed in a trial, one is stopped in one, and nothing is lost or run twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from espalier.passes.search.fleet.claim import is_spare
from espalier.passes.search.fleet.heartbeat import BEAT, LOST, RETRY
from espalier.passes.search.fleet.serve import serve
from espalier.passes.search.storage import journal_url, load_study, open_storage, study_names
from tests.passes.fleet.fleet_cases import Cluster, cluster, postgres, server
from tests.passes.fleet.warm import Command, Warm
from tests.patience import until

__all__ = ["cluster", "postgres", "server"]
pytestmark = pytest.mark.slow
TRIALS = 10
SPEC = f"""
study = "nap"
goals = ["accuracy"]
within = ["nap<=9"]
trials = {TRIALS}
sampler = "random"
[[space]]
ports = ["weight", "data_in"]
values = "integer(width=2|3|4|5|6|7|8|9|10)"
[score]
data = "demo:digits"
limit = 60
"""
# A cost that takes its time, so that trials can be met while they run; with a gate, until it is opened, but for the
# first FREE of a process.
NAP = """
import os, time
from pathlib import Path
from espalier.passes.costs.base import COSTS, Cost

CALLS = []

def measure(graph, options, context):
    time.sleep(0.5)
    CALLS.append(1)
    if len(CALLS) <= int(os.environ.get("FREE", 0)):
        return 1.0
    Path(f"naps-{os.getpid()}").touch()
    while "GATE" in os.environ and not Path(os.environ["GATE"]).exists():
        time.sleep(0.05)
    return 1.0

COSTS.add("nap", Cost("nap", "Nap", "s", "low", "sleeps", None, measure=measure))
"""


WARM: list[Warm] = []
STARTED: list[Command] = []


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The process that forks all others."""
    WARM.append(Warm(tmp_path_factory.mktemp("warm")))
    yield
    WARM.pop().close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A spec and a plug-in; what was started there ends with the test."""
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "nap.py").write_text(NAP)
    yield tmp_path
    while STARTED:
        process = STARTED.pop()
        process.send_signal(signal.SIGKILL)
        process.communicate()


def start(folder: Path, *words: str, gate: bool = False, free: int = 0) -> Command:
    """What main.py does, in a process and a group of its own."""
    threads = {f"{n}_NUM_THREADS": "1" for n in ("OMP", "NUMBA")}
    own = {"ESPALIER_CACHE": str(folder / "cache"), **({"GATE": str(folder / "go"), "FREE": str(free)} if gate else {})}
    command = [*words, "--plugin", str(folder / "nap.py")]
    STARTED.append(WARM[0].begin(command, folder, {**os.environ, **threads, **own}))
    return STARTED[-1]


def study_at(url: str, name: str = "nap") -> optuna.Study | None:
    """The study, once it is there."""
    storage = open_storage(url)
    return load_study(storage, name) if name in study_names(storage) else None


def runs_in(folder: Path, study: optuna.Study, process: Command) -> int | None:
    """The trial that a process is in the midst of: it naps."""
    assert process.poll() is None, process.communicate()
    if not (folder / f"naps-{process.pid}").exists():
        return None
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    mine = (t for t in running if t.user_attrs.get(BEAT, [0, 0, 0])[2] == process.pid)
    return next((t.number for t in mine if len(t.params) == 3), None)


def end(process: Command, code: int = 0) -> str:
    """What it said; the exit code must be this."""
    out, told = process.communicate()
    assert process.returncode == code, told
    return out + told


def lost_in(study: optuna.Study) -> list[int]:
    """The trials that were lost: all that were asked for are complete, and each lost one was run again once."""
    trials = [t for t in study.trials if not is_spare(t)]
    complete = [t for t in trials if t.state == TrialState.COMPLETE]
    lost = [t for t in trials if t.user_attrs.get(LOST)]
    asked = [t for t in complete if not t.user_attrs.get("reused")]  # for a duplicate another is run
    assert len(complete) + len(lost) == len(trials) and len(asked) == TRIALS
    for one in lost:
        again = [t for t in complete if t.user_attrs.get(RETRY) == [one.number]]
        assert len(again) == 1 and again[0].params == one.params
    return [t.number for t in lost]


@pytest.mark.sampled(0.34)
@pytest.mark.parametrize("kind", ["journal", "server", "postgres"])
def test_workers_die_and_stop(kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
    url = f"journal:{folder}/study.journal" if kind == "journal" else request.getfixturevalue(kind)
    open_storage(url)  # two that make the tables of a new database at once get in each other's way
    first = start(folder, "search", "demo:digits-mlp", "spec.toml", "--storage", url, "--json", gate=True)
    study = until(lambda: study_at(url))
    until(lambda: "project" in study.user_attrs)
    workers = [start(folder, "worker", "--storage", url, "--study", "nap", gate=True) for _ in range(2)]
    killed = until(lambda: runs_in(folder, study, workers[0]))
    workers[0].send_signal(signal.SIGKILL)
    end(workers[0], -signal.SIGKILL)
    stopped = until(lambda: runs_in(folder, study, workers[1]))
    workers[1].send_signal(signal.SIGINT)
    assert f"Trial {stopped} was given back" in end(workers[1], 130)
    (folder / "go").touch()
    told = json.loads(end(first).partition("\n")[0])
    assert lost_in(study) == [killed]
    assert study.trials[stopped].state == TrialState.COMPLETE
    assert not any(stopped in t.user_attrs.get(RETRY, []) for t in study.trials)
    assert told["complete"] == sum(t.state == TrialState.COMPLETE for t in study.trials)
    assert len({t["worker"] for t in told["trials"]}) >= 2  # what was given back bears the name of who ended it


@pytest.fixture(params=["server", "postgres", "both"])
def away(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[str, Callable[[], None], Callable[[], None]]]:
    """A storage, how it goes, and how it comes back: a server, a database, or the database behind a server."""
    if request.param == "server":
        behind = f"journal:{folder}/served.journal"
        served = [serve(behind, "127.0.0.1", 0)]
        port = served[0][1]
        yield (f"grpc://127.0.0.1:{port}", lambda: served.pop()[0].stop(None).wait(),
               lambda: served.append(serve(behind, "127.0.0.1", port)))  # fmt: skip
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        served = [serve(cluster.url, "127.0.0.1", 0)] if request.param == "both" else []
        yield f"grpc://127.0.0.1:{served[0][1]}" if served else cluster.url, cluster.stop, cluster.start
    for held, _ in served:
        held.stop(None).wait()


@pytest.mark.sampled(0.34)
def test_a_storage_that_goes_away_costs_no_trial(
    away: tuple[str, Callable[[], None], Callable[[], None]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers end what they measure while it is away, for longer than who says nothing counts as alive."""
    monkeypatch.setenv("ESPALIER_BEAT", "1")
    url, go, come_back = away
    name = f"away-{folder.name}"
    words = ("search", "demo:digits-mlp", "spec.toml", "--study", name, "--storage", url)
    open_storage(url)
    first = start(folder, *words, gate=True, free=1)
    study = until(lambda: study_at(url, name))
    until(lambda: "project" in study.user_attrs)
    workers = [start(folder, "worker", "--storage", url, "--study", name, gate=True) for _ in range(2)]
    running = {until(lambda p=p: runs_in(folder, study, p)): p for p in (first, *workers)}
    go()
    (folder / "go").touch()
    time.sleep(8)
    come_back()
    told = [end(process) for process in (first, *workers)]
    assert all("does not respond since" in text and "responds again after" in text for text in told)
    assert lost_in(study) == [] and len(running) == 3
    for number, process in running.items():
        trial = study.trials[number]
        assert trial.state == TrialState.COMPLETE and trial.user_attrs["worker"].endswith(f":{process.pid}")


def test_a_killed_search_goes_on(folder: Path) -> None:
    words = ("search", "demo:digits-mlp", "spec.toml", "-o", "best.espalier")
    first = start(folder, *words, gate=True, free=3)
    url = journal_url(folder / "best.espalier.journal")
    study = until(lambda: (folder / "best.espalier.journal").exists() and study_at(url))
    number = until(lambda: runs_in(folder, study, first))
    first.send_signal(signal.SIGKILL)
    end(first, -signal.SIGKILL)
    before = {t.number: t.values for t in study.trials if t.state == TrialState.COMPLETE}
    assert len(before) == number
    told = json.loads(end(start(folder, *words, "--resume", "--json", "--workers", "2")).partition("\n")[0])
    after = {t["number"]: t for t in told["trials"]}
    assert all(list(after[n]["values"].values()) == values for n, values in before.items())
    done = told["complete"] - told["reused"]  # whether workers draw the same twice is a matter of their numbers
    assert done == TRIALS and told["lost"] == 1 and after[number]["lost"]
    assert not list(folder.glob("best.espalier.journal*"))


def test_a_worker_is_told_what_is_wrong(folder: Path) -> None:
    url = f"journal:{folder}/study.journal"
    open_storage(url)
    assert "no study yet" in end(start(folder, "worker", "--storage", url), 2)
    optuna.create_study(storage=open_storage(url), study_name="theirs")
    assert "from another version of Espalier" in end(start(folder, "worker", "--storage", url, "--study", "theirs"), 2)
