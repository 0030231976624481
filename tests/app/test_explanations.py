"""Every word of the window that is a term, a format, a pass, a cost or a column is explained by the guide's texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.app import explanations
from espalier.app.explanations import explain, explain_first, explain_within, titles
from espalier.app.features.allocate.choices import PORTS
from espalier.app.features.guide.pages import ROOT, headings, slug
from espalier.app.features.hardware.chart import COLUMNS as AREA_COLUMNS
from espalier.app.features.hardware.tree import COLUMNS as TREE_COLUMNS
from espalier.app.features.kernels.charts.ledger import COLUMNS as LEDGER_COLUMNS
from espalier.app.features.nodes.rows import row_of
from espalier.app.features.score.panel import ENTRIES
from espalier.app.features.search.state.trial_rows import columns_of
from espalier.app.features.sweep.points import LAST
from espalier.app.glossary import columns, common_words, terms
from espalier.app.number_text import column_title
from espalier.app.shell.workspaces import WORKSPACES
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.costs.base import COSTS
from tests.gui.conftest import small_graph

# The columns of the reports on a convolutional network with formats and zeros, as their passes give them.
REPORTS = (  # noqa: SIM905
    "abs_mean adapters allocated_bytes begins bitops bits blocked buffers bytes call calls candidate casts class "
    "columns cosine device_seconds dropped dtype elements empty_columns empty_rows first float_bytes flops format "
    "frozen gflop_s ideal intensity kept_l1 kind largest least level line macs masked max max_error mean "
    "mean_error measured members method min module most_of_4 node nodes noise norm not_finite op parameters "
    "pattern port precision predicted q01 q25 q50 q75 q99 recall restored role rounding rows sample samples "
    "saturated saving scope seconds shape share sigma_high sigma_low sizes sparsity speedup split spread sqnr_db "
    "std target tied trainable trainable_share underflow units variance version weight weight_bytes "
    "without_adapters zeros "
).split()


def headers() -> Iterator[str]:
    """The titles of the columns of the main tables, and of the figures of the status bar."""
    graph = small_graph()
    yield from map(column_title, row_of(next(iter(graph)), graph))
    yield from map(column_title, REPORTS)
    yield from (c.title for c in columns_of((), ()))
    yield from ("layer", *PORTS.values(), "KL")
    for names in (AREA_COLUMNS, TREE_COLUMNS, LEDGER_COLUMNS, LAST, ("kind", "node", "message", "hint")):
        yield from map(column_title, names)
    yield from (entry.label for entry in ENTRIES)


@pytest.mark.parametrize("title", sorted(set(headers())))
def test_every_column_of_the_main_tables_is_explained(title: str) -> None:
    assert explain(title), f"add {title!r} to resources/guide/glossary.md"


def test_every_format_is_explained_with_formula_and_source() -> None:
    for name, fmt in FORMATS.items():
        for word in (name, fmt.title, *fmt.aliases, *fmt.presets, fmt().label):
            entries = [e for e in explain(word) if e.kind == "format"]
            assert fmt.title in [e.title for e in entries], word
        entry = next(e for e in explain(fmt.title) if e.title == fmt.title and e.kind == "format")
        assert entry.formula == fmt.formula and entry.source == fmt.source and len(entry.text) > 10


def test_every_pass_and_cost_is_explained() -> None:
    for name, spec in PASSES.items():
        for word in (name, spec.title):
            assert any(e.kind == "pass" and e.title == spec.title for e in explain(word)), word
    for name, cost in COSTS.items():
        for word in (name, cost.title):
            entry = next(e for e in explain(word) if e.kind == "cost" and e.title == cost.title)
            assert entry.text.endswith("is better."), word


def test_every_link_leads_to_a_section_of_the_guide() -> None:
    common = (word for table in common_words().values() for word in table)
    words = {*terms(), *common, *FORMATS, *PASSES, *(name for name, _ in COSTS.items())}
    for entry in {e for word in words for e in explain(word)}:
        page = ROOT / entry.page
        assert page.is_file(), entry
        if entry.section:
            found = {slug(h) for h in headings(page.read_text(encoding="utf-8"))}
            assert entry.section in found, entry


def test_operations_and_fp32_are_explained_and_workspaces_are_no_passes() -> None:
    assert explain("fp32")[0].kind == "term" and "32 bits" in explain("fp32")[0].text
    assert explain("linear")[0].kind == "operation" and explain("layer_norm")[0].kind == "operation"
    tables = common_words()
    assert set(tables) == {"column", "operation", "workspace"} and all(tables.values())
    assert {w.casefold() for w in tables["workspace"]} == {f"workspace {w.title}".casefold() for w in WORKSPACES}
    assert [e.kind for e in explain("workspace Graph")] == ["workspace"]


def test_the_texts_are_those_of_the_guide_and_of_the_definitions() -> None:
    """No copy: an explanation repeats what its source says, word for word."""
    source = Path(inspect.getfile(explanations)).read_text(encoding="utf-8")
    page = (ROOT / "glossary.md").read_text(encoding="utf-8").casefold()
    for word in (*terms(), *columns()):
        entry = next(e for e in explain(word) if e.kind in ("term", "column"))
        assert entry.text.rstrip(".").casefold() in page and entry.text not in source
    assert explain("gptq")[1].text.split(".")[0] in " ".join((PASSES.get("gptq").doc or "").split())


@pytest.mark.parametrize("label,title", [
    ("mxint4/32", "MXINT"), ("int8 channel", "Scaled integer"), ("bm E4M3/16", "Block minifloat"),
    ("dn E4M3 fitted", "Minifloat (denormalised)"), ("0 ±α channel", "Ternary"), ("SQNR (dB)", "SQNR"),
    ("worst sqnr db", "SQNR"), ("zeros before", "zeros"), ("Output ▴", "output"), ("as 3", "as"),
])  # fmt: skip
def test_labels_are_explained_as_what_they_show(label: str, title: str) -> None:
    assert title in [e.title for e in explain(label)]


def test_other_words_are_not_explained() -> None:
    for word in ("", "xyzzy", "Espalier", "  ", "…", "a" * 10_000, "encoder.layer.0.attention"):
        assert explain(word) == ()
    assert explain_first(["xyzzy", "MXINT", "GPTQ"])[0] == "MXINT"
    assert explain_first(["xyzzy"]) == ("xyzzy", ()) and explain_first([]) == ("", ())
    assert explain_within("Lower the SQNR of it")[0] == "SQNR" and explain_within("nothing here") == ("", ())


def test_titles_are_all_explained() -> None:
    assert len(set(titles())) > 90
    assert not [t for t in titles() if not explain(t)]
