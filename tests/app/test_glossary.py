"""The glossary as tooltips show it."""

from __future__ import annotations

import pytest

from espalier.app.features.guide.pages import ROOT
from espalier.app.glossary import COLUMNS, columns, line_at, meaning


def test_every_row_of_the_page_is_a_term() -> None:
    rows = (ROOT / "glossary.md").read_text(encoding="utf-8").partition(COLUMNS)[0].splitlines()
    names = [n for r in rows if r.startswith("| ") and "---" not in r for n in r[2:].partition(" |")[0].split(", ")][1:]
    assert len(names) > 35 and all(meaning(n.partition(" (")[0]) for n in names)


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("Ports", "port: an operand or result"),
        ("SPARSITY", "sparsity: zeros over elements"),
        ("BFP", "block floating point (BFP): numbers"),
        ("n:m", "n:m: n kept of every m"),
        ("E2M1", "E2M1: small floats"),
        ("lora", ""),  # a name in capitals is written so
        ("widths", ""),
        ("", ""),
    ],
)
def test_a_label_is_a_term_also_with_a_capital_or_in_the_plural(word: str, line: str) -> None:
    assert meaning(word).startswith(line) and bool(meaning(word)) == bool(line)


def test_a_term_of_several_words_comes_before_one_of_its_words() -> None:
    text = "A format-like word; block floating point and trials."
    assert line_at(text, text.index("floating")).startswith("block floating point")
    assert line_at(text, text.index("trials") + 5).startswith("trial: ")
    assert line_at(text, text.index("format")) == "" == line_at(text, text.index("word")) == line_at(text, 500)


def test_without_the_guide_nothing_is_a_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.app.glossary.terms", dict)
    assert meaning("trial") == "" == line_at("a trial", 3)


def test_columns_are_no_terms_of_tooltips() -> None:
    assert columns()["macs"] == "macs: multiply–accumulate operations of one sample"
    assert meaning("output") == "" and meaning("node") == "" and meaning("sparsity")
