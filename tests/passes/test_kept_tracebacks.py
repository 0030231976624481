"""What a job held is freed although a module that it imported keeps the exception of a failed import."""

from __future__ import annotations

import gc
import importlib
import weakref
from pathlib import Path

import pytest

from espalier.passes.jobs.kept_tracebacks import drop_tracebacks

MODULE = """
kept = None
try:
    import no_such_module_anywhere
except ImportError as error:
    kept = error
"""


class Weights:
    """What a job holds in a local variable."""


def job() -> weakref.ref[Weights]:
    weights = Weights()
    importlib.import_module("keeps_its_error")
    return weakref.ref(weights)


def test_frames_of_a_finished_job_are_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop_tracebacks()
    (tmp_path / "keeps_its_error.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    left = job()
    gc.collect()
    assert left() is not None, "the module no longer shows the fault"
    assert drop_tracebacks() >= 1
    gc.collect()
    assert left() is None
    assert importlib.import_module("keeps_its_error").kept is not None

    try:
        raise ValueError("kept without an import")
    except ValueError as error:
        kept = error
    assert drop_tracebacks() == 0 and kept.__traceback__ is not None, "nothing was imported: nothing is searched"
