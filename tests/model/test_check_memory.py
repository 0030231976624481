"""A folder whose weights exceed the free memory is refused with what can be done, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.errors import SourceError
from espalier.model.sources import huggingface


def test_weights_that_exceed_the_free_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(bytes(700))
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(bytes(700))
    monkeypatch.setattr(huggingface, "free", lambda: 1399)
    with pytest.raises(SourceError, match="GiB of memory are free") as found:
        huggingface.from_folder(str(tmp_path))
    assert "espalier stream" in found.value.hint
    monkeypatch.setattr(huggingface, "free", lambda: 1400)
    huggingface.check_memory(tmp_path)
