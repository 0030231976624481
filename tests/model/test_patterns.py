"""Regular expressions mean what `re` means by them, and none takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.model.errors import OptionsError
from espalier.model.patterns import Patterns, check, comma_parts
from tests.patience import budget

TEXTS = ("", "a", "aa", "a{e}", "a{1<=e<=2}", "a{}", "a{1,2,3}", "a\\{e}", "{", "query\n", "straße", "STRASSE",
         "bert.encoder.layer.0.attention.self.query", "bert_encoder_layer_11_dense", "conv1", "Straße_2")  # fmt: skip
KNOWN = (
    "a{e}", "a{1<=e<=2}", "a{2}", "a{1,}", "a{,2}", "a{,}", "a{}", "a{", r"a\{e}", r"a\\{e}", "[{e]", "a{1,2,3}", "{",
    r"layer\.\d+\.", r"^conv\d$", "query$", r"query\Z", r"(?i)STRASSE", r"(?i)straße", r"\w+ß", r"(?<=self\.)query",
    r"(?!bert)", r"(\w)\1", r"[[a]", r"[a&&b]", r"[a~~]", r"(?P<x>e)(?P=x)", r"\bquery\b", r"layer\.(?:0|1)\b",
    r"(?s:.)", r"(?x) a  # a comment", r"a++", r"(?>a+)a", r"", r"|", r"\d", r"[^\W\d_]+_", r"(?a)\w+ß",
)  # fmt: skip
ENDLESS = (r"^(\w+)+!$", "^(a|a)*$", "(?:x+x+)+y", r"^((\w*)*)*!", r"(.*)*\1!$", "(?=(a+)+b)(a+)+b$")


@pytest.mark.parametrize("pattern", KNOWN)
@pytest.mark.filterwarnings("ignore:Possible")
def test_a_pattern_finds_what_it_finds_with_re(pattern: str) -> None:
    patterns = Patterns([pattern])
    for text in TEXTS:
        assert (patterns.first(text) is not None) == bool(re.search(pattern, text)), text


@pytest.mark.parametrize("pattern", ENDLESS)
def test_an_endless_pattern_ends(pattern: str) -> None:
    patterns, start, faults = Patterns([pattern]), time.thread_time(), 0
    for number in range(200):
        try:
            patterns.first("ax" * 20 + "a" * 40 + "x" * 40 + str(number))
        except OptionsError as error:
            faults += 1
            assert repr(pattern) in error.message and error.hint
    assert time.thread_time() - start < budget(1.5)
    assert faults in (0, 200) or faults > 100  # a spent limit stays spent


@pytest.mark.parametrize(("pattern", "words"), [
    ("(?:(?:(?:a{1000}){1000}){1000}){1000}", "counts"), ("(" * 4000 + ")" * 4000, "nests"), ("a" * 20_000, "20000"),
    ("a{99999999999999999999}", "not a regular"), ("[", "not a regular"), ("(?R)", "not a regular"),
    ("a{9999999}", "counts"),
])  # fmt: skip
def test_a_pattern_too_large_is_refused(pattern: str, words: str) -> None:
    start = time.thread_time()
    with pytest.raises(OptionsError, match=words) as caught:
        check(pattern)
    assert len(caught.value.message) < 200 and time.thread_time() - start < budget(0.5)


def test_the_first_pattern_that_occurs_is_told() -> None:
    assert Patterns(["b", "a"]).first("ab") == "b" and Patterns(["c"]).first("ab") is None


@given(st.text("a,()[]", max_size=30))
def test_commas_outside_brackets(text: str) -> None:
    assert comma_parts(text) == re.split(r",(?![^\[(]*[\])])", text)


def test_many_commas_cost_little() -> None:
    start = time.thread_time()
    assert len(comma_parts("," * 200_000)) == 200_001
    assert time.thread_time() - start < budget(1)
