"""Runs with property tests say their seed and can be repeated; the thorough profile has 20 times the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.recent_changes import files_for

FILE = """
import zlib
import pytest, torch
from hypothesis import given, settings, strategies as st

SEEN = []

@pytest.mark.parametrize("other", [0, 1])
@settings(max_examples=3)
@given(st.integers(0, 2**60))
def test_few(other, number):
    SEEN.append(number)

@given(st.integers(0, 2**60))
def test_most(number):
    SEEN.append(number)

@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("case", range(10))
def test_product(case):
    print("case", case)

def test_shown():
    print(f"examples {len(SEEN)}, drawn {zlib.crc32(repr(SEEN).encode())}, torch {torch.rand(1).item()}")

def test_fails():
    assert not SEEN
"""


def ran(root: Path, folder: Path, *options: str, **env: str) -> tuple[str, str, str]:
    """(examples, what was drawn, all that was printed) of a run of a file of tests under this repository's conftest."""
    (folder / "test_it.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir",
               str(folder), str(folder), *options]  # fmt: skip
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "HYPOTHESIS_PROFILE")} | {
        "PYTHONPATH": f"{root / 'roots'}{os.pathsep}{root}"
    }
    done = subprocess.run(
        command, cwd=folder, env=kept | env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    found = re.search(r"examples (\d+), (drawn .*)", done.stdout)
    assert found, done.stdout + done.stderr
    return found[1], found[2], done.stdout


@pytest.mark.slow
def test_a_run_says_its_seed_and_repeats_with_it(root: Path, tmp_path: Path) -> None:
    count, drawn, out = ran(root, tmp_path, CI="1")
    seeds = re.findall(r"--hypothesis-seed=(\d+)", out)
    assert count == "106" and len(seeds) == 2 and seeds[0] == seeds[1], "at the top, and again where a test failed"
    *same, repeated = ran(root, tmp_path, f"--hypothesis-seed={seeds[0]}")
    assert same == [count, drawn]
    cases = [re.findall(r"case \d", text) for text in (out, repeated)]
    assert len(set(cases[0])) == 3 and cases[0] == cases[1], "of a sampled product the seed draws the share"
    _, other, again = ran(root, tmp_path, CI="1")
    assert other != drawn and seeds[0] not in again, "another run tries other examples"
    assert other.partition("torch")[2] == drawn.partition("torch")[2]


DRAWN = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("case", range(40))
def test_slow(case):
    pass

def test_quick():
    pass
"""


def run_whole(root: Path, folder: Path, *options: str, **env: str) -> dict[str, set[str]]:
    """The cases of slow tests that ran, by file, in a folder that names its tests."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "tests.conftest", *options]
    paths = {"PYTHONPATH": f"{root / 'roots'}{os.pathsep}{root}"}
    kept = {k: v for k, v in os.environ.items() if k != "HYPOTHESIS_PROFILE"} | paths | env
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ran: dict[str, set[str]] = {}
    for name, case in set(re.findall(r"test_(\w+)\.py::test_slow\[(\d+)\]", done.stdout)):
        ran.setdefault(name, set()).add(case)
    assert len(set(re.findall(r"\w+\.py::test_quick", done.stdout))) == 2, "tests that are not slow run always"
    return ran


@pytest.mark.slow
def test_slow_tests_are_drawn_but_for_those_of_what_changed(root: Path, tmp_path: Path) -> None:
    """In a run of all tests only; a file that is named runs whole, and so does everything under `whole`."""
    tests = tmp_path / "tests" / "passes"
    tests.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nmarkers =\n    slow: slow\n    gui: gui\n")
    for name in ("plan", "other"):
        (tests / f"test_{name}.py").write_text(DRAWN)
    seed = "--hypothesis-seed=7"
    drawn = run_whole(root, tmp_path, seed)
    assert {name: 2 <= len(cases) <= 20 for name, cases in drawn.items()} == {"plan": True, "other": True}
    assert run_whole(root, tmp_path, seed) == drawn, "the seed repeats it"
    assert run_whole(root, tmp_path, "--hypothesis-seed=8") != drawn, "another run draws others"
    shared = run_whole(root, tmp_path, seed, "-n", "2")
    assert shared == drawn, "processes of a run draw alike"
    named = run_whole(root, tmp_path, seed, "tests/passes/test_plan.py", "tests/passes/test_other.py")
    everything = run_whole(root, tmp_path, seed, HYPOTHESIS_PROFILE="whole")
    assert len(named["plan"]) == len(named["other"]) == len(everything["plan"]) == len(everything["other"]) == 40

    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "plan.py").write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    old = {**os.environ, "GIT_AUTHOR_DATE": "2020-01-01T12:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T12:00:00Z"}
    for words, env in (
        (["init", "-q"], old),
        (["add", "tests"], old),
        (["commit", "-qm", "Add tests"], old),
        (["add", "passes"], None),
        (["commit", "-qm", "Add a plan"], None),
    ):
        subprocess.run([*git, *words], check=True, capture_output=True, env=env)
    near = run_whole(root, tmp_path, seed)
    assert len(near["plan"]) == 40 and near["other"] == drawn["other"]


def test_files_of_tests_that_belong_to_a_change() -> None:
    folder = "tests/passes/sharding"
    tests = [f"{folder}/test_plan.py", f"{folder}/test_plan_costs.py", f"{folder}/test_planets.py",
             "tests/passes/test_plan.py", "tests/gui/test_tabs.py"]  # fmt: skip
    assert files_for({"passes/sharding/plan.py"}, tests) == set(tests[:2])
    assert files_for({"tests/gui/test_tabs.py", "README.md"}, tests) == {"tests/gui/test_tabs.py"}
    assert files_for(set(), tests) == set()


@pytest.mark.slow
def test_thorough_is_twenty_times_the_examples(root: Path, tmp_path: Path) -> None:
    count, _, out = ran(root, tmp_path, "--hypothesis-seed=7", HYPOTHESIS_PROFILE="thorough")
    assert count == str(20 * 106)
    assert len(re.findall(r"case \d", out)) == 10, "of a sampled product all cases run"
    assert "HYPOTHESIS_PROFILE=thorough .venv/bin/python -m pytest --hypothesis-seed=7" in out


@pytest.mark.slow
def test_processes_of_a_run_share_its_seed(root: Path, tmp_path: Path) -> None:
    """Otherwise the seed that is printed repeats nothing, and processes draw other cases of sampled products."""
    told = "def test_it(pytestconfig):\n    print('has', pytestconfig.option.hypothesis_seed)\n    assert False\n"
    (tmp_path / "test_it.py").write_text(told)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir",
               str(tmp_path), str(tmp_path)]  # fmt: skip
    paths = {"PYTHONPATH": f"{root / 'roots'}{os.pathsep}{root}"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=dict(os.environ) | paths,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    printed, had = re.search(r"--hypothesis-seed=(\d+)", done.stdout), re.search(r"has (\d+)", done.stdout)
    assert printed and had and printed[1] == had[1], done.stdout + done.stderr
