"""The program as a process of its own: streams, exit codes, start-up time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.app.commands.console import Console
from espalier.app.commands.interrupts import interrupt
from tests.patience import PATIENCE, until


def start(root: Path, *words: object, before: tuple[str, ...] = (), **env: str) -> subprocess.Popen[str]:
    command = [*before, sys.executable, str(root / "main.py"), *map(str, words)]
    return subprocess.Popen(
        command, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    )


def run(root: Path, *words: object, **env: str) -> tuple[int, str, str]:
    with start(root, *words, **env) as process:
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err


HEAVY = {"torch", "transformers", "PySide6", "optuna", "networkx", "numba", "scipy", "pandas"}


@pytest.mark.parametrize(
    ("words", "further"),
    [("--help", set()), ("report --help", set()),
     ("formats", {"espalier.passes.search", "espalier.app.features.search.commands.search"}),
     ("formats --json", {"espalier.passes.search", "espalier.app.features.search.commands.search"})],
)  # fmt: skip
def test_it_starts_quickly(root: Path, words: str, further: set[str]) -> None:
    """What nobody asked for is not imported: no large library, and nothing of other commands."""
    code = (
        f"import sys\nfrom espalier.app.cli import main\nassert main({words.split()!r}) == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (HEAVY | further) & set(done.stderr.split())


def test_a_mistake(root: Path) -> None:
    code, out, err = run(root, "trac", "demo:digits", "--json")
    error = {"message": "There is no command 'trac'.", "hint": "Did you mean 'trace'?", "kind": "usage"}
    assert code == 2 and json.loads(out) == {"error": error}
    assert err.splitlines() == [error["message"], error["hint"]]


def test_without_a_display(root: Path) -> None:
    code, out, err = run(root, DISPLAY="", WAYLAND_DISPLAY="", QT_QPA_PLATFORM="")
    assert code == 2 and not out and len(err.splitlines()) == 2 and "trace" in err


@pytest.mark.slow
def test_stdout_holds_one_object_whatever_is_printed(root: Path, tmp_path: Path) -> None:
    source = tmp_path / "loud.py"
    source.write_text(
        "import os, subprocess, sys, torch\nprint('python')\nos.write(1, b'descriptor\\n')\n"
        "def make():\n    subprocess.run([sys.executable, '-c', 'print(1)'])\n"
        "    sys.stdout.write('more')\n    return torch.nn.Linear(4, 4), {'input': torch.randn(2, 4)}\n"
    )
    code, out, err = run(root, "trace", f"{source}:make", "--json")
    assert code == 0 and json.loads(out)["ops"]["linear"] == 1 and out.count("\n") == 1
    assert "python" in err and "descriptor" in err


@pytest.mark.slow
def test_a_whole_session(root: Path, tmp_path: Path) -> None:
    """Trace, compress, score, hand on; what libraries say stays off the terminal."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[quantize]\nrules = [{select = {by = 'type', values = ['linear', 'conv2d']}, "
                      "formats = {weight = 'integer(width=8, frac_width=6)'}}]\n")  # fmt: skip
    project, result = tmp_path / "d.espalier", tmp_path / "e.espalier"
    for words in (
        ("trace", "demo:digits", "-o", project, "--verify"),
        ("run", project, recipe, "-o", result),
        ("report", result, "--what", "quantization", "-o", tmp_path / "q.csv"),
        ("export", result, "--as", "safetensors", "-o", tmp_path / "out"),
    ):
        code, out, err = run(root, *words, "--json")
        told = [line for line in err.splitlines() if not line.startswith("… ")]  # progress, where it takes long
        assert (code, told) == (0, []), err
        assert json.loads(out)
    assert (tmp_path / "q.csv").read_text().count("\n") == 5


IGNORING = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")  # as a shell without job control starts `command &`


@pytest.mark.slow
@pytest.mark.parametrize("before", [(), IGNORING], ids=["foreground", "background job"])
def test_ctrl_c(root: Path, tmp_path: Path, before: tuple[str, ...]) -> None:
    source = tmp_path / "slow.py"
    source.write_text(f"import time\nopen({str(tmp_path / 'on')!r}, 'w').close()\ntime.sleep(600)\n")
    with start(root, "trace", f"{source}:make", before=before) as process:
        until((tmp_path / "on").exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "Stopped.\n")


@pytest.mark.slow
def test_ctrl_c_while_a_text_is_written(root: Path) -> None:
    words = ("generate", "demo:stories", "Once upon a time", "--new-tokens", "4000", "--no-kv-cache")
    with start(root, *words) as process:
        time.sleep(1.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "Stopped.\n")


def test_a_lost_ctrl_c_is_raised_at_the_next_step() -> None:
    console = Console(io.StringIO(), True)
    with contextlib.suppress(KeyboardInterrupt):  # as libraries in C do
        interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        console.progress(1, 2, "writing")
    console.progress(2, 2, "writing")


def test_the_interpreter_ends_without_a_search_for_cycles(root: Path) -> None:
    """That of torch's objects took 3 s under load, after Ctrl+C too."""
    script = ("import gc, sys; from espalier.app.cli import process; sys.argv = ['main.py', 'formats', 'integer'];"
              "process(); print(gc.get_freeze_count() > 1000, file=sys.stderr)")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(root / "roots")}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE,
                          check=True)  # fmt: skip
    assert done.stderr.splitlines()[-1] == "True" and "integer" in done.stdout


def test_a_reader_that_leaves(root: Path) -> None:
    with start(root, "formats", "integer(width=16)", "--codes", "--json") as process:
        assert process.stdout and process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=PATIENCE) == 0
        assert process.stderr.read() == ""
