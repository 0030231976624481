"""The guard around readers: exceptions that pass unchanged, and those that become the kind of error."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from espalier.model.borders import parse_json, parse_toml, read_bytes, read_text, reading, tried
from espalier.model.errors import Damage, Interrupted, OptionsError, ProjectError


class Panic(BaseException):
    """As a library in Rust raises it."""


def entered(fault: BaseException) -> None:
    with reading(Path("folder/a.toml"), OptionsError, "cannot be read", "Write TOML."):
        raise fault


@pytest.mark.parametrize(
    ("fault", "told"),
    [(RecursionError(), "nested too deeply"), (MemoryError(), "more memory"), (Panic("x"), "unexpected structure"),
     (zlib.error("bad"), "altered or truncated"), (KeyError("steps"), "'steps' is missing"),
     (OverflowError(), "structure"),
     (Damage("it is empty"), "it is empty"), (OSError(5, "Input/output error"), "Input/output error"),
     (AssertionError(), "unexpected structure"), (StopIteration(), "unexpected structure")],
)  # fmt: skip
def test_whatever_is_raised_becomes_two_sentences(fault: BaseException, told: str) -> None:
    with pytest.raises(OptionsError) as caught:
        entered(fault)
    assert caught.value.message.startswith("a.toml cannot be read: ") and told in caught.value.message
    assert caught.value.hint == "Write TOML." and caught.value.__cause__ is fault


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(3), Interrupted(), ProjectError("It is.", "Do.")])
def test_what_passes(fault: BaseException) -> None:
    with pytest.raises(type(fault)) as caught:
        entered(fault)
    assert caught.value is fault


def test_a_file_that_is_not_there_is_told_by_its_path() -> None:
    path = Path("folder/a.toml")
    guard = reading(path, OptionsError, "x", "y", "z", "recipe")
    with pytest.raises(OptionsError, match=r"no recipe 'folder/a.toml'"), guard:
        path.read_bytes()


def test_records_of_our_own_that_cannot_be_read_are_none() -> None:
    assert tried(lambda: parse_json("{"), None) is None and tried(lambda: parse_json("[1]"), None) == [1]
    with pytest.raises(KeyboardInterrupt):
        tried(lambda: (_ for _ in ()).throw(KeyboardInterrupt), None)


def test_a_text_is_no_longer_than_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("é\r\nb\rc".encode())
    assert read_text(path) == "é\nb\nc" and read_bytes(path, 8) == path.read_bytes()
    with pytest.raises(Damage, match="longer"):
        read_bytes(path, 5)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no pipes of a shell here")
def test_a_pipe_of_the_shell_is_read_and_has_an_end() -> None:
    """As `<(…)` gives one; any other pipe may have no writer."""
    for size, fits in ((100, True), (5000, False)):
        ours, theirs = os.pipe()
        os.write(theirs, bytes(size))  # less than a pipe holds
        os.close(theirs)
        pipe = Path(f"/dev/fd/{ours}")
        assert tried(lambda pipe=pipe: len(read_bytes(pipe, 1000)), None) == (size if fits else None)
        os.close(ours)


def test_a_named_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Damage, match="pipe or a device"):
        read_bytes(tmp_path / "pipe")


def test_numbers_that_are_too_long() -> None:
    assert parse_json(f'["{"1" * 60}", {2**63}]') == ["1" * 60, 2**63]
    for text in (f"[{'1' * 41}]", f'{{"a": -{"1" * 41}}}'):
        with pytest.raises(Damage, match="digits"):
            parse_json(text)
        with pytest.raises(Damage, match="digits"):
            parse_json(text.encode())
    with pytest.raises(Damage, match="digits"):
        parse_toml(f"a = {'1' * 50}")
