"""Texts of passes in cells of reports: translated where they are shown, while names and values stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from espalier.app.cell_text import cell_text, has_texts, reason
from espalier.app.number_text import shown
from espalier.app.translation import install
from espalier.passes.export.targets import TARGETS
from espalier.passes.export.targets.report import HELD
from tests.texts.extract import texts

GERMAN = {
    "held": "enthalten",
    "linear": "LINEAR",
    "it has no stored bias": "kein Bias gespeichert",
    "it shares its bias with {}": "teilt den Bias mit {}",
    "float": "Gleitkomma",
    "{} weights": "Gewichte von {}",
    "it is padded": "aufgefüllt",
    "codes": "Kodes",
}


@pytest.fixture
def german() -> Iterator[None]:
    install(lambda text, number: GERMAN.get(text, ""), GERMAN)
    yield
    install(None)


def test_english_is_unchanged() -> None:
    text = "conv1: it is padded; it has no stored bias"
    assert reason(text) == text == cell_text("note", text)


@pytest.mark.usefixtures("german")
def test_texts_are_translated_and_names_are_not() -> None:
    assert cell_text("skipped", "it shares its bias with fc1") == "teilt den Bias mit fc1"
    assert cell_text("blocked", "linear: it is padded") == "linear: aufgefüllt"  # a node with the name of a text
    assert cell_text("node", "linear") == cell_text("op", "linear") == cell_text("module", "linear") == "linear"
    assert cell_text("line", "float: batch_norm weights") == "Gleitkomma: Gewichte von batch_norm"
    assert cell_text("note", "it is padded; unknown; it has no stored bias") == (
        "aufgefüllt; unknown; kein Bias gespeichert"
    )
    assert shown("kind", "codes") == "Kodes" and shown("label", "codes") == "codes" and shown("kind", 3) == "3"


@pytest.mark.usefixtures("german")
def test_columns_of_targets_hold_texts() -> None:
    assert all(has_texts(name) and cell_text(name, HELD) == "enthalten" for name, _ in TARGETS.items())


def test_a_text_is_looked_up_once() -> None:
    """However many rows hold it."""
    asked: list[str] = []

    def lookup(text: str, number: int) -> str:
        asked.append(text)
        return GERMAN.get(text, "")

    install(lookup, GERMAN)
    try:
        for at in range(50_000):
            cell_text("skipped", f"it shares its bias with fc{at % 300}")
    finally:
        install(None)
    assert len(asked) < 1000


@pytest.mark.slow
def test_texts_of_cells_are_extracted() -> None:
    """Words and sentences that passes put into cells, and the titles of their columns."""
    extracted = {t for t, _ in texts()}
    assert extracted >= {
        "held", "not square", "one stays", "codes", "parameter", "channels", "kept", "{} weights", "model in memory",
        "it has no stored bias", "it shares its bias with {}", "it is an output of the model", "own weights",
        "step ms", "median length", "worst SQNR (dB)",
    }  # fmt: skip
