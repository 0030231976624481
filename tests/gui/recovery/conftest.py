"""A folder of recovery of the test's own, and the recovery of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.app.session import recovery


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recovery, "data_folder", lambda name: tmp_path)
    return tmp_path
