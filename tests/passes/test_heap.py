"""Memory that is kept between tensors: fewer pages come anew, and nothing changes where it cannot be asked for."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from espalier.passes.jobs import heap

ROUNDS = """
import resource, sys
from espalier.passes.jobs.heap import give_back, keep_freed_memory
heard = keep_freed_memory() if sys.argv[1] == "keep" else True
import numpy as np
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(1 << 20, np.uint8); np.ones(1 << 22, np.uint8)
before = faults()
for _ in range(8):
    np.ones(3 << 20, np.uint8); np.ones(5 << 20, np.uint8)
many = faults() - before
give_back()
print(int(heard), many)
"""


def _faults(mode: str) -> tuple[bool, int]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", ROUNDS, mode], env=clean, capture_output=True, text=True, check=True)
    heard, many = done.stdout.split()
    return heard == "1", int(many)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted on Linux")
def test_freed_memory_comes_again_without_page_faults() -> None:
    heard, kept = _faults("keep")
    if not heard:
        pytest.skip("the C library is not glibc")
    assert kept < _faults("leave")[1] / 2


def test_what_the_user_says_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    monkeypatch.setattr(heap, "_function", lambda name: pytest.fail(name))
    assert not heap.keep_freed_memory()


def test_other_c_libraries_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(heap, "_function", lambda name: None)
    assert not heap.keep_freed_memory()
    heap.give_back()


ARENAS = """
import ctypes, sys, tempfile, threading
from pathlib import Path
from espalier.passes.jobs.heap import share_arenas
heard = share_arenas(2) if sys.argv[1] == "share" else True
ready = threading.Barrier(12)
def work():
    ready.wait()
    ctypes.CDLL(None).free(ctypes.c_void_p(malloc(1000)))
    ready.wait()
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
threads = [threading.Thread(target=work) for _ in range(12)]
[t.start() for t in threads]
[t.join() for t in threads]
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.TemporaryDirectory() as folder:
    name = Path(folder) / "info"
    stream = ctypes.c_void_p(libc.fopen(str(name).encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(int(heard), name.read_text().count("<heap nr"))
"""


def _arenas(mode: str) -> tuple[bool, int]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k != "GLIBC_TUNABLES"}
    done = subprocess.run([sys.executable, "-c", ARENAS, mode], env=clean, capture_output=True, text=True, check=True)
    heard, many = done.stdout.split()
    return heard == "1", int(many)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_threads_share_arenas() -> None:
    assert _arenas("leave")[1] > 2
    assert _arenas("share") == (True, 2)


THREAD = """
import sys, threading
from pathlib import Path
from espalier.passes.jobs import heap
heap.share_arenas(2)
heard = heap.return_freed_memory() if sys.argv[1] == "return" else True
import numpy as np
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
def work():
    parts = [np.ones(12_000) for _ in range(300)]
    np.ones(4_000_000)  # glibc raises its limits when this is freed
    del parts
np.ones(3_900_000)
before = resident()
thread = threading.Thread(target=work)
thread.start()
thread.join()
heap.give_back()
print(int(heard), resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted on Linux")
def test_memory_of_a_thread_goes_back() -> None:
    """29 MB of a thread; without the fixed limits some 9 MB of them stay."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    kept = {}
    for mode in ("return", "leave"):
        done = subprocess.run(
            [sys.executable, "-c", THREAD, mode], env=clean, capture_output=True, text=True, check=True
        )
        heard, kept[mode] = map(int, done.stdout.split())
        if not heard:
            pytest.skip("the C library is not glibc")
    assert kept["return"] < 3 << 20 and kept["return"] < kept["leave"] / 2
