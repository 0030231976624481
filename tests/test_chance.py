"""Runs with property tests say their seed and can be repeated; the thorough profile has 20 times the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

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
