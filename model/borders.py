"""Reading of untrusted files: turns any exception of a reader into one clear error.

Also limits the memory that a file can use: length and nesting of texts, size of decompressed zip members.
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

MOST_TEXT = 64 << 20  # bytes of a text that is read into memory
MOST_VALUES = 3_000_000  # of a JSON text; each takes some 50 bytes of memory or more
MOST_DEPTH = 100  # brackets in brackets
MOST_NUMBER = 10**40
_LONG_NUMBER = "a number in it has too many digits"
_DIGITS, _DIGIT_BYTES = re.compile(r"[0-9]{41}"), re.compile(rb"[0-9]{41}")
MOST_TOML = 8 << 20  # bytes; it is written by hand, and its parser is slow
_LONG_KEY = re.compile(r"(?<![\w.\"'-])[\w\"'-]++(?:[ \t]*+\.[ \t]*+[\w\"'-]++){50}")  # each dot nests a table
MOST_DIRECTORY = 2 << 20  # bytes of a zip file's list of members: some 20 000 of them
MOST_RATIO, RATIO_FROM = 100, 16 << 20  # maximum compression ratio of a member above this size in bytes
SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
T = TypeVar("T")


@contextlib.contextmanager
def reading(
    path: Path | str, error: type[EspalierError], what: str, hint: str, missing: str = "", thing: str = "file"
) -> Generator[None]:
    """Convert exceptions within the context to `error`: "NAME WHAT: how it is damaged." with `hint`.

    EspalierError, KeyboardInterrupt and cancellations pass unchanged. `missing`: the hint if there is no such `thing`.
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
    # Parsers may raise anything; those in Rust even exceptions that do not derive from Exception.
    except BaseException as fault:
        raise error(f"{name} {what}: {damage(fault)}.", hint) from fault


def refuse_endless(path: Path) -> None:
    """Raise Damage for a pipe, a socket or a device, whose data may be endless. A shell's `<(…)` is accepted."""
    with contextlib.suppress(OSError):  # the reader reports a missing file
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(SHELL)):
            raise Damage("it is a pipe or a device, not a file")


def tried(read: Callable[[], T], otherwise: T) -> T:
    """The result of `read`, or `otherwise` if it raises any exception; for records of the program itself."""
    try:
        return read()
    # A damaged record counts as missing.
    except Exception:  # noqa: BLE001
        return otherwise


# -- texts


def read_bytes(path: Path, most: int = MOST_TEXT) -> bytes:
    """Read a file of at most `most` bytes. Raises Damage if it is longer."""
    refuse_endless(path)
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise Damage(f"it is longer than {most >> 20} MB")
        data = file.read(most + 1)  # a pipe has no size
    if len(data) > most:
        raise Damage(f"it is longer than {most >> 20} MB")
    return data


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Read a UTF-8 text of at most `most` bytes. Raises Damage if it is longer."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """The JSON in a file."""
    return parse_json(read_bytes(path))


def read_toml(path: Path) -> Any:
    """The TOML in a file."""
    return parse_toml(read_text(path))


def parse_json(text: bytes | str) -> Any:
    """Parse JSON of limited length, count and depth. Raises Damage, ValueError or RecursionError."""
    marks = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    if len(text) > MOST_TEXT or sum(map(text.count, marks)) > MOST_VALUES:  # pyright: ignore[reportArgumentType]
        raise Damage("it contains too many values")
    return _shallow(_digits(json.loads, text))


def parse_toml(text: str) -> Any:
    """Parse TOML with the same limits."""
    if len(text) > MOST_TOML:
        raise Damage("it contains too many values")
    if _LONG_KEY.search(text):
        raise Damage("it is nested too deeply")
    return _shallow(_digits(tomllib.loads, text))


def _shallow(value: Any) -> Any:
    """Return the value. Raises Damage if its lists and tables are nested too deeply."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for item in level if isinstance(item, dict | list)
                 for inner in (item.values() if isinstance(item, dict) else item)
                 if isinstance(inner, dict | list)]  # fmt: skip
        if not level:
            return value
    raise Damage("it is nested too deeply")


def _digits(parse: Callable[[Any], Any], text: bytes | str) -> Any:
    """Parse a text. Raises Damage for integers with too many digits."""
    try:
        value = parse(text)
    except ValueError as error:
        if "digits" in str(error):  # Python refuses to parse integers with thousands of digits
            raise Damage(_LONG_NUMBER) from error
        raise
    if _long_digits(text) and not _short(value):
        raise Damage(_LONG_NUMBER)
    return value


def _long_digits(text: bytes | str) -> bool:
    match = _DIGITS.search(text) if isinstance(text, str) else _DIGIT_BYTES.search(text)
    return match is not None


def _short(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_short, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) < MOST_NUMBER


# -- zip files


@contextlib.contextmanager
def opened_zip(path: Path) -> Generator[tuple[zipfile.ZipFile, IO[bytes]]]:
    """Open a zip file; yields the archive and its file. Raises Damage if its list of members is too large."""
    refuse_endless(path)
    with path.open("rb") as raw:
        end: Any = zipfile._EndRecData(raw)  # type: ignore[attr-defined] # pyright: ignore
        if end and end[5] > MOST_DIRECTORY:  # bytes of the list, which zipfile reads into memory
            raise Damage("it has too many members")
        with zipfile.ZipFile(raw) as archive:
            yield archive, raw


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo, most: int = MOST_TEXT) -> bytes:
    """Decompress a member of a zip file. Raises Damage if it is larger than `most` bytes."""
    info = archive.getinfo(member) if isinstance(member, str) else member
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Damage(f"its member {info.filename[:80]} uses a compression that Espalier never writes")
    packed = info.file_size > RATIO_FROM and info.file_size > MOST_RATIO * max(info.compress_size, 1)
    if info.file_size > most or packed:
        raise Damage(f"its member {info.filename[:80]} decompresses to {info.file_size / 1e6:.0f} MB")
    with archive.open(info) as file:
        data = file.read(info.file_size)  # never more than declared
        if file.read(1):  # reading to the end also verifies the checksum
            raise Damage(f"its member {info.filename[:80]} is longer than declared")
    return data
