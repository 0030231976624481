"""Pins and frames as values: undone, saved, and read from files that others wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import espalier as es
from espalier.model.document.arrangement import (
    MEMBER,
    UNARRANGED,
    Arrangement,
    Frame,
    Pin,
    from_bytes,
    to_bytes,
)
from espalier.model.document.document import Change, Document, State
from espalier.model.document.project import load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.store.weights import WeightStore
from tests.gui.conftest import small_project

PINS = (Pin("node", "fc1", 12.5, -3.0), Pin("fold", "a.0 … a.3", 0.0, 7.0, "right"), Pin("group", "a", 1.0, 2.0))
ARRANGED = Arrangement(PINS, (Frame("Größe <1>", ("fc1", "drop"), "green"), Frame("b", ("fc2",))))


def test_what_is_written_is_read() -> None:
    data = to_bytes(ARRANGED)
    assert data is not None and from_bytes(data) == ARRANGED
    assert to_bytes(UNARRANGED) is None and from_bytes(None) == UNARRANGED


@pytest.mark.parametrize("data", [
    b"", b"\xff\xfe", b"[]", b"nothing", b'{"pins": 3, "frames": {"title": 1}}', b"[" * 100_000,
    b'{"pins": [{"kind": "node", "name": "a", "at": [1, NaN], "flow": "down"}]}',
    b'{"pins": [{"kind": "node", "name": "a", "at": [1, 1e300], "flow": "down"}]}',
    b'{"pins": [{"kind": "edge", "name": "a", "at": [1, 2], "flow": "down"}]}',
    b'{"pins": [{"kind": "node", "name": "a", "at": [true, false], "flow": "down"}]}',
    b'{"frames": [{"title": "no nodes", "nodes": [], "colour": "red"}]}',
])  # fmt: skip
def test_what_cannot_be_read_is_left_out(data: bytes) -> None:
    assert from_bytes(data) == UNARRANGED


def test_a_damaged_entry_leaves_the_others() -> None:
    data = json.loads(to_bytes(ARRANGED) or b"")
    data["pins"].insert(1, {"kind": "node"})
    data["frames"].append("x")
    assert from_bytes(json.dumps(data).encode()) == ARRANGED


def test_one_pin_of_each_box_and_flow() -> None:
    again = ARRANGED.with_pins([Pin("node", "fc1", 1.0, 1.0), Pin("node", "fc1", 5.0, 5.0, "right")])
    assert [(p.x, p.flow) for p in again.pins if p.name == "fc1"] == [(1.0, "down"), (5.0, "right")]
    assert again.without_pins({p.key for p in again.pins}).pins == ()
    assert again.without_frame(0).frames == ARRANGED.frames[1:]


def test_undo_and_steps_between(tmp_path: Path) -> None:
    """A step keeps the arrangement, and undoing it keeps it too; undoing an arrangement keeps the recipe."""
    document = Document(small_project(), WeightStore(tmp_path))
    changes: list[Change] = []
    document.listeners.append(changes.append)
    document.commit("Move", State(document.recipe, document.graph, ARRANGED))
    assert changes[-1].only_arranges and document.dirty and document.arrangement == ARRANGED
    recipe = Recipe((Step("prune", None),))
    document.commit("Prune", State(recipe, document.graph, document.arrangement))
    assert not changes[-1].only_arranges
    document.undo()
    assert document.recipe == Recipe() and document.arrangement == ARRANGED
    document.undo()
    assert document.arrangement == UNARRANGED and not document.dirty
    document.redo()
    assert document.arrangement == ARRANGED and document.undo_label == "Move"


def test_a_saved_project_holds_it(tmp_path: Path) -> None:
    model = es.open("demo:digits")
    document = Document(model.project, WeightStore(tmp_path))
    first = next(iter(document.graph.nodes))
    mine = Arrangement((Pin("node", first, 40.0, 50.0),), (Frame("Input", (first,)),))
    document.commit("Move", State(document.recipe, document.graph, mine))
    model.save(tmp_path / "plain.espalier")
    store = WeightStore(tmp_path / "store")
    project = load_project(tmp_path / "plain.espalier", store)
    opened = Document(project, store)
    assert opened.arrangement == UNARRANGED
    opened.commit("Move", State(opened.recipe, opened.graph, mine))
    save_project(opened.snapshot(), store, tmp_path / "mine.espalier")
    again = load_project(tmp_path / "mine.espalier", store)
    assert Document(again, store).arrangement == mine
    assert MEMBER in again.extras
    emptied = Document(again, store)
    emptied.commit("Unpin all", State(emptied.recipe, emptied.graph))
    assert MEMBER not in emptied.snapshot().extras, "what is empty leaves no member"


def test_a_script_draws_what_was_arranged(tmp_path: Path) -> None:
    """The picture of a model in a notebook has the frames of its project."""
    model = es.open("demo:digits")
    assert "My frame" not in model._repr_svg_()
    model.save(tmp_path / "a.espalier")
    store = WeightStore(tmp_path / "store")
    project = load_project(tmp_path / "a.espalier", store)
    document = Document(project, store)
    first = next(iter(document.graph.nodes))
    document.commit("Frame", State(document.recipe, document.graph, Arrangement((), (Frame("My frame", (first,)),))))
    save_project(document.snapshot(), store, tmp_path / "b.espalier")
    assert "My frame" in es.open(tmp_path / "b.espalier")._repr_svg_()


def test_names_that_are_no_unicode_are_saved() -> None:
    """JSON of a stranger's project can name half of a surrogate pair, which UTF-8 does not have."""
    found = from_bytes(b'{"pins": [{"kind": "node", "name": "\\ud800", "at": [1, 2], "flow": "down"}]}')
    assert found.pins == (Pin("node", "\ud800", 1.0, 2.0),)
    data = to_bytes(found)
    assert data is not None and from_bytes(data) == found


def test_titles_are_one_line_of_printable_characters() -> None:
    title = "a\\n\\tb\\u202ec\\u0000\\ud800 " + "W" * 1000
    (frame,) = from_bytes(f'{{"frames": [{{"title": "{title}", "nodes": ["x"], "colour": "red"}}]}}'.encode()).frames
    assert frame.title == "a bc " + "W" * 115
