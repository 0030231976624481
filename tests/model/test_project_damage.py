"""Project files that are cut, foreign, flipped or edited by hand are read as something legal, or refused in words."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from espalier.model.document.project import keys_of, save_project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import ProjectError
from espalier.passes.base import Context
from espalier.passes.recipes.replay import replay
from tests.model.project_cases import STEPS, folder, load, project_beside, rewritten, saved, source

__all__ = ["folder", "saved", "source"]


def refused(path: Path) -> ProjectError:
    with pytest.raises(ProjectError) as caught:
        load(path)
    assert caught.value.message and caught.value.hint
    return caught.value


def test_files_cut_anywhere_are_refused(saved: Path, tmp_path: Path) -> None:
    data, path = saved.read_bytes(), tmp_path / "cut.espalier"
    rng = Random(1)
    for length in [0, 1, 30, len(data) - 1, *(rng.randrange(len(data)) for _ in range(60))]:
        path.write_bytes(data[:length])
        assert "cut.espalier" in refused(path).message


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    assert "no file" in refused(tmp_path / "none.espalier").message
    (tmp_path / "folder.espalier").mkdir()
    refused(tmp_path / "folder.espalier")
    for i, data in enumerate((b"", b"hello", b"\x80\x04\x95", os.urandom(5000), b"PK\x03\x04" + bytes(100))):
        path = tmp_path / f"{i}.espalier"
        path.write_bytes(data)
        refused(path)
    lists: list[dict[str, bytes]] = [{"readme.txt": b"x"}]
    lists += [{"manifest.json": d} for d in (b"[]", b"\xff", b"{}", b'{"format": 1}', b"[" * 100_000)]
    for members in lists:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        (tmp_path / "zip.espalier").write_bytes(buffer.getvalue())
        refused(tmp_path / "zip.espalier")


@pytest.mark.parametrize("name", ["manifest.json", "graph.json", "recipe.json", "weights/tensors.safetensors"])
def test_missing_members_are_refused(name: str, saved: Path) -> None:
    refused(rewritten(saved, lambda n, data: None if n == name else data))


@pytest.mark.parametrize(("member", "change", "words"), [
    ("graph.json", lambda d: d["base"].pop("weights"), "'weights' is missing"),
    ("graph.json", lambda d: d["base"].update(nodes=3), "unexpected structure"),
    ("manifest.json", lambda d: d.pop("source"), "its source cannot be read, as 'source' is missing"),
    ("recipe.json", lambda d: d.pop("steps"), "its recipe cannot be read, as 'steps' is missing"),
    ("recipe.json", lambda d: d["steps"][0].update(seed="x"), "as Step 1: seed is 'x'"),
])  # fmt: skip
def test_damage_is_told_in_words(member: str, change: Any, words: str, saved: Path) -> None:
    def edit(name: str, data: bytes) -> bytes:
        if name != member:
            return data
        found = json.loads(data)
        change(found)
        return json.dumps(found).encode()

    error = refused(rewritten(saved, edit))
    assert words in error.message and "Error" not in error.message and "copy" in error.hint


def test_members_that_may_be_missing(saved: Path) -> None:
    path = rewritten(saved, lambda n, data: None if n in ("view.json", "reports.json") else data)
    project, _ = load(path)
    assert project.view == {} == project.reports


def test_compressed_weights_are_refused(saved: Path) -> None:
    target = saved.with_name("deflated.espalier")
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert "compressed" in refused(target).message


def whole(path: Path) -> bool:
    """Whether a changed file either is refused, or opens as something legal."""
    try:
        project, store = load(path)
    except ProjectError as error:
        return bool(error.message and error.hint)
    assert all(k in store for k in keys_of(project.base, project.graph))
    return True


def test_flipped_bytes_are_read_or_refused(saved: Path, tmp_path: Path) -> None:
    data, path, rng = saved.read_bytes(), tmp_path / "flipped.espalier", Random(2)
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 4))):
            broken[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(broken)
        assert whole(path)


def spots(data: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [trail, *(p for k, v in inner for p in spots(v, (*trail, k)))]


VALUES = [None, True, -1, 0, 1e99, "x", "", [], {}, [[]], {"x": {}}, {"ref": ["x", 0]}, ["a", "b"], "demo:reviews", "/"]


@pytest.mark.slow
@pytest.mark.parametrize("member", ["manifest.json", "recipe.json", "graph.json", "view.json", "reports.json"])
def test_edited_json_is_read_or_refused(member: str, source: Path, tmp_path: Path) -> None:
    """Every kind of value in every kind of place; a project whose weights lie in its source."""
    path = project_beside(source, tmp_path)
    project, store = load(path)
    graph = replay(project.base, Recipe(STEPS[:2]), Context(store)).graph
    save_project(replace(project, recipe=Recipe(STEPS), graph=graph, view={"a": 1}, reports={"b": 2}), store, path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read(member)
    places, rng = spots(json.loads(text)), Random(3)
    for place in rng.sample(places, min(len(places), 60)):
        data = json.loads(text)
        home, value = data, rng.choice(VALUES)
        for key in place[:-1]:
            home = home[key]
        if place:
            home[place[-1]] = value
        else:
            data = value
        assert whole(rewritten(path, lambda n, old, data=data: json.dumps(data).encode() if n == member else old))
