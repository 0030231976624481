"""Forms: any options come back as they were put in, and impossible input is told in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from espalier.app.features.options.panel import make_form
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.forms.format_editor import FormatEditor
from espalier.app.widgets.forms.grouped_form import GroupedForm
from espalier.model.data.preview import DataPreview
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.integer import Integer
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import PORTS, QuantizeOptions, Rule
from espalier.passes.select import Select
from espalier.passes.transform.finetune import FinetuneOptions

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = st.text("abcdefghijklmnop._0123456789", min_size=1, max_size=12)
SELECTS = st.one_of(
    st.just(Select()),
    st.builds(Select, st.sampled_from(["type", "name", "module"]), st.lists(WORDS, min_size=1, max_size=3).map(tuple)),
)
INTEGERS = st.builds(
    Integer, st.integers(1, 32), st.integers(-32, 64), st.booleans(), st.sampled_from(["nearest_even", "floor"])
)
RULES = st.builds(Rule, SELECTS, st.dictionaries(st.sampled_from(PORTS), st.none() | INTEGERS))
PRUNE = st.builds(
    PruneOptions, st.floats(0, 1), st.sampled_from(["l1", "random"]), st.sampled_from(["local", "global"]), SELECTS
)
QUANTIZE = st.builds(QuantizeOptions, st.lists(RULES, max_size=3).map(tuple))


@dataclass(frozen=True, slots=True)
class Inner:
    """A dataclass inside options."""

    rate: float = 0.1


@dataclass(frozen=True, slots=True)
class Wide:
    """One field of every kind."""

    count: int = field(default=3, metadata={"min": 1, "max": 9, "help": "how many"})
    seed: int | None = None
    on: bool = True
    maybe: bool | None = None
    name: str = ""
    note: str | None = None
    mode: Literal["a", "b_c"] = "a"
    words: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1, 2)
    fmt: Format | None = None
    inner: Inner = Inner()
    table: dict[str, float] = field(default_factory=dict)


WIDE = st.builds(
    Wide,
    st.integers(1, 9), st.none() | st.integers(), st.booleans(), st.none() | st.booleans(), WORDS, st.none() | WORDS,
    st.sampled_from(["a", "b_c"]), st.lists(WORDS).map(tuple), st.lists(st.integers()).map(tuple),
    st.none() | INTEGERS, st.builds(Inner, st.floats(allow_nan=False, allow_infinity=False)),
    st.dictionaries(WORDS, st.floats(allow_nan=False, allow_infinity=False)),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.gui
@SETTINGS
@given(options=st.one_of(PRUNE, QUANTIZE, WIDE))
def test_options_come_back_as_they_were(qtbot: QtBot, options: Any) -> None:
    form = Form(type(options), options)
    assert form.error == "" and form.value() == options
    form.deleteLater()


@pytest.mark.slow
@pytest.mark.gui
@SETTINGS
@given(first=QUANTIZE, second=QUANTIZE)
def test_a_form_shows_another_value(qtbot: QtBot, first: QuantizeOptions, second: QuantizeOptions) -> None:
    form = Form(QuantizeOptions, first)
    form.put(second)
    assert form.value() == second
    form.deleteLater()


@pytest.mark.gui
@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_has_a_form_of_its_defaults(qtbot: QtBot, name: str) -> None:
    kind = PASSES.get(name).options
    form = Form(kind)
    qtbot.addWidget(form)
    assert form.value() == kind()


@pytest.mark.gui
@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("compact", [False, True])
def test_every_format_can_be_edited(qtbot: QtBot, name: str, compact: bool) -> None:
    editor = FormatEditor(compact)
    qtbot.addWidget(editor)
    wanted = FORMATS.get(name)()
    editor.put(wanted)
    assert editor.value() == wanted
    editor.put(None)
    assert editor.value() is None


@pytest.mark.gui
def test_impossible_input_is_told(qtbot: QtBot) -> None:
    form = Form(PruneOptions)
    qtbot.addWidget(form)
    heard: list[int] = []
    form.changed.connect(lambda: heard.append(1))
    number = form.editors["sparsity"]
    number.selectAll()
    QTest.keyClicks(number, "7")
    assert heard and "from 0 to 1" in form.error and form.wrong.text() == form.error
    number.selectAll()
    QTest.keyClicks(number, "0.25")
    assert form.error == "" and form.value().sparsity == 0.25


@pytest.mark.gui
def test_an_impossible_pattern_is_told(qtbot: QtBot) -> None:
    form = Form(PruneOptions)
    qtbot.addWidget(form)
    select = form.editors["select"]
    select.by.put("regex")
    select.values.put(("(",))
    assert "regular expression" in form.error
    select.values.put(())
    assert "selection is empty" in form.error


@pytest.mark.gui
def test_rules_are_added_and_removed(qtbot: QtBot) -> None:
    form = Form(QuantizeOptions)
    qtbot.addWidget(form)
    rules = form.editors["rules"]
    rules._add.click()
    rules.forms[0].editors["formats"].rows["weight"].choice.put("integer")
    rules.forms[0].editors["formats"].rows["weight"]._format_chosen()
    assert form.value() == QuantizeOptions((Rule(Select(), {"weight": Integer()}),))
    rules._removed(rules.forms[0])
    assert form.value() == QuantizeOptions()


@pytest.mark.gui
def test_the_width_is_kept_when_the_format_changes(qtbot: QtBot) -> None:
    editor = FormatEditor()
    qtbot.addWidget(editor)
    editor.put(Integer(12, 3))
    editor.choice.put("float")
    editor._format_chosen()
    editor.choice.put("integer")
    editor._format_chosen()
    found = editor.value()
    assert isinstance(found, Integer) and found.width == 12


def test_a_split_left_empty_says_what_its_pass_takes(qtbot: QtBot) -> None:
    form = Form(FinetuneOptions)
    qtbot.addWidget(form)
    found = DataPreview(splits=("train", "test"), guesses={"split": "test"})
    for name, default in (("train_split", "train"), ("validation_split", "validation")):
        editor = form.editors[name]
        editor.show_names(found)
        assert editor.choice.itemText(0) == f"{default} (default)" and editor.get() == ""


@pytest.mark.slow
@SETTINGS
@given(st.lists(SELECTS, max_size=3).map(tuple))
def test_several_selections_come_back_as_they_were_put_in(qtbot: QtBot, chosen: tuple[Select, ...]) -> None:
    form = Form(FinetuneOptions, FinetuneOptions(freeze=chosen))
    qtbot.addWidget(form)
    assert form.value().freeze == chosen


def test_a_selection_is_added_edited_and_removed(qtbot: QtBot) -> None:
    form = Form(FinetuneOptions)
    qtbot.addWidget(form)
    rows, heard = form.editors["freeze"], []
    form.changed.connect(lambda: heard.append(1))
    rows._add.click()
    assert rows._add.text() == "Add selection" and form.value().freeze == (Select("type", ("linear",)),)
    rows.forms[0].values.put(["embedding"])
    assert form.value().freeze == (Select("type", ("embedding",)),) and heard
    next(b for b in rows.findChildren(QPushButton) if b.text() == "Remove").click()
    assert form.value().freeze == ()


def test_a_number_whose_zero_means_something_says_so(qtbot: QtBot) -> None:
    form = Form(FinetuneOptions, only=("max_steps",))
    qtbot.addWidget(form)
    steps = form.editors["max_steps"]
    assert steps.text() == "" and steps.placeholderText() == "by epochs" and steps.get() == 0
    steps.put(300)
    assert steps.text() == "300"
    steps.clear()
    steps.textEdited.emit("")
    assert steps.get() == 0 and not steps.property("wrong")


def test_a_training_step_is_edited_in_parts(qtbot: QtBot) -> None:
    options = FinetuneOptions(data="demo:reviews", patience=3, freeze=(Select("type", ("embedding",)),))
    form = make_form(options, cast("Any", SimpleNamespace(document=None)))
    qtbot.addWidget(form)
    assert isinstance(form, GroupedForm) and form.value() == options
    assert "patience" in form.folds["Validation and early stopping"].head.text()


def test_several_formats_are_text_as_a_search_has_it(qtbot: QtBot) -> None:
    form = Form(SensitivityOptions)
    qtbot.addWidget(form)
    line = form.editors["formats"]
    assert line.text() == "" and "mxint" in line.placeholderText() and form.value().formats == ()
    QTest.keyClicks(line, "integer(width=3|4), mxint(width=4)")
    assert form.value().formats == (Integer(3), Integer(4), parse_format("mxint(width=4)"))
    form.put(form.value())
    assert form.value().formats == (Integer(3), Integer(4), parse_format("mxint(width=4)"))
    for text, words in (("wrong", "formats: There is no format 'wrong'."), ("float", "float cannot be varied here")):
        line.clear()
        QTest.keyClicks(line, text)
        assert words in form.error and form.wrong.text() == form.error


def test_pruning_asks_for_data_where_the_method_looks_at_it(qtbot: QtBot) -> None:
    form = Form(PruneOptions)
    qtbot.addWidget(form)
    for method, asked in (("l1", False), ("wanda", True), ("random", False), ("movement", True)):
        form.put(PruneOptions(method=method, data="demo:digits"))  # type: ignore[arg-type]
        shown = {n: form.editors[n].isVisibleTo(form) for n in ("data", "split", "limit", "batch_size")}
        assert set(shown.values()) == {asked}, (method, shown)
        assert form.value().data == "demo:digits", "what is hidden is kept"
