"""How files are damaged: bytes, texts, and the values of JSON, wherever it lies. All by a generator of fixed seed."""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
import zipfile
import zlib
from random import Random
from typing import Any

import xxhash

NASTY: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3.5, -0.0, 2**31, -(2**31), 2**63, -(2**63), 2**64, 10**18, 10**30, 1e308, -1e308,
    1e-320, float("nan"), float("inf"), float("-inf"), "", "x", "1", "-1", "nan", "1e999", "true", "null", "\0",
    "\ud800", "../../x", "/dev/zero", "é" * 50, "x" * 100_000, "<a href='x'>x</a>", "float", "integer(width=8)",
    "^(\\w+)$", "(", [], {}, [[]], [None], {"a": 1}, {"": {}}, [1, "a", None], [0] * 1000,
    {"ref": ["x", 0]}, {"float": "nan"},
)  # fmt: skip
NUMBERS = ("1" * 5000, "1" * 100_000, "1e99999", "-1", "0", "NaN", "Infinity", "1e308", "9" * 30, "0.1", "1" * 300)
DEEP = (60, 150, 500, 990, 3000, 100_000)
_HOLE = "@@a hole@@"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def damaged(data: bytes, suffix: str, rng: Random) -> bytes:
    """The content of a file of this kind, damaged in one to three places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _once(data, suffix, rng)
    return data


def _once(data: bytes, suffix: str, rng: Random) -> bytes:
    act = {".json": of_json, ".espalier": of_zip, ".pt2": of_zip, ".safetensors": of_safetensors, ".jsonl": of_lines,
           ".journal": of_lines, ".toml": of_text, ".csv": of_text, ".tsv": of_text, ".py": of_text,
           ".txt": of_text}.get(suffix)  # fmt: skip
    try:
        return act(data, rng) if act and rng.random() < 0.75 else of_bytes(data, rng)
    except (ValueError, LookupError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError):
        return of_bytes(data, rng)  # what was damaged before is not of its kind any more


def of_bytes(data: bytes, rng: Random) -> bytes:
    """Bits flipped, bytes altered, cut off, left out, doubled, filled with zeros."""
    if not data:
        return rng.randbytes(rng.randrange(20))
    at, held = rng.randrange(len(data)), bytearray(data)
    length = min(rng.choice((1, 2, 8, 64, 1000)), len(data) - at)
    match rng.randrange(8):
        case 0 | 1:
            held[at] ^= 1 << rng.randrange(8)
        case 2:
            held[at] = rng.randrange(256)
        case 3:
            del held[at:]
        case 4:
            del held[at : at + length]
        case 5:
            held[at:at] = held[at : at + length]
        case 6:
            held[at : at + length] = bytes(length)
        case _:
            held[at : at + length] = rng.randbytes(length)
    return bytes(held)


def of_text(data: bytes, rng: Random) -> bytes:
    """Lines left out, doubled, exchanged; values and numbers replaced; nested without end."""
    text = data.decode()
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, rng.choice(lines))
        case 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 3 if "=" in lines[at]:
            key = lines[at].partition("=")[0]
            lines[at] = f"{key}= {_literal(rng)}"
        case 4 if "," in lines[at] or "\t" in lines[at]:
            mark = "\t" if "\t" in lines[at] else ","
            cells = lines[at].split(mark)
            cells[rng.randrange(len(cells))] = _literal(rng)
            lines[at] = mark.join(cells)
        case 5:
            deep = rng.choice(DEEP)
            lines[at] = f"{lines[at].partition('=')[0]}= {rng.choice(('[', '{a=')) * deep}"
        case 6:
            lines[at] = ".".join(["a"] * rng.choice(DEEP)) + " = 1"
        case _:
            return _with_number(text, rng).encode(errors="surrogatepass")
    return "\n".join(lines).encode(errors="surrogatepass")


def _with_number(text: str, rng: Random) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text + rng.choice(NUMBERS)
    place = rng.choice(found)
    return text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]


def _literal(rng: Random) -> str:
    return json.dumps(rng.choice(NASTY)) if rng.random() < 0.7 else rng.choice(NUMBERS)


# -- JSON


def of_json(data: bytes, rng: Random) -> bytes:
    """One value replaced, left out, exchanged with another, nested deeper; a number without end."""
    root = json.loads(data)
    places = list(_places(root))
    if not places:
        return _literal(rng).encode(errors="surrogatepass")
    holder, key = rng.choice(places)
    raw = ""
    match rng.randrange(9):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(rng.choice(NASTY))
        case 3:
            del holder[key]
        case 4:
            other, name = rng.choice(places)
            holder[key] = copy.deepcopy(other[name])
        case 5:
            other, name = rng.choice(places)
            if isinstance(other, dict) and isinstance(holder, dict):
                holder[rng.choice(("x", name, "name", ""))] = holder.pop(key)
            else:
                holder[key] = [holder[key]]
        case 6:
            holder[key] = _other_type(holder[key], rng)
        case 7:
            raw, holder[key] = rng.choice(NUMBERS), _HOLE
        case _:
            deep, left = rng.choice(DEEP), rng.choice(("[", '{"a":'))
            raw, holder[key] = left * deep + "1" + (("]" if left == "[" else "}") * deep), _HOLE
    text = json.dumps(root)
    return text.replace(json.dumps(_HOLE), raw).encode()


def _other_type(value: Any, rng: Random) -> Any:
    match value:
        case str():
            return rng.choice(([value], {value: value}, len(value), list(value)))
        case bool() | int() | float() | None:
            return rng.choice((str(value), [value], {"x": value}, not value))
        case list():
            return rng.choice(
                ({str(n): v for n, v in enumerate(value)}, value[:1], value * 2, value[::-1], str(value), len(value))
            )
        case _:
            return rng.choice((list(value), list(value.values()), [value], str(value), len(value)))


def _places(value: Any) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield value, key
        yield from _places(held)


def of_lines(data: bytes, rng: Random) -> bytes:
    """One line of a JSON-lines file; or lines left out, doubled, exchanged, run together."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case _:
            at = 0 if rng.random() < 0.2 else at  # the head
            lines[at] = of_json(lines[at], rng)
    return b"\n".join(lines)


