"""A slice of the kills that `python -m tests.attack.kills` has many of, and children whose parent is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.attack.export_kills import EXPORTS
from tests.chance import number
from tests.patience import until, wall

ROOT = Path(__file__).resolve().parents[2]


SLOW = [pytest.mark.slow, pytest.mark.sampled(0.34)]
RARE = [pytest.mark.slow, pytest.mark.sampled(0.1)]
KINDS = ["sweep", *(pytest.param(k, marks=SLOW) for k in ("search", "worker", "training")),
         *(pytest.param(k, marks=RARE) for k in EXPORTS)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_slice(kind: str, pytestconfig: pytest.Config) -> None:
    """Where the kills fall is the run's to draw."""
    words = [sys.executable, "-m", "tests.attack.kills", "--kills", "4", "--kinds", kind]
    words += ["--seed", f"{number(pytestconfig, kind)}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count(" 4 kills, ") == 1


# A pattern that holds the interpreter for longer than anybody waits: no thread of the child's own gets a turn.
BUSY = "import re; re.match('(a+)+$', 'a' * 60 + 'b')"
CHILD = "from espalier.model.orphans import end_with_parent; end_with_parent({pipe}); "
CHILD += f"print('up', flush=True); {BUSY}"
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
COMMANDED = PARENT.replace('[sys.executable, "-c", sys.argv[1]]', "python_command(sys.argv[1])").replace(
    "import subprocess", "from espalier.model.orphans import python_command\nimport subprocess"
)
SPAWNED = """
import multiprocessing, sys, threading, time
from espalier.model.orphans import end_with_parent

def child(up):
    end_with_parent()
    up.set()
    import re
    re.match("(a+)+$", "a" * 60 + "b")

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    up = context.Event()
    process = context.Process(target=child, args=(up,))
    starter = threading.Thread(target=process.start)  # a thread that ends is no parent that dies
    starter.start()
    starter.join()
    up.wait()
    time.sleep(0.5)
    print(process.pid if process.is_alive() else 0, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a process whose interpreter is held")
@pytest.mark.parametrize("way", ["pipe", "starter", "spawned", "command"])
def test_ends_with_the_parent(way: str, tmp_path: Path) -> None:
    """Within 5 s of its parent's death, also while a library holds the interpreter."""
    script = tmp_path / "parent.py"
    script.write_text({"spawned": SPAWNED, "command": COMMANDED}.get(way, PARENT))
    child_script = CHILD.format(pipe="0" if way == "pipe" else "")
    words = [sys.executable, str(script), f"print('up', flush=True); {BUSY}" if way == "command" else child_script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "roots")}
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert child and _lives(child)
        time.sleep(0.2)
        assert _lives(child)
        parent.kill()
    begun = time.monotonic()
    until(lambda: not _lives(child))
    assert time.monotonic() - begun < wall(5)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
