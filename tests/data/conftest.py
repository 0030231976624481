"""What the data tests share: a small tokenizer, and a cache folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.sources.demos import RESOURCES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ESPALIER_CACHE", str(folder))
    return folder


@pytest.fixture
def tokenizer() -> Path:
    return RESOURCES / "reviews"


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """40 rows of two classes, alternating."""
    path = tmp_path / "rows.csv"
    lines = [f"the plot was {'good' if row % 2 else 'bad'} number {row},{row % 2}" for row in range(40)]
    path.write_text("\n".join(["text,label", *lines, ""]), encoding="utf-8")
    return path
