"""Output as lines: what a terminal shows of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from espalier.app.features.console.terminal import LENGTH, Line, Terminal


def shown(*pieces: Line, limit: int = 5000) -> list[str]:
    """The lines after pieces, taken one by one as the view does."""
    terminal, lines = Terminal(limit), list[str]()
    for kind, text in pieces:
        terminal.feed(kind, text)
        replaces, new = terminal.take()
        if replaces and new:
            lines.pop()
        lines += [text for _, text in new]
    return lines


def test_a_progress_bar_stays_one_line() -> None:
    """What `tqdm` writes: a carriage return before each state."""
    states = [f"\r{n:3d}%|{'#' * (n // 20)}" for n in range(0, 101, 20)]
    assert shown(*[("error", s) for s in states], ("error", "\nend\n")) == ["100%|#####", "end"]
    assert shown(("out", "abc\r"), ("out", "\n")) == ["abc"]
    assert shown(("out", "12345\rab\n")) == ["ab"]


def test_escape_sequences_and_control_characters_are_left_out() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell\x07 \x00nul tab\tend\n"
    assert shown(("out", text)) == ["red bell nul tab\tend"]
    assert shown(("out", "ab\b\bxy\n")) == ["xy"]


def test_markup_stays_text() -> None:
    assert shown(("out", "<b>bold</b> & <img src=x>\n")) == ["<b>bold</b> & <img src=x>"]


def test_another_kind_begins_a_line() -> None:
    assert shown(("out", "value: "), ("error", "warning\n"), ("out", "3\n")) == ["value: ", "warning", "3"]


def test_long_lines_are_cut_and_old_lines_dropped() -> None:
    (line,) = shown(("out", "x" * 10**6 + "\n"))
    assert line == "x" * LENGTH + "…"
    assert shown(("out", "".join(f"{n}\n" for n in range(100))), limit=10) == [str(n) for n in range(90, 100)]


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=8), max_size=12))
def test_pieces_do_not_matter(pieces: list[str]) -> None:
    whole = "".join(pieces)
    expected = whole.split("\n")
    lines = shown(*[("out", p) for p in pieces])
    assert lines == (expected if expected[-1] else expected[:-1])
