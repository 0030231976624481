"""`formats`: list the number formats, describe one, apply one to an array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.app.commands.command import Answer, Arguments, Command, Parser, UsageError
from espalier.app.commands.console import Console, cell, count, facts, table
from espalier.model.borders import reading
from espalier.model.errors import FormatError
from espalier.model.files import replacing
from espalier.model.formats.base import Format, parse_format
from espalier.model.registry import FORMATS

CODES_SHOWN = 64


def _arguments(parser: Parser) -> None:
    parser.add_argument("format", nargs="?", metavar="FORMAT", help="such as 'integer(width=8, frac_width=4)'")
    parser.add_argument("--apply", nargs=2, metavar=("IN.npy", "OUT.npy"), help="write the array's values in FORMAT")
    parser.add_argument("--codes", action="store_true", help="list all values of one element")


def _run(found: Arguments, console: Console) -> Answer:
    if found.format is None:
        if found.apply or found.codes:
            raise UsageError("Which format?", "Name one, such as 'integer(width=8, frac_width=4)'.")
        return _list()
    fmt = parse_format(found.format)
    data: dict[str, Any] = {"format": str(fmt), "label": fmt.label, **_described(fmt)}
    if found.apply:
        data |= _apply(fmt, *found.apply)
    if found.codes:
        data |= _codes(fmt, console, alone=not found.apply)
    return Answer(data, lambda: _lines(data))


def _codes(fmt: Format, console: Console, *, alone: bool) -> dict[str, Any]:
    """All values of one element; raises FormatError for too many, or leaves a note where there is another answer."""
    try:
        return {"codes": fmt.codes().tolist()}
    except FormatError as error:
        if alone:
            raise
        console.note(f"The codes are left out: {error}")
        return {}


def _list() -> Answer:
    found = [_entry(cls) for _, cls in FORMATS.items()]
    rows = [{"format": _signature(e), "title": e["title"], "aliases": ", ".join(e["aliases"])} for e in found]
    return Answer({"formats": found}, lambda: table(rows))


def _entry(cls: type[Format]) -> dict[str, Any]:
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(cls)}
    return {"name": cls.name, "title": cls.title, "parameters": defaults, "aliases": list(cls.aliases),
            "formula": cls.formula, "source": cls.source}  # fmt: skip


def _signature(entry: dict[str, Any]) -> str:
    inner = ", ".join(k if v is None else f"{k}={v}" for k, v in entry["parameters"].items())
    return f"{entry['name']}({inner})"


def _described(fmt: Format) -> dict[str, Any]:
    return {k: v for k, v in fmt.describe().items() if k != "aliases"}


def _apply(fmt: Format, source: str, result: str) -> dict[str, Any]:
    array = _load(source)
    import torch

    from espalier.passes.observed.difference import compare

    x = torch.from_numpy(array)
    y = fmt.forward(x)
    if not result.endswith(".npy"):
        raise UsageError(f"{result} does not end in .npy.", "Write the result to a .npy file.")
    with replacing(result, UsageError) as file:
        np.save(file, y.numpy(), allow_pickle=False)
    stored = fmt.stored_bits(array.shape) / array.size if array.size else fmt.bits  # short blocks, scales of rows
    return {**compare(fmt, x).row(), "bits": stored, "elements": array.size, "output": result}


def _load(path: str) -> NDArray[Any]:
    hint = "Give a .npy file with an array of float16, float32 or float64."
    with reading(Path(path), FormatError, "is not a readable .npy file", hint):
        found: Any = np.load(path, allow_pickle=False)
    if not isinstance(found, np.ndarray):
        raise FormatError(f"{Path(path).name} holds several arrays.", hint)
    if found.dtype.name not in ("float16", "float32", "float64"):
        raise FormatError(f"{Path(path).name} holds {found.dtype} values.", hint)
    return np.array(found, dtype=found.dtype.name, order="C")


def _lines(data: dict[str, Any]) -> Iterable[str]:
    shown = {k: cell(data[k]) for k in ("format", "title", "bits", "formula", "source")}
    if "output" in data:
        shown["elements"] = count(data["elements"])
        shown["SQNR"] = "–" if data["sqnr_db"] is None else f"{data['sqnr_db']:.2f} dB"
        shown["largest error"], shown["mean error"] = f"{data['max_error']:.4g}", f"{data['mean_error']:.4g}"
        shown["saturated"], shown["zeros"] = f"{data['saturated']:.2%}", f"{data['zeros']:.2%}"
        shown["written to"] = data["output"]
    yield from facts(shown)
    if "codes" in data:
        codes = data["codes"]
        yield f"{count(len(codes))} values:"
        yield "  ".join(f"{c:g}" for c in codes[:CODES_SHOWN]) + ("  …" if len(codes) > CODES_SHOWN else "")


COMMAND = Command("formats", "lists, describes or applies a number format", _arguments, _run)
