"""*Model → Quantise KV cache*: the form, the step in the recipe, the nodes of the graph, undo and an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.app.features.options.panel import OptionsWindow
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe
from espalier.model.opening import open_any
from espalier.passes.choices.kv_cache import KVCacheOptions
from tests.gui.conftest import FakeRunner, open_small
from tests.language_models import write_model

pytestmark = pytest.mark.gui


def caches_of(window: Window) -> dict[str, str]:
    """Id of each cache → its format as text."""
    document = window.session.document
    assert document is not None
    return {n.id: str(n.precision["data_out"].format) for n in document.graph if n.op == "kv_cache" and n.precision}


def form_of(window: Window) -> OptionsWindow:
    action = next(r for r in window.actions_table.rows if r.id == "kv_cache")
    assert (action.menu, action.title, action.section) == ("Model", "Quantise KV cache…", "Quantise")
    window.actions_table.run("kv_cache")
    (form,) = [w for w in window.findChildren(OptionsWindow) if w.isVisible()]
    return form


@pytest.mark.slow
def test_the_form_quantises_the_cache_of_a_language_model(
    window: Window, runner: list[FakeRunner], tmp_path: Path
) -> None:
    write_model(tmp_path / "model")
    project = open_any(str(tmp_path / "model"), tmp_path / "work").project
    open_small(window, runner, project)
    form = form_of(window)
    form._form.put(KVCacheOptions("int8", "int4", context=1000))  # type: ignore[attr-defined]
    form.apply()
    assert form.isHidden()
    assert sorted(f.partition(",")[0] for f in caches_of(window).values()) == [
        "scaled_integer(width=4",
        "scaled_integer(width=8",
    ]
    document = window.session.document
    assert document is not None and [s.pass_name for s in document.recipe.steps] == ["kv_cache"]
    window.session.undo()
    assert document.recipe == Recipe() and not any(n.op == "kv_cache" for n in document.graph)
    window.session.redo()
    assert len(caches_of(window)) == 2


def test_a_model_without_a_cache_keeps_the_form_open_and_says_why(opened: Window) -> None:
    form = form_of(opened)
    form.apply()
    assert form.isVisible() and "keys and values a cache could hold" in form._error.text()
    form.close()
