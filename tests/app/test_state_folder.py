"""The program's own folder, where it cannot be made: two sentences, and no file that nobody may save to."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.app.file_claims import claim, clean_up
from espalier.app.settings import data_folder
from espalier.model.errors import FileError


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(FileError, match=r"recovery could not be written \(Not a directory\)") as caught:
        data_folder("recovery")
    assert caught.value.hint
    held = claim(tmp_path / "p.espalier")
    assert held is not None and held.handle < 0
    with pytest.raises(FileError):
        clean_up()
