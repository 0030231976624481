"""The format by itself: codes with their bits, staircases, words and drawings, for every registered format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.charts.staircase import short
from espalier.app.features.inspector.figures.formats import LISTED, format_figures, quantised_alone
from espalier.app.features.inspector.format import FormatSection
from espalier.app.widgets.bits import BitsBar, layout_of, legend, storage_text
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format, parse_format
from espalier.model.registry import FORMATS
from espalier.passes.analysis.format_sqnr import usual_formats


def all_formats() -> list[Format]:
    return list(dict.fromkeys([*usual_formats(), *(cls() for _, cls in FORMATS.items())]))


@pytest.mark.parametrize("fmt", all_formats(), ids=str)
def test_every_format_can_be_drawn(fmt: Format) -> None:
    found = format_figures(fmt)
    values = np.asarray(fmt.codes())
    assert len(values) > LISTED or [c.value for c in found.codes] == pytest.approx(values.tolist())
    assert len({c.bits for c in found.codes}) == len(found.codes), "each value has bits of its own"
    assert all(len(c.bits.replace(" ", "")) == fmt.element_bits for c in found.codes)
    if not fmt.stochastic:
        assert np.isin(found.whole.y, values).all() and np.isin(found.near.y, values).all()
        assert (np.diff(found.whole.y) >= 0).all(), "a staircase never falls"


def test_codes_of_known_formats() -> None:
    codes = {c.value: c.bits for c in format_figures(parse_format("integer(width=4, frac_width=2)")).codes}
    assert codes[-2.0] == "1 0 00" and codes[1.75] == "0 1 11" and len(codes) == 16
    e4m3 = {c.value: c.bits for c in format_figures(parse_format("mxfp(element=e4m3)")).codes}
    assert e4m3[448.0] == "0 1111 110" and e4m3[1.0] == "0 0111 000" and e4m3[2.0**-9] == "0 0000 001"


def test_too_many_codes_are_told() -> None:
    found = format_figures(parse_format("integer(width=16, frac_width=8)"))
    assert not found.codes and found.note.startswith("65\u2009536 values")
    assert format_figures(parse_format("integer(width=32)")).note.startswith("2^32")


def test_the_stairs_are_those_of_the_format() -> None:
    x = np.linspace(-3, 3, 101).astype(np.float32)
    fmt = parse_format("minifloat_ieee(width=6, exponent_width=3)")
    assert (quantised_alone(fmt, x) == fmt.rounded(x)).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mxint", "8.25 bits an element: 8 of its own, 8 of the scale shared by 32"),
        ("block_fp(width=8, block=16)", "8.5 bits an element: 8 of its own, 8 of the exponent shared by 16"),
        ("integer(width=6)", "6 bits an element"),
        ("scaled_integer(width=8)", "8 bits an element: 8 of its own, 32 of the scale shared by a row"),
    ],
)
def test_stored_bits_in_words(text: str, words: str) -> None:
    assert storage_text(parse_format(text)) == words


@pytest.mark.parametrize("fmt", all_formats(), ids=str)
def test_the_layout_holds_all_bits(fmt: Format) -> None:
    assert sum(f.bits for f in layout_of(fmt) if f.shared is None) == fmt.element_bits


def test_the_colours_of_the_bits_are_told() -> None:
    words = legend(parse_format("mxfp(element=e4m3)")).replace("&nbsp;", " ")
    assert [w in words for w in ("sign", "4 exponent bits", "3 mantissa bits", "8 scale bits, shared by 32")] == [
        True
    ] * 4
    assert words.count("■") == len(layout_of(parse_format("mxfp(element=e4m3)")))


@pytest.mark.parametrize(
    ("text", "words"),
    [("integer(width=4, frac_width=7)", "3 of 7 fraction bits"),
     ("integer(width=4, frac_width=4)", "3 of 4 fraction bits"),
     ("integer(width=4, frac_width=-2)", "3 of 5 integer bits"), ("integer(width=4, frac_width=3)", "3 fraction bits"),
     ("integer(width=2, frac_width=5)", "1 of 5 fraction bits"),
     ("integer(width=8, frac_width=8, signed=False)", "8 fraction bits")],
)  # fmt: skip
def test_binary_places_that_are_not_stored_are_told(text: str, words: str) -> None:
    assert legend(parse_format(text)).replace("&nbsp;", " ").endswith(f"</span> {words}")


@pytest.mark.parametrize(
    ("text", "fine"),
    [("integer(width=8)", True), ("integer(width=4)", False), ("integer(width=16)", True), ("block_fp(width=8)", True),
     ("mxfp(element=e4m3)", False), ("log(width=8)", False), ("binary", False)],
)  # fmt: skip
def test_steps_that_cannot_be_seen_are_known(text: str, fine: bool) -> None:
    assert format_figures(parse_format(text)).fine is fine


@pytest.mark.gui
def test_fine_steps_are_drawn_near_0_until_another_range_is_asked_for(qtbot: QtBot) -> None:
    section = FormatSection()
    qtbot.addWidget(section)
    section.show()

    def show(text: str) -> bool:
        section.show_format(parse_format(text))
        qtbot.waitUntil(lambda: section.data is not None and section.data.format == section.format, timeout=60_000)
        return section.stairs.stairs is section.data.near

    assert show("integer(width=8)") and not show("integer(width=3, frac_width=1)") and show("integer(width=7)")
    section.range.click()
    assert not show("integer(width=8)"), "what was asked for stays while the parameters change"
    assert not show("mxfp") and show("block_fp")
    section.close_previews()


def test_numbers_at_the_axes_are_short() -> None:
    words = [short(v) for v in (0.0, -0.03125, 480.0, -1.8446744e19, 5.42e-20, 123456.0)]
    assert words == ["0", "−0.0312", "480", "−1.8e19", "5.4e-20".replace("-", "−"), "1.2e5"]


@pytest.mark.gui
def test_section_shows_the_latest_and_copies(qtbot: QtBot, tmp_path: Path) -> None:
    section, bar = FormatSection(), BitsBar()
    qtbot.addWidget(section)
    qtbot.addWidget(bar)
    section.resize(300, 600)
    section.show()
    for text in ("mxint", "integer(width=16)", "integer(width=4, frac_width=2)"):
        section.show_format(parse_format(text))
    qtbot.waitUntil(lambda: section.data is not None and section.data.format == section.format, timeout=3000)
    assert section.codes.rows.rowCount() == 16 and section.stored.text() == "4 bits an element"
    section.copy.click()
    assert QGuiApplication.clipboard().text().splitlines()[:2] == ["code\tvalue", "1 0 00\t-2.0"]
    whole = section.stairs.stairs
    section.range.click()
    assert section.stairs.stairs is not whole and section.range.text() == "Whole range"
    told = section.stairs.tooltip_at(0.3).split()
    assert told[2:5] == ["→", "0.25,", "error"] and float(told[1]) - 0.25 == pytest.approx(float(told[5]), abs=1e-3)
    assert section.stairs.tooltip_at(99.0) == ""
    section.error.export(tmp_path / "error.csv")
    assert (tmp_path / "error.csv").read_text().startswith("x,q(x),x - q(x)")
    bar.show_format(section.format)
    assert bar.accessibleName() == "1 sign, 1 integer bit, 2 fraction bits"
    section.show_format(None)
    assert not section.isVisible()
    section.close_previews()


def test_a_format_that_cannot_list_its_codes_says_so() -> None:
    with pytest.raises(EspalierError):
        parse_format("integer(width=32)").codes()
