"""Texts in another language: places, plural forms, messages by patterns; and what a bad translation cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.app import number_text, translation
from espalier.app.number_text import counted
from espalier.app.translation import english, error_text, install, message, places, tr, translated, values_of
from espalier.model.errors import OptionsError

Install = Callable[..., None]


@pytest.fixture
def speak() -> Iterator[Install]:
    """Installs translations, given by their English text; English comes back with the end of the test."""

    def put(
        texts: dict[str, str], messages: tuple[str, ...] = (), forms: dict[str, tuple[str, str]] | None = None
    ) -> None:
        def lookup(text: str, number: int) -> str:
            return (forms or {}).get(text, ("", ""))[number != 1] if number >= 0 else texts.get(text, "")

        install(lookup, messages)

    yield put
    install(None)


def test_english_without_a_catalogue() -> None:
    assert tr("Remove {:.2g}", 0.25) == "Remove 0.25" and tr("a {b} c") == "a {b} c"
    assert tr("{:.{}f} of {}", 1.5, 3, "x") == "1.500 of x" and message("Any text.") == "Any text."


def test_places_may_change_their_order(speak: Install) -> None:
    speak({"{} of {}": "von {1}: {0}", "{:.{}f} s": "{0:.{1}f} Sek."})
    assert tr("{} of {}", 2, 7) == "von 7: 2" and tr("{:.{}f} s", 1.25, 1) == "1.2 Sek."


@pytest.mark.parametrize(
    "bad",
    [
        "von {}",
        "{} von {} {}",
        "{0.__class__} {1}",
        "{a} {b}",
        "{:>99999999} {}",
        "{!r} {}",
        "{} {",
        "}{}{}",
        "{0} {0}",
        "",
    ],
)
def test_a_translation_with_other_places_is_ignored(speak: Install, bad: str) -> None:
    speak({"{} of {}": bad})
    assert tr("{} of {}", 2, 7) == "2 of 7"


@given(st.text(alphabet="{}0123:!rs.a ", max_size=24))
def test_no_translation_can_raise(bad: str) -> None:
    install(lambda text, _: bad)
    try:
        assert tr("{} of {:.1f}", "a", 2.0)
    finally:
        install(None)


def test_constants_keep_their_keys(speak: Install) -> None:
    speak({"all": "alle", "one": "eins"})
    assert translated({"all": "all", "n": ("one", 1, ["all"])}) == {"all": "alle", "n": ("eins", 1, ["alle"])}


def test_what_is_translated_is_not_translated_again(speak: Install) -> None:
    speak({"size": "Größe", "Größe": "wrong"})
    assert tr(tr("size")) == "Größe" and english("Größe") == "size" and english("other") == "other"


def test_numbers_have_forms(speak: Install) -> None:
    speak({}, forms={"%n node": ("%n Knoten", "%n Knoten"), "%n file": ("%n Datei", "%n Dateien")})
    assert number_text.plural(1, "file") == "1 Datei" and number_text.plural(1200, "file") == "1\u2009200 Dateien"
    assert number_text.plural(2, "class", "classes") == "2 classes"


def test_messages_are_found_by_their_pattern(speak: Install) -> None:
    patterns = ("There is no panel {}.", "Panels: {}.", "{}: {}")
    speak({"There is no panel {}.": "Kein Feld {}.", "Choose one.": "Wähle eins.", "{}: {}": "never"}, patterns)
    error = OptionsError("There is no panel 'x'.", "Choose one.")
    assert error_text(error) == "Kein Feld 'x'. Wähle eins." == message(str(error))
    assert message("panel: There is no panel 'x'.") == "panel: Kein Feld 'x'." and message("Unknown.") == "Unknown."
    assert error.message == "There is no panel 'x'."  # the error itself stays English


@given(st.lists(st.text(alphabet="ab {}.", max_size=5), min_size=2, max_size=4), st.text(alphabet="xyz", max_size=5))
def test_values_give_their_text_again(parts: list[str], value: str) -> None:
    """Whatever is found between the parts of a pattern makes the text anew."""
    parts = [p.replace("{}", "") for p in parts]
    pattern = "{}".join(parts)
    text = value.join(parts)
    if pattern.count("{}") == len(parts) - 1:
        values = values_of(pattern, text)
        assert values is not None
        assert "".join(a + b for a, b in zip(pattern.split("{}"), [*values, ""], strict=True)) == text


def test_a_long_message_takes_no_long() -> None:
    assert values_of("{} a {} a {} a {} a {} b.", "a " * 200_000) is None


def test_places_of_a_text() -> None:
    assert places("{} {}") == places("{1} {0}") != places("{}") and places("{a}") is None is places("{")
    assert places("{:.{}f}") == places("{0:.{1}f}") != places("{:.1f}")


def test_english_is_back(speak: Install) -> None:
    speak({"size": "Größe"})
    assert tr("size") == "Größe"
    translation.install(None)
    assert tr("size") == "size" and english("Größe") == "Größe"


def test_whole_texts_with_a_number(speak: Install) -> None:
    texts = ("The first %n step is equal", "The first %n steps are equal")
    assert counted(1, *texts) == "The first 1 step is equal" and counted(2000, *texts) == (
        "The first 2\u2009000 steps are equal"
    )
    speak({}, forms={texts[0]: ("Schritt %n ist gleich", "%n Schritte sind gleich")})
    assert counted(1, *texts) == "Schritt 1 ist gleich" and counted(3, *texts) == "3 Schritte sind gleich"
