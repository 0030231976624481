"""What a search hands over to its storage: nothing that only a file of somebody else named."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.app.features.search.commands.search_workers import may_leave
from espalier.model.opening import open_any
from espalier.passes.search.fleet.files import files_of
from espalier.passes.search.fleet.model_transfer import hand_over
from espalier.passes.search.storage import open_storage, open_study


def test_only_what_may_leave_is_handed_over(tmp_path: Path) -> None:
    """A spec or a project of somebody else may name any file of this user, also by a link."""
    model = open_any("demo:digits-mlp", tmp_path / "model")
    own, foreign = tmp_path / "own", tmp_path / "home"
    for folder in (own, own / "split", foreign):
        folder.mkdir()
    for file in (own / "split" / "train.csv", foreign / "accounts.csv", foreign / "config"):
        file.write_text("text,label\ngood,1\n")
    (own / "split" / "test.csv").symlink_to(foreign / "accounts.csv")
    (own / "spec.toml").write_text("")
    found = SimpleNamespace(data="", trust=[], target="demo:digits-mlp", spec=str(own / "spec.toml"))
    plain = [{"data": str(own / "split")}, {"data": str(foreign / "accounts.csv")}]
    project = replace(model.project, source=replace(model.project.source, tokenizer=str(foreign)))

    def handed_over(name: str) -> dict[str, list[str]]:
        (tmp_path / name).mkdir()
        url = f"journal:{tmp_path / name}/a.journal"
        study = open_study(open_storage(url), "a", ("maximize",), "x")
        made = hand_over(study, url, project, model.store, plain=plain, may=may_leave(cast("Any", found)))
        zips = {p: files_of(url).get(d) for p, d in (made.beside or {}).items()}
        return {Path(p).name: zipfile.ZipFile(BytesIO(b"".join(c))).namelist() for p, c in zips.items()}

    assert handed_over("untrusted") == {"split": ["train.csv"]}
    found.trust = [str(foreign / "accounts.csv")]
    assert handed_over("one") == {"split": ["test.csv", "train.csv"], "accounts.csv": ["accounts.csv"]}
    found.trust, found.data = [], str(foreign)
    assert handed_over("all").keys() == {"split", "accounts.csv", "home"}


def test_nothing_is_beside_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "p.espalier").touch()
    found = SimpleNamespace(data="", trust=[], target=str(tmp_path / "p.espalier"), spec="mixed-precision")
    may = may_leave(cast("Any", found))
    assert not may(str(tmp_path / "accounts.csv")) and not may(str(tmp_path / ".ssh"))
    found.target = str(tmp_path / "work" / "p.espalier")
    assert not may_leave(cast("Any", found))(str(tmp_path / "work" / "a.csv")), "no such file: a model of that name"