# -- containers


def of_zip(data: bytes, rng: Random) -> bytes:
    """A member damaged after its kind, in an archive that is sound otherwise; or members left out, doubled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(i, archive.read(i)) for i in archive.infolist()]
        at = rng.randrange(len(members))
        info, held = members[at]
        kind = rng.randrange(12)
        if kind == 0:
            del members[at]
        elif kind == 1:
            members.append((info, rng.choice(members)[1]))
        else:
            suffix = f".{info.filename.rpartition('.')[2]}"
            members[at] = info, damaged(held, suffix if suffix != ".pt2" else "", rng)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for info, held in members:
                packed = rng.choice((0, 8)) if kind == 2 else info.compress_type
                archive.writestr(info.filename, held, packed)
    return out.getvalue()


def of_safetensors(data: bytes, rng: Random) -> bytes:
    """The header's JSON, or the graph of a packed model within, with a checksum that fits again."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if "@graph" in header and rng.random() < 0.7:
        body = _with_graph(header, body, rng)
        text = json.dumps(header).encode()
    else:
        text = of_json(data[8 : 8 + length], rng)
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + body


def _with_graph(header: dict[str, Any], body: bytes, rng: Random) -> bytes:
    begin, end = header["@graph"]["data_offsets"]
    lines, left = b"", body[begin:end]
    while left:
        stream = zlib.decompressobj()
        lines += stream.decompress(left)
        left = stream.unused_data
    graph = zlib.compress(of_lines(lines, rng))
    more = len(graph) - (end - begin)
    for entry in header.values():
        if "data_offsets" in entry:
            entry["data_offsets"] = [at + more if at >= end else at for at in entry["data_offsets"]]
    header["@graph"]["data_offsets"][0] = begin
    header["@graph"]["shape"] = [len(graph)]
    body = body[:begin] + graph + body[end:]
    facts = json.loads(header["__metadata__"]["espalier"])
    facts["check"] = xxhash.xxh3_128(body).hexdigest()
    header["__metadata__"]["espalier"] = json.dumps(facts)
    return body
