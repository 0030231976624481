"""Figures and steps in words, and settings that survive foreign values."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QSettings

from espalier.app import number_text
from espalier.app.settings import Settings, is_missing
from espalier.app.step_text import result, summary, title
from espalier.model.document.recipe import Raw, Step
from espalier.model.formats.integer import Integer
from espalier.passes.base import NoOptions, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select

T = number_text.THIN


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (number_text.count(16512), f"16{T}512"),
        (number_text.plural(1, "node"), "1 node"),
        (number_text.mebibytes(430_000), f"0.41{T}MiB"),
        (number_text.mebibytes(66_560), f"65.0{T}KiB"),
        (number_text.scaled(620_000_000), f"620.00{T}M"),
        (number_text.signed(-0.004, 2), "±0"),
        (number_text.signed(-0.4, 1), "−0.4"),
        (number_text.duration(0.03), f"30{T}ms"),
        (number_text.duration(125), f"2{T}min 5{T}s"),
        (number_text.left(4000), f"67{T}min left"),
        (number_text.cell(("batch", 16)), "batch × 16"),
        (number_text.cell(float("nan")), "NaN"),
        (number_text.cell(1e-7), "1e−7"),
        (number_text.cell(None), ""),
    ],
)
def test_figures_in_words(got: str, text: str) -> None:
    assert got == text


def test_steps_in_words() -> None:
    eight = Integer(8, 4)
    mixed = QuantizeOptions((Rule(Select("name", ("a.query",)), {"weight": eight, "bias": None}),))
    assert summary(Step("quantize", mixed)) == "a.query · weight int 8/4, bias float"
    same = QuantizeOptions((Rule(Select("type", ("linear",)), {p: eight for p in ("data_in", "weight", "bias")}),))
    assert summary(Step("quantize", same)) == "type linear · int 8/4"
    free = QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": eight}, "identity"),))
    assert summary(Step("quantize", free)) == "type linear · weight int 8/4 · gradient identity"
    assert summary(Step("prune", PruneOptions(0.3))) == f"all nodes · l1 · local · 30{T}%"
    assert summary(Step("remove_dropout", NoOptions())) == ""
    assert title(Step("gone", Raw({}))) == "gone (not available)"
    assert result(Report("remove_dropout", (), {"removed": 6})) == "6 nodes removed"
    rows = ({"kind": "neurons"}, {"kind": "branch"})
    assert result(Report("remove_pruned", rows, {"removed": 576, "nodes": 9})) == "576 units and 1 branch removed"
    assert result(Report("remove_pruned", rows[:1], {"removed": 576, "nodes": 0})) == "576 units removed"
    assert result(Report("remove_pruned", (), {"removed": 0, "warning": "Nothing removed."})) == "Nothing removed."
    assert result(Report("remove_layers", (), {"removed": 2, "nodes": 30})) == "2 layers removed"


def test_settings_ignore_foreign_values(tmp_path: object) -> None:
    store = QSettings(f"{tmp_path}/s.ini", QSettings.Format.IniFormat)
    store.setValue("theme", "pink")
    store.setValue("recent", "only")
    settings = Settings(store)
    assert settings.mode == "system" and settings.recent == ["only"] and settings.layout() is None
    for i in range(15):
        settings.add_recent(str(i))
    assert settings.recent[0] == "14" and len(settings.recent) == 10


def test_missing_recent_entries() -> None:
    assert is_missing("/nowhere/a.espalier") and is_missing("/nowhere/f.py:make")
    assert not is_missing("demo:reviews") and not is_missing("config:bert?x=1") and not is_missing("/tmp")
