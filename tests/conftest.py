"""What all tests share: Qt without a screen, no network, settings in a folder of their own,
the `shared` data folder, skips for machines without a GPU, and the watch over what GUI tests leave behind.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import chance

PLAIN = builtins.__import__

from tests.patience import PATIENCE, PatientBot  # noqa: E402  # brings Qt, which wraps the import

WRAPPED = builtins.__import__
ROOT = Path(__file__).resolve().parents[1]
HOME = tempfile.mkdtemp(prefix="espalier-tests-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# As under make: tests are rewritten and compiled once a checkout, and what they start as processes finds our modules
# compiled. Where that is switched off, each process of a run would compile all of them again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.update({f"XDG_{kind}_HOME": f"{HOME}/{kind.lower()}" for kind in ("CONFIG", "DATA", "STATE")})
os.environ["ESPALIER_NO_CACHE"] = "1"  # tests capture and measure; those of the cache switch it on
for offline in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
    os.environ.setdefault(offline, "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test processes share two cores; sums keep their order
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

chance.prepare()


@pytest.hookimpl(tryfirst=True)  # ahead of hypothesis' own plugin
def pytest_configure(config: pytest.Config) -> None:
    """One seed for all property tests."""
    chance.begin(config)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_configure_node(node: Any) -> None:
    """The same seed in all processes of a run."""
    chance.share(node.config, node.workerinput)


def pytest_report_header(config: pytest.Config) -> str:
    """How to repeat what is drawn at random."""
    return f"seed: {chance.repeat(config)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The same where a test failed: the header is far away then."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"The same examples again: {chance.repeat(config)} FILE::TEST")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data that is too large for the repository; ESPALIER_SHARED names another one."""
    folder = Path(os.environ.get("ESPALIER_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no data folder {folder.name!r} beside the repository (ESPALIER_SHARED names one)")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _without_plugins() -> Iterator[None]:
    """What a module's tests loaded as plug-ins is not seen by those of others."""
    yield
    if (plugins := sys.modules.get("espalier.passes.plugins.plugins")) is not None:
        plugins.unload_plugins()


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> PatientBot:
    """pytest-qt's robot, with waits that a slow machine keeps."""
    return PatientBot(request)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests first, then those with many, so that none keeps one process busy while the others wait."""
    chance.multiply(items)
    chance.sample(config, items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -count[item.path], item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip GPU tests where torch sees none, with that reason. Torch begins alike, whatever ran before."""
    chance.TORCH.seed(chance.FIRST)
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")


# ---- what GUI tests leave behind -----------------------------------------------------------------------

BEFORE = pytest.StashKey[tuple[set[object], set[int], set[int]]]()
KEPT = ("resource_tracker", "forkserver")  # multiprocessing's own helpers live as long as the interpreter


def _threads() -> set[object]:
    kept = (threading._DummyThread,)  # Python's record of a thread that Qt owns: outlives the thread on 3.11
    return {t for t in threading.enumerate() if not isinstance(t, kept) and type(t).__name__ != "TMonitor"}


def _where(thread: object) -> str:
    """The innermost calls of a thread, to see what it does or waits for."""
    frame = sys._current_frames().get(getattr(thread, "ident", 0) or 0)
    return " < ".join(f"{f.name} ({Path(f.filename).name}:{f.lineno})" for f in traceback.extract_stack(frame)[-4:])


def _children() -> dict[int, str]:
    """Living child processes by pid (Linux; empty elsewhere)."""
    found: dict[int, str] = {}
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:  # it ended while we looked
                continue
            if state != "Z" and not any(word in command for word in KEPT):
                found[int(pid)] = command.strip()
    return found


def _qt_running() -> dict[int, object]:
    """Active QTimers and running QThreads, by address."""
    from PySide6.QtCore import QCoreApplication, QThread, QTimer
    from PySide6.QtWidgets import QApplication
    from shiboken6 import Shiboken

    app = QCoreApplication.instance()
    seen: list[object] = [o for o in gc.get_objects() if issubclass(type(o), QTimer | QThread)]
    for owner in ([app] if app else []) + (QApplication.topLevelWidgets() if app else []):
        seen += owner.findChildren(QTimer)
    found: dict[int, object] = {}
    for item in seen:
        if not Shiboken.isValid(item):
            continue
        running = item.isActive() if isinstance(item, QTimer) else item.isRunning()  # type: ignore[attr-defined]
        if running and not (isinstance(item, QThread) and item is QThread.currentThread()):
            found[Shiboken.getCppPointer(item)[0]] = item
    return found


def _settle() -> None:
    from PySide6.QtCore import QCoreApplication, QEvent

    if QCoreApplication.instance() is not None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QCoreApplication.processEvents()
    gc.collect()


def _left(before: tuple[set[object], set[int], set[int]]) -> list[str]:
    threads, children, running = before
    left = [f"thread {thread}, at {_where(thread)}" for thread in _threads() - threads]
    left += [f"child process {pid}: {text}" for pid, text in _children().items() if pid not in children]
    left += [
        f"running {item!r} (parent {item.parent()!r})" for key, item in _qt_running().items() if key not in running
    ]  # type: ignore[attr-defined]
    return left


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Remember what ran before a GUI test, ahead of all its fixtures.

    What is there already (all of torch) is not looked through for garbage in each test, which took half their time.
    """
    gc.collect()
    gc.freeze()
    gui = item.get_closest_marker("gui") is not None
    # Qt's wrap is slower, and torch imports within its innermost functions; no worker or command line has it either
    builtins.__import__ = WRAPPED if gui else PLAIN
    if gui:
        item.stash[BEFORE] = (_threads(), set(_children()), set(_qt_running()))
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """After a GUI test, its fixtures and its widgets: nothing of it may still run."""
    yield
    before = item.stash.get(BEFORE, None)
    if before is None:
        return
    until = time.monotonic() + PATIENCE  # threads, workers and deferred deletions may take their time to end
    _settle()
    while (left := _left(before)) and time.monotonic() < until:
        time.sleep(0.02)
        _settle()
    if left:
        pytest.fail("the test leaves behind: " + "; ".join(left), pytrace=False)
