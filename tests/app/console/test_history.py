"""The history of the console over sessions."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from espalier.app.features.console.history import MOST, History


def test_texts_come_back_in_another_session(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first = History(path)
    for text in ("a = 1", "for n in m:\n    print(n)", "for n in m:\n    print(n)", "  "):
        first.add(text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = History(path)
    assert second.texts == ["a = 1", "for n in m:\n    print(n)"]
    assert second.step(-1, "draft") == "for n in m:\n    print(n)"
    assert second.step(-1, "changed") == "a = 1" and second.step(-1, "") is None
    assert second.step(1, "") == "for n in m:\n    print(n)" and second.step(1, "") == "draft"
    assert second.step(1, "") is None


def test_two_windows_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    a, b = History(path), History(path)
    a.add("from a")
    b.add("from b")
    assert History(path).texts == ["from a", "from b"]


def test_foreign_lines_are_left_out_and_a_long_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"a": 1}\nnot json\n\xff\xfe\n"kept"\n')
    assert History(path).texts == ["kept"]
    path.write_text("".join(f"{json.dumps(str(n))}\n" for n in range(3 * MOST)))
    assert History(path).texts == [str(n) for n in range(2 * MOST, 3 * MOST)]
    assert len(path.read_text().splitlines()) == MOST and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_passwords_in_urls_are_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History(path).add("m.search({}, storage='postgresql://me:secret@host/db')")
    assert "secret" not in path.read_text() and "postgresql" in path.read_text()


def test_a_folder_that_cannot_be_written_leaves_a_history_of_this_session(tmp_path: Path) -> None:
    history = History(tmp_path / "missing" / "history.jsonl")
    history.add("x")
    assert history.step(-1, "") == "x"
