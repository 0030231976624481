"""The console's process: what it prints is what Python prints, and nothing that runs in it can hold it for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.app.features.console.messages import Complete, Completions, Ended, Line, Waiting
from espalier.app.features.console.process import Died
from tests.app.interpreter.conftest import Driver

TEXTS = (
    "1 + 1",
    "None",
    "'a\\tb'",
    "print('x', end='')",
    "[1, 2.5, 'é', None]",
    "x = 3\nx * 2",
    "for i in range(3):\n    print(i)",
    "1 / 0",
    "def f():\n    raise KeyError('k')\nf()",
    "raise ValueError",
    "import sys\nprint('to stderr', file=sys.stderr)",
)


PYTHON = """
import code, sys
text = sys.argv[1]
shell = code.InteractiveInterpreter({"__name__": "__main__"})
head, _, last = text.rpartition("\\n")
parts = [(head, "exec"), (last, "single")] if head and not last.startswith(" ") else [(text, "single")]
for part, kind in parts:
    if part:
        shell.runsource(part + "\\n", "<console>", kind)
"""


def by_python(text: str) -> tuple[str, str]:
    """What the standard library's interactive interpreter prints, a statement at a time where it shows a value."""
    done = subprocess.run([sys.executable, "-c", PYTHON, text], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def shared_console() -> object:
    """One process for the texts that leave it as it is."""
    driver = Driver()
    yield driver
    driver.process.stop()


@pytest.mark.parametrize("text", TEXTS)
def test_it_prints_what_python_prints(shared_console: Driver, text: str) -> None:
    out, errors = shared_console.run(text)
    expected_out, expected_errors = by_python(text)
    assert out == expected_out
    assert errors.splitlines()[-1:] == expected_errors.splitlines()[-1:]


def test_a_traceback_shows_the_users_lines_and_none_of_the_console(shared_console: Driver) -> None:
    _, errors = shared_console.run("def g(x):\n    return 1 / x\n\ng(0)")
    assert "    return 1 / x" in errors and "    g(0)" in errors
    assert "espalier" not in errors and errors.endswith("ZeroDivisionError: division by zero\n")


def test_names_stay_and_the_last_value_is_an_underscore(shared_console: Driver) -> None:
    shared_console.run("import math\nradius = 2")
    shared_console.run("math.pi * radius ** 2")
    assert shared_console.run("_ == math.pi * 4")[0] == "True\n"
    assert shared_console.run("@__import__('dataclasses').dataclass\nclass A:\n    x: int\nA(1)")[0] == "A(x=1)\n"


@pytest.mark.slow
def test_modules_are_imported_when_they_are_named(shared_console: Driver) -> None:
    loaded = "import sys; [n in sys.modules for n in ('PySide6', 'transformers')]"
    assert shared_console.run(loaded)[0] == "[False, False]\n"
    assert shared_console.run("np.arange(3).sum() + 0")[0].strip() in ("3", "np.int64(3)")
    assert shared_console.run("torch.ones(2).sum().item()")[0] == "2.0\n"


def test_without_a_model_m_is_not_set(shared_console: Driver) -> None:
    assert "NameError" in shared_console.run("m")[1]
    assert "No model is open." in shared_console.run("select('linear')")[1]


def test_output_of_other_programs_and_of_descriptors_arrives(shared_console: Driver) -> None:
    out, errors = shared_console.run(
        "import os; _ = os.system('echo to out; echo to errors >&2'); os.write(1, b'raw\\n')"
    )
    assert "to out\n" in out and "raw\n" in out and "to errors\n" in errors


def test_the_answer_of_input_is_the_typed_line(shared_console: Driver) -> None:
    shared_console.begin("name = input('Name? ')\nname.upper()")
    shared_console.until(Waiting)
    shared_console.process.post(Line("Ada"))
    shared_console.until(Ended)
    assert shared_console.text("out") == "Name? 'ADA'\n"
    shared_console.begin("input()")
    shared_console.until(Waiting)
    shared_console.process.post(Line(None))
    shared_console.until(Ended)
    assert shared_console.text("error").endswith("EOFError: EOF when reading a line\n")


def test_exit_leaves_the_console_open(shared_console: Driver) -> None:
    assert "does not end the console" in shared_console.run("exit()")[1]
    assert shared_console.run("2 + 2")[0] == "4\n"


@pytest.mark.parametrize("text", [
    "while True: pass",
    "import time; time.sleep(100)",
    "while True: print('y' * 200)",
    "input('never answered ')",
    "import subprocess; subprocess.run(['sleep', '100'])",
    "import threading; threading.Event().wait()",
    "import time\ntry:\n    time.sleep(100)\nfinally:\n    print('cleaned')",
])  # fmt: skip
def test_what_runs_for_ever_can_be_stopped(shared_console: Driver, text: str) -> None:
    shared_console.begin(text)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:  # the window takes output all the time
        shared_console.messages += shared_console.process.take(1 << 16)
        time.sleep(0.01)
    shared_console.interrupt()
    assert shared_console.until(Ended, 10).number == shared_console.running
    assert "KeyboardInterrupt" in shared_console.text("error")
    assert ("cleaned" in text) == ("cleaned\n" in shared_console.text("out"))
    assert shared_console.run("'goes on'")[0] == "'goes on'\n"


def test_an_interrupt_of_an_ended_text_does_not_hit_the_next(shared_console: Driver) -> None:
    shared_console.run("1")
    shared_console.interrupt()
    assert shared_console.run("import time; time.sleep(0.2); 'whole'") == ("'whole'\n", "")


@pytest.mark.slow
def test_output_that_nobody_takes_does_not_fill_memory(console: Driver) -> None:
    resident = "int(open('/proc/self/statm').read().split()[1]) * 4096"
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc to read the memory from")
    before = int(console.run(resident)[0])
    console.begin("while True: print('z' * 1000)")
    time.sleep(2)  # without backpressure, more than 500 MB
    console.interrupt()
    console.until(Ended)
    assert int(console.run(resident)[0]) - before < 60e6


@pytest.mark.slow
@pytest.mark.parametrize("text,reason", [
    ("import os; os._exit(3)", "exit code 3"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
    ("import ctypes; ctypes.string_at(0)", "signal 11"),
])  # fmt: skip
def test_the_death_of_the_process_is_told_with_its_reason(console: Driver, text: str, reason: str) -> None:
    console.begin(text)
    assert console.until(Died).reason == reason


@pytest.mark.slow
def test_what_holds_the_interpreter_ends_with_the_process(console: Driver) -> None:
    console.begin("sum(range(10 ** 13))")  # a loop in C: it looks at no signal
    time.sleep(0.3)
    console.interrupt()
    time.sleep(0.3)
    pid, begin = console.process.pid, time.monotonic()
    console.process.stop()
    assert time.monotonic() - begin < 3
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)


@pytest.mark.slow
def test_its_temporary_files_go_with_it_also_while_a_text_runs(console: Driver) -> None:
    folder = Path(console.run("m = es.open('demo:digits-mlp')\nprint(m._place.scratch.folder)")[0].strip())
    assert folder.is_dir()
    console.begin("while True: pass")
    time.sleep(0.2)
    console.process.stop()
    assert not folder.exists()


@pytest.mark.slow
def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from espalier.app.features.console.process import ConsoleProcess\n"
        "from espalier.app.features.console.messages import Run\n"
        "if __name__ == '__main__':\n"
        "    p = ConsoleProcess(lambda: None)\n"
        "    p.post(Run(1, 'while True: pass', None, ()))\n"
        "    print(p.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "parent.py").write_text(program)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(3)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end and _lives(pid):
        time.sleep(0.05)
    parent.stdout.close()
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_completions_are_those_of_the_live_objects(shared_console: Driver) -> None:
    def words(text: str) -> tuple[str, ...]:
        shared_console.process.post(Complete(text))
        return shared_console.until(Completions).words

    shared_console.run("import math\ndef area(width, height=2, *, scale=1): return width * height * scale")
    assert words("x = math.is") == tuple(sorted(f"math.{n}" for n in dir(math_module()) if n.startswith("is")))
    assert words("area(he")[0] == "height=" and "help" in words("area(he")
    assert "scale=" in words("area(1, height=3, ") and "height=" not in words("area(1, height=3, ")
    assert words("nothing.of.this.kind.") == ()
    assert words("'math.is") == ()


def math_module() -> object:
    import math

    return math
