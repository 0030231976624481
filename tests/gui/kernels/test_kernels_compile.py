"""The tab Compile: parts, missing compilers, calls and where lines cross."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItemModel

from espalier.app.features.kernels.charts.compile_payback import EACH, Calls, break_even
from espalier.app.features.kernels.compile import MODULE, SELECTED, inconclusive
from espalier.app.features.kernels.state.measurement import from_bytes
from espalier.app.shell.window import Window
from espalier.model.document.codec import encode
from espalier.passes.analysis.compile import CompileOptions
from espalier.passes.base import Report
from tests.gui.conftest import FakeRunner
from tests.gui.kernels.measured_tabs import compiling, finish

pytestmark = pytest.mark.gui


CALLS = {"eager": {"first": 0.004, "later": [0.003, 0.002, 0.0025]},
         "captured": {"first": 0.5, "later": [0.002, 0.002, 0.0021]},
         "compiled": {"first": 2.004, "later": [0.0012, 0.001, 0.0011]}}  # fmt: skip


def compile_report(**more: Any) -> Report:
    rows = tuple({"version": n, "first": c["first"], "seconds": sorted(c["later"])[1], "least": min(c["later"]),
                  "spread": 0.1, "calls": 3, "speedup": 0.002 / min(c["later"])} for n, c in CALLS.items())  # fmt: skip
    summary = {"graphs": 2, "breaks": "a; b", "break_even_calls": 2001, "speedup": 2.0, "compile_seconds": 2.0,
               "max_error": 1e-6, "products_share": 0.4, "operations": 7, "backend": "inductor", "mode": "default",
               "device": "cpu", "part": "", "why": "Compiled code takes 50% of the eager time.", **more}  # fmt: skip
    return Report("compile", rows, summary)


def test_a_ratio_of_an_earlier_project_is_the_speedup() -> None:
    row = dict.fromkeys(["version", "first", "seconds", "spread", "least", "calls"], 1) | {"ratio": 1.5}
    names = "break_even_calls compile_seconds max_error graphs backend mode device why operations products_share"
    data = {"version": 1, "options": encode(CompileOptions()), "rows": [row], "more": {}, "mark": "",
            "summary": dict.fromkeys(names.split(), 1) | {"ratio": 2.5}}  # fmt: skip
    made = from_bytes(json.dumps(data).encode(), CompileOptions, "compile")
    assert made.summary["speedup"] == 2.5 and made.rows[0]["speedup"] == 1.5 and "ratio" not in made.summary


def test_a_part_is_what_was_chosen(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    model = page.part.model()
    assert isinstance(model, QStandardItemModel)
    assert not model.item(1).isEnabled() and "No node" in page.part.itemData(1, Qt.ItemDataRole.ToolTipRole)
    small.session.select(("fc1", "fc2"))
    assert model.item(1).isEnabled() and page.part.itemText(1) == "the selected 2 nodes"
    for way, part in ((SELECTED, "fc1, fc2"), (MODULE, "drop"), ("", "")):
        page.part.put(way)
        page._offer_part()
        page.module.setText("drop")
        assert page.module.isVisibleTo(page) == (way == MODULE) and page.options().part == part
    page.part.put(MODULE)
    page.module.setText(" ")
    told: list[Any] = []
    small.session.problem.connect(told.append)
    page.run()
    assert "No module" in str(told[0]) and page.state.job is None


def test_a_missing_compiler_is_told(small: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    from espalier.app.features.kernels import compile as kernels_compile

    monkeypatch.setattr(kernels_compile, "has_compiler", lambda: False)
    page = compiling(small)
    backend = page.form.editors["backend"]
    at = backend.values.index("inductor")
    model = backend.model()
    assert isinstance(model, QStandardItemModel) and not model.item(at).isEnabled()
    assert page.lacking.isVisibleTo(page) and "apt install g++" in page.lacking.text()
    assert "C++ compiler" in backend.itemData(at, Qt.ItemDataRole.ToolTipRole) and backend.get() != "inductor"
    assert not page.form.editors["mode"].isEnabled(), "modes are of inductor"


def test_compiling_is_told_call_by_call(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    page.run()
    finish(runner, "compile", compile_report(), calls=CALLS, breaks=["a (forward, line 3)", "b"])
    words = page.summary_label.text()
    assert "2 × as fast as eager" in words and "2\u2009001 calls" in words and "2 graphs" in words
    assert [r["version"] for r in page.versions.rows.shown] == list(CALLS)
    assert page.versions.rows.shown[2]["first (ms)"] == 2004.0
    calls = page.calls.rows.shown
    assert [r["call"] for r in calls] == [1, 2, 3, 4] and calls[0]["compiled (ms)"] == 2004.0
    assert "forward, line 3" in page.why.text() and "50% of the eager" in page.why.text()
    assert page.chart.even == pytest.approx(2001) and "2\u2009001 calls" in page.chart.legend()
    assert "after 5 calls\neager: 12" in page.chart.tooltip_at(5.2)
    page.kind.put(EACH)
    page.kind.edited.emit()
    assert page.chart.reach == 4 and "captured" in page.chart.legend()
    assert "call 1, the first" in page.chart.tooltip_at(1) and "2\u2009s" in page.chart.tooltip_at(1)
    assert len(page.chart.table()[1]) == 12


def test_times_that_scatter_give_no_verdict(small: Window, runner: list[FakeRunner]) -> None:
    page = compiling(small)
    page.form.editors["backend"].put("aot_eager")
    page.run()
    assert "seconds to minutes" in page._empty.text() and "Not compiled" not in page._empty.text()
    held = compile_report()
    finish(runner, "compile", held, calls=CALLS)
    assert "✓" in page.summary_label.text() and "scatter" not in page.summary_label.text()
    page.run()
    noisy = replace(held, rows=tuple({**r, "seconds": 0.8, "spread": 0.3} for r in held.rows))
    finish(runner, "compile", noisy, calls=CALLS)
    assert (
        "✓" not in page.summary_label.text()
        and "2 × as fast as eager, inconclusive: times vary" in page.summary_label.text()
    )
    apart = [{**r, "spread": 0.3, "seconds": s} for r, s in zip(held.rows, (9.0, 2.0, 1.0), strict=True)]
    assert not inconclusive(apart)  # no scatter makes these alike


def test_where_lines_cross() -> None:
    eager, compiled = Calls("eager", 1.0, (0.5, 0.4)), Calls("compiled", 3.0, (0.3, 0.2))
    even = break_even(eager, compiled)
    assert even == pytest.approx(11) and eager.summed(even) == pytest.approx(compiled.summed(even))
    assert break_even(compiled, eager) is None
    assert break_even(Calls("eager", 9.0, (0.5,)), compiled) == 1.0
