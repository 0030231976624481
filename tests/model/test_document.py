"""Any sequence of edits: undo and redo are exact, the recipe gives the graph, saving and opening give the document."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from espalier.model.document.document import LIMIT, Change, Document, State
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import Project, keys_of, load_project, save_project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.passes.base import Context
from espalier.passes.choices.edits import with_format, with_sparsity
from espalier.passes.choices.quantize import PORTS
from espalier.passes.recipes.replay import Memo, replay
from tests.model.zoo import case, run, same
from tests.strategies import formats, selects, steps

MODELS = ("mlp", "tied", "twice", "image")
IDS = st.sampled_from(["first", "second", "act", "drop", "layer", "layer_1", "head", "mix", "stem", "deep", "nowhere"])
OPS = st.sampled_from(["linear", "conv2d", "dropout", "relu", "nothing"])
SELECTS = selects(IDS, OPS)
INFO = SourceInfo("/nowhere/net.py:make", "made", ("x",))


class Editing(RuleBasedStateMachine):
    """A document edited at random; a plain list of states says what undo and redo must bring."""

    @initialize(name=st.sampled_from(MODELS))
    def open(self, name: str) -> None:
        self.held = case(name)
        self.folder = tempfile.TemporaryDirectory()
        self.store = WeightStore(Path(self.folder.name) / "work")
        for weight in self.held.graph.weights.values():
            self.store.hold(self.held.store.get(str(weight.key)))
        base = self.held.graph
        self.document = Document(Project(INFO, base, Recipe(), base), self.store)
        self.memo = Memo()
        self.states: list[State] = [self.document.present]
        self.at = 0
        self.heard: list[Change] = []
        self.document.listeners.append(self.heard.append)

    @property
    def base(self) -> Graph:
        return self.document.project.base

    def edit(self, recipe: Recipe) -> None:
        """Replay and commit, as the session does; a refused edit changes nothing."""
        before, told = self.document.present, len(self.heard)
        try:
            graph = replay(self.base, recipe, Context(self.store), self.memo).graph
        except EspalierError as error:
            assert error.message and self.document.present is before
            return
        change = self.document.commit("edit", State(recipe, graph))
        if change is None:
            assert self.document.present == before and len(self.heard) == told
            return
        assert self.heard[told:] == [change] and (change.before, change.after) == (before, self.document.present)
        assert change.delta == change.after.graph.delta(before.graph)
        self.states[self.at + 1 :] = [self.document.present]
        self.at += 1

    # -- edits

    @rule(step=steps(SELECTS))
    def append(self, step: Step) -> None:
        self.edit(self.document.recipe.append(step))

    @rule(ids=st.lists(IDS, min_size=1, max_size=2).map(tuple), port=st.sampled_from(PORTS), fmt=st.none() | formats)
    def set_format(self, ids: tuple[str, ...], port: str, fmt: Format | None) -> None:
        self.edit(with_format(self.document.recipe, ids, port, fmt))

    @rule(ids=st.lists(IDS, min_size=1, max_size=2).map(tuple), ratio=st.sampled_from((0.0, 0.3, 0.5, 1.0)))
    def set_sparsity(self, ids: tuple[str, ...], ratio: float) -> None:
        self.edit(with_sparsity(self.document.recipe, ids, ratio, "l1", "local"))

    @precondition(lambda self: self.document.recipe.steps)
    @rule(data=st.data(), how=st.sampled_from(("remove", "move", "enable", "set")), step=steps(SELECTS))
    def change_steps(self, data: st.DataObject, how: str, step: Step) -> None:
        recipe = self.document.recipe
        at = data.draw(st.integers(0, len(recipe) - 1))
        changed = {
            "remove": lambda: recipe.remove(at),
            "move": lambda: recipe.move(at, data.draw(st.integers(0, len(recipe) - 1))),
            "enable": lambda: recipe.enable(at, data.draw(st.booleans())),
            "set": lambda: recipe.set(at, step),
        }
        self.edit(changed[how]())

    # -- going back and forth

    @rule(times=st.integers(1, 4))
    def undo(self, times: int) -> None:
        for _ in range(times):
            change = self.document.undo()
            assert (change is None) == (self.at == 0)
            self.at = max(self.at - 1, 0)

    @rule(times=st.integers(1, 4))
    def redo(self, times: int) -> None:
        for _ in range(times):
            change = self.document.redo()
            assert (change is None) == (self.at == len(self.states) - 1)
            self.at = min(self.at + 1, len(self.states) - 1)

    @rule()
    def undo_and_redo_are_inverse(self) -> None:
        if self.document.undo():
            self.document.redo()
        if self.document.redo():
            self.document.undo()

    # -- what always holds

    @invariant()
    def the_history_is_exact(self) -> None:
        assert self.document.present is self.states[self.at]
        assert (self.document.undo_label is None) == (self.at == 0)
        assert (self.document.redo_label is None) == (self.at == len(self.states) - 1)

    @invariant()
    def the_graph_is_legal(self) -> None:
        assert not [p for p in check(self.document.graph) if p.severity == "error"]
        assert all(k in self.store for k in keys_of(self.document.graph))

    @invariant()
    def the_base_is_what_it_was(self) -> None:
        assert self.base is self.held.graph

    @rule()
    def replaying_gives_the_graph(self) -> None:
        fresh = replay(self.base, self.document.recipe, Context(self.store)).graph
        assert fresh == self.document.graph and fingerprint(fresh) == fingerprint(self.document.graph)

    @rule()
    def it_builds_and_runs(self) -> None:
        results = run(build(self.document.graph, self.store), self.held.fresh(2, 3))
        assert all(r.isfinite().all() for r in results)

    @rule()
    def saving_and_opening_gives_the_document(self) -> None:
        path = Path(self.folder.name) / "p.espalier"
        save_project(self.document.snapshot(), self.store, path)
        self.document.saved(path, self.document.present)
        assert not self.document.dirty
        opened = WeightStore(Path(self.folder.name) / "other")
        project = load_project(path, opened)
        assert project == self.document.snapshot()
        inputs = self.held.fresh(3, 3)
        assert same(run(build(project.graph, opened), inputs), run(build(self.document.graph, self.store), inputs))

    def teardown(self) -> None:
        if hasattr(self, "document"):
            while self.document.undo():
                pass
            assert self.document.present == State(Recipe(), self.base)
            while self.document.redo():
                pass
            assert self.document.present is self.states[-1]
            self.folder.cleanup()


TestEditing = Editing.TestCase
TestEditing.settings = settings(
    derandomize=True, max_examples=25, stateful_step_count=20, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)  # fmt: skip


# -- single rules of the document


@pytest.fixture
def document() -> Document:
    graph = case("mlp").graph
    return Document(Project(INFO, graph, Recipe(), graph), WeightStore(Path("unwritten")))


def state(document: Document, width: int, name: str = "first") -> State:
    recipe = with_format(document.recipe, (name,), "weight", Integer(width, 2))
    return State(recipe, replay(document.project.base, recipe, Context(document.store)).graph)


def test_edits_in_a_row_with_one_key_are_one_step(document: Document) -> None:
    start = document.present
    for width in (8, 7, 6):
        document.commit(f"w{width}", state(document, width), merge_key="slider")
    assert document.undo_label == "w6" and document.graph["first"].precision["weight"].format == Integer(6, 2)
    document.undo()
    assert document.present is start and document.undo() is None
    document.redo()
    assert document.graph["first"].precision["weight"].format == Integer(6, 2)


def test_what_ends_a_row(document: Document) -> None:
    """Another key, no key, an undo, a save: each begins a new step."""

    def steps_after(*actions: str) -> int:
        fresh = Document(document.project, document.store)
        for i, action in enumerate(actions):
            if action == "undo-redo":
                fresh.undo()
                fresh.redo()
            elif action == "undo":
                fresh.undo()
            elif action == "save":
                fresh.saved(Path("p"), fresh.present)
            else:
                fresh.commit("edit", state(fresh, 3 + i), merge_key=action or None)
        count = 0
        while fresh.undo():
            count += 1
        return count

    assert steps_after("a", "a", "a") == 1
    assert steps_after("a", "b", "a") == 3
    assert steps_after("", "") == 2
    assert steps_after("a", "save", "a") == 2
    assert steps_after("a", "b", "undo", "a") == 2


def test_an_edit_ends_redo(document: Document) -> None:
    document.commit("a", state(document, 8))
    document.undo()
    assert document.redo_label == "a"
    document.commit("b", state(document, 4))
    assert document.redo() is None and document.redo_label is None


def test_dirty_compares_states(document: Document) -> None:
    assert not document.dirty
    document.commit("a", state(document, 8))
    assert document.dirty
    document.undo()
    assert not document.dirty
    document.redo()
    document.saved(Path("p.espalier"), document.present)
    assert not document.dirty and document.path == Path("p.espalier")
    document.undo()
    assert document.dirty
    document.commit("again", State(replace(document.recipe), document.graph))
    assert document.redo_label == "a"  # an equal state is no edit


def test_saving_an_older_state_leaves_the_newer_one_dirty(document: Document) -> None:
    """An edit while the save runs."""
    document.commit("a", state(document, 8))
    sent = document.present
    document.commit("b", state(document, 4))
    document.saved(Path("p"), sent)
    assert document.dirty
    document.undo()
    assert not document.dirty


def test_history_has_a_limit(document: Document) -> None:
    graph = document.graph
    for i in range(LIMIT + 5):
        document.commit(str(i), State(Recipe((Step("x", None, i),)), graph))
    count = 0
    while document.undo():
        count += 1
    assert count == LIMIT and document.recipe.steps[0].seed == 4


def test_listeners_hear_each_change_once(document: Document) -> None:
    heard: list[Change] = []
    document.listeners.append(heard.append)
    document.commit("a", state(document, 8))
    document.commit("same", document.present)
    document.undo()
    document.undo()
    document.redo()
    assert [c.label for c in heard] == ["a", "a", "a"]
    assert [bool(c.delta) for c in heard] == [True, True, True]
    assert heard[0].delta.changed == ("first",) and heard[1].delta.changed == ("first",)
    assert heard[1].before is heard[0].after
    assert document.snapshot().graph is document.graph


# -- the recipe


def test_recipes_are_lists_of_steps() -> None:
    a, b, c = (Step(n, None) for n in "abc")
    recipe = Recipe().append(a, b).append(c)
    assert len(recipe) == 3 and recipe.active == (a, b, c)
    assert recipe.set(1, c).steps == (a, c, c) and recipe.remove(0).steps == (b, c)
    assert recipe.move(0, 2).steps == (b, c, a) and recipe.move(2, 0).steps == (c, a, b)
    assert recipe.move(1, 1) == recipe
    off = recipe.enable(1, False)
    assert off.active == (a, c) and len(off) == 3 and off.enable(1, True) == recipe
    assert recipe.common(recipe.append(a)) == 3 and recipe.common(recipe.set(1, a)) == 1
    assert recipe.common(Recipe()) == 0 and off.common(Recipe((a, c))) == 2
