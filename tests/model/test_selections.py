"""Saved selections of a project's file: what a stranger's file may hold, and what may be saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.model.document.project import load_project, save_project
from espalier.model.document.selections import (
    LONGEST_NAME,
    MEMBER,
    plain_name,
    selections_of,
    selections_to_bytes,
    with_selection,
    with_selections,
)
from espalier.model.errors import OptionsError
from espalier.model.store.weights import WeightStore
from tests.model.project_cases import make


@pytest.mark.parametrize("data", [
    b"{", b"[]", b"\xff\xfe", b"null", b'{"selections": {}}', b'{"selections": [1, null, {"name": 3, "nodes": []}]}',
    b'{"selections": [{"name": "", "nodes": []}, {"name": "a", "nodes": "b"}, {"nodes": ["c"]}]}',
])  # fmt: skip
def test_what_cannot_be_read_is_left_out(data: bytes) -> None:
    project = replace(make()[0], extras={MEMBER: data})
    assert selections_of(project) == {}


def test_names_of_strangers_are_made_plain() -> None:
    names = ["a\nb\tc", "\ud800x", "  two   words ", "n" * 5000, "😀 é", "\u2028line", "a b c"]
    entries = [{"name": n, "nodes": ["x", 3, "x", None, "y"]} for n in names]
    project = replace(make()[0], extras={MEMBER: json.dumps({"selections": entries}).encode()})
    held = selections_of(project)
    assert list(held) == ["a b c", "x", "two words", "n" * LONGEST_NAME, "😀 é", "line"], "the first of a name stays"
    assert set(held.values()) == {("x", "y")}
    assert all(plain_name(name) == name and name.encode() for name in held)


def test_they_come_back_with_the_file(tmp_path: Path) -> None:
    project, store = make()
    wanted = {"a & b": ("x", "no such node"), "\"quotes\" 'and' \\": tuple(f"n{i}" for i in range(50_000))}
    save_project(with_selections(project, wanted), store, tmp_path / "p.espalier")
    again = load_project(tmp_path / "p.espalier", WeightStore(tmp_path))
    assert selections_of(again) == wanted
    assert MEMBER not in with_selections(again, {}).extras and selections_to_bytes({}) is None


@pytest.mark.parametrize("name", ["", " a", "a  b", "a\n", "n" * (LONGEST_NAME + 1), "\udcff"])
def test_a_name_that_cannot_be_kept_is_refused(name: str) -> None:
    with pytest.raises(OptionsError, match="cannot name a selection"):
        with_selection({}, name, ["x"])


def test_a_selection_has_nodes_and_is_last_once_saved_again() -> None:
    with pytest.raises(OptionsError, match="has no nodes"):
        with_selection({}, "a", [])
    held = with_selection({"a": ("x",), "b": ("y",)}, "a", ["z", "z"])
    assert list(held.items()) == [("b", ("y",)), ("a", ("z",))]
