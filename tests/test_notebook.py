"""The notebook of the guide runs from the first cell to the last, in a process of its own, without Jupyter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

# The last line of a cell is shown as a notebook shows it; an error names the cell.
RUN = """
import ast, json, sys, time
notebook = json.load(open(sys.argv[1], encoding="utf-8"))
cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
space, shown, start = {"__name__": "__main__"}, [], time.perf_counter()
for number, text in enumerate(cells, 1):
    tree, last = ast.parse(text), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, f"cell {number}", "exec"), space)
    value = eval(compile(last, f"cell {number}", "eval"), space) if last else None
    form = next((f for f in ("_repr_svg_", "_repr_html_") if hasattr(value, f)), "__repr__")
    shown.append(getattr(value, form)())
print("RESULT" + json.dumps([time.perf_counter() - start, shown]))
"""


def ran(notebook: Path, folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(root / "roots"), "PATH": "", "HOME": str(folder), "TMPDIR": str(folder)}
    command = [sys.executable, "-c", RUN, str(notebook)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.slow
def test_the_notebook_runs(root: Path, tmp_path: Path) -> None:
    done = ran(root / "resources" / "guide" / "first-steps.ipynb", tmp_path, root)
    assert done.returncode == 0, done.stderr
    _, shown = json.loads(done.stdout.rpartition("RESULT")[2])
    assert sum(s.startswith("<?xml") for s in shown) == 1 and sum(s.startswith("<p><b>") for s in shown) >= 6


def test_an_error_in_a_cell_is_seen(root: Path, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": ["a = 1\n", "a"]}, {"cell_type": "code", "source": ["assert a == 2"]}]
    (tmp_path / "bad.ipynb").write_text(json.dumps({"cells": cells}))
    done = ran(tmp_path / "bad.ipynb", tmp_path, root)
    assert done.returncode == 1 and "cell 2" in done.stderr and "AssertionError" in done.stderr


def test_the_notebook_is_kept_without_results(root: Path) -> None:
    text = (root / "resources" / "guide" / "first-steps.ipynb").read_text(encoding="utf-8")
    data = json.loads(text)
    assert text == json.dumps(data, indent=1, ensure_ascii=False) + "\n" and data["nbformat"] == 4
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in data["cells"] if c["cell_type"] == "code")
