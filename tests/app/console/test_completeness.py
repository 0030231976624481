"""When Enter runs a text: as the interactive interpreter of CPython decides."""

from __future__ import annotations

import subprocess
import sys

import pytest

from espalier.app.features.console.completeness import is_complete, next_indent

WHOLE = ("1 + 1", "x = 1\ny = 2", "print('a:')", "# a note:", "if x: pass\n", "for i in x:\n    print(i)\n",
         "def f(:", "x = = 1", "'unended", "d = {'a': 1}", "class A: pass\n", "lambda: 0")  # fmt: skip
OPEN = ("if x:", "for i in x:\n    print(i)", "f(1,", "x = [1,\n  2", "'''text", "@decorator", "try:\n    x\n",
        "x = 1 + \\")  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
def test_a_whole_text_runs(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", OPEN)
def test_an_open_text_continues(text: str) -> None:
    assert not is_complete(text)


def test_single_lines_agree_with_the_interpreter() -> None:
    lines = [t for t in (*WHOLE, *OPEN) if "\n" not in t]
    program = "import codeop, sys\nfor t in sys.argv[1:]:\n    try: print(codeop.compile_command(t) is not None)\n" \
              "    except SyntaxError: print(True)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program, *lines], capture_output=True, text=True, check=True)
    assert [is_complete(t) for t in lines] == [word == "True" for word in done.stdout.split()]


def test_the_next_line_is_indented_as_the_block() -> None:
    assert next_indent("def f():") == "    "
    assert next_indent("def f():\n    x = 1") == "    "
    assert next_indent("def f():\n    return 1") == ""
    assert next_indent("x = 1") == ""
