"""Threads of torch that wait release their processors soon, unless the user has chosen otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from espalier.passes.jobs.openmp import CHOSEN, ROUNDS, yield_processors

TELL = """
from espalier.passes.jobs import worker
import multiprocessing, os
here, there = multiprocessing.Pipe()
here.close()
worker.main(there)
print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOSEN:
        monkeypatch.delenv(name, raising=False)


def test_it_is_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict[str, str]())
    yield_processors()
    assert os.environ == {"GOMP_SPINCOUNT": ROUNDS}


@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7")])
def test_what_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr(os, "environ", {name: value})
    yield_processors()
    assert os.environ == {name: value}


@pytest.mark.slow
def test_a_worker_sets_it_before_it_loads_torch() -> None:
    done = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [ROUNDS, "None"]
