"""The signs in the formulas of formats are explained, each once and in their order."""

from __future__ import annotations

import re

from espalier.app.features.inspector.terms import SIGNS, explain_formula
from espalier.model.registry import FORMATS


def test_signs_of_a_formula_in_their_order() -> None:
    words = explain_formula("clip(rne(x·2^f), −2^(w−1))·2^−f").splitlines()
    assert [w.partition(":")[0] for w in words] == ["clip", "rne", "f", "w"]
    assert "even" in words[1] and explain_formula("x") == ""


def test_every_function_in_a_formula_has_words() -> None:
    for _, fmt in FORMATS.items():
        called = {c for c in re.findall(r"([A-Za-z]+2?)\(", fmt.formula) if c.islower()}
        assert called <= SIGNS.keys(), fmt.name
