"""The border where bytes of a file become values: whatever a reader raises leaves it as one clear error.

Also what a file may ask of the memory: how long a text is, how deep it nests, what a zip member unpacks to.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tomllib
import zipfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any, TypeVar

from espalier.model.errors import PASSING, Damage, EspalierError, damage

MOST_TEXT = 64 << 20  # bytes of a text that is read whole
MOST_VALUES = 3_000_000  # of a JSON text; each takes some 50 bytes of memory or more
MOST_DEPTH = 100  # brackets in brackets
MOST_NUMBER = 10**40
_LONG_NUMBER = "a number in it has too many digits"
_DIGITS, _DIGIT_BYTES = re.compile(r"[0-9]{41}"), re.compile(rb"[0-9]{41}")
MOST_TOML = 8 << 20  # bytes; people write it by hand, and its reader is slow
_LONG_KEY = re.compile(r"(?<![\w.\"'-])[\w\"'-]++(?:[ \t]*+\.[ \t]*+[\w\"'-]++){50}")  # each dot is a table in a table
MOST_DIRECTORY = 2 << 20  # bytes of a zip file's list of members: some 20 000 of them
MOST_RATIO, RATIO_FROM = 100, 16 << 20  # a member above this size is at most so many times its packed self
SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
T = TypeVar("T")


@contextlib.contextmanager
def reading(
    path: Path | str, error: type[EspalierError], what: str, hint: str, missing: str = "", thing: str = "file"
) -> Generator[None]:
    """Whatever is raised within becomes `error`: "NAME WHAT: how it is damaged." and `hint`.

    Our own errors, Ctrl+C and the end of a cancelled job pass as they are. `missing`: the hint where there is no such
    `thing`, in place of `hint`.
    """
    name = path.name if isinstance(path, Path) else path
    try:
        if isinstance(path, Path):
            refuse_endless(path)
        yield
    except (EspalierError, *PASSING):
        raise
    except FileNotFoundError as fault:
        raise error(f"There is no {thing} {str(path)!r}.", missing or hint) from fault
    # Parsers raise what they like, those in Rust even what is no Exception.
    except BaseException as fault:
        raise error(f"{name} {what}: {damage(fault)}.", hint) from fault


def refuse_endless(path: Path) -> None:
    """Raise Damage for a pipe, a socket or a device: reading one may never end. A shell's own `<(…)` is read."""
    with contextlib.suppress(OSError):  # a missing file is its reader's to report
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(SHELL)):
            raise Damage("it is a pipe or a device, no file")


def tried(read: Callable[[], T], otherwise: T) -> T:
    """What a reader of our own records finds; `otherwise` where it cannot read them, for whatever reason."""
    try:
        return read()
    # A record that cannot be read is as good as none.
    except Exception:  # noqa: BLE001
        return otherwise


# -- texts


def read_bytes(path: Path, most: int = MOST_TEXT) -> bytes:
    """A file that is read whole; raises Damage where it is too long for that."""
    refuse_endless(path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise Damage(f"it is longer than {most >> 20} MB")
        found = file.read(most + 1)  # a pipe has no size
    if len(found) > most:
        raise Damage(f"it is longer than {most >> 20} MB")
    return found


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """The same of a UTF-8 text."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """The JSON in a file."""
    return parse_json(read_bytes(path))


def read_toml(path: Path) -> Any:
    """The TOML in a file."""
    return parse_toml(read_text(path))


def parse_json(text: bytes | str) -> Any:
    """JSON of a bearable length, count and depth; raises Damage, ValueError or RecursionError."""
    marks = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    if len(text) > MOST_TEXT or sum(map(text.count, marks)) > MOST_VALUES:  # pyright: ignore[reportArgumentType]
        raise Damage("it holds too many values")
    return _shallow(_digits(json.loads, text))


def parse_toml(text: str) -> Any:
    """TOML within the same limits."""
    if len(text) > MOST_TOML:
        raise Damage("it holds too many values")
    if _LONG_KEY.search(text):
        raise Damage("it is nested too deeply")
    return _shallow(_digits(tomllib.loads, text))


def _shallow(value: Any) -> Any:
    """The value, whose lists and tables nest no deeper than may be."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for held in level if isinstance(held, dict | list)
                 for inner in (held.values() if isinstance(held, dict) else held)
                 if isinstance(inner, dict | list)]  # fmt: skip
        if not level:
            return value
    raise Damage("it is nested too deeply")


def _digits(parse: Callable[[Any], Any], text: bytes | str) -> Any:
    """What a parser finds, without whole numbers of absurd length."""
    try:
        found = parse(text)
    except ValueError as error:
        if "digits" in str(error):  # Python refuses to make a number of thousands of them
            raise Damage(_LONG_NUMBER) from error
        raise
    if _long_digits(text) and not _short(found):
        raise Damage(_LONG_NUMBER)
    return found


def _long_digits(text: bytes | str) -> bool:
    held = _DIGITS.search(text) if isinstance(text, str) else _DIGIT_BYTES.search(text)
    return held is not None


def _short(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_short, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) < MOST_NUMBER


# -- zip files


@contextlib.contextmanager
def opened_zip(path: Path) -> Generator[tuple[zipfile.ZipFile, IO[bytes]]]:
    """A zip file and the file beneath it; raises Damage where its list of members alone would fill the memory."""
    refuse_endless(path)
    with path.open("rb") as raw:
        end: Any = zipfile._EndRecData(raw)  # type: ignore[attr-defined] # pyright: ignore
        if end and end[5] > MOST_DIRECTORY:  # the length of the list, which zipfile reads whole
            raise Damage("it has too many members")
        with zipfile.ZipFile(raw) as archive:
            yield archive, raw


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo, most: int = MOST_TEXT) -> bytes:
    """A member of a zip file, unpacked; raises Damage where that would be too much."""
    info = archive.getinfo(member) if isinstance(member, str) else member
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Damage(f"its member {info.filename[:80]} is packed in a way that Espalier never uses")
    packed = info.file_size > RATIO_FROM and info.file_size > MOST_RATIO * max(info.compress_size, 1)
    if info.file_size > most or packed:
        raise Damage(f"its member {info.filename[:80]} unpacks to {info.file_size / 1e6:.0f} MB")
    with archive.open(info) as file:
        found = file.read(info.file_size)  # never more than it says, whatever it holds
        if file.read(1):  # and at its end its checksum is compared
            raise Damage(f"its member {info.filename[:80]} is longer than it says")
    return found
