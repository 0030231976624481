"""Command `formats`: lists the number formats, describes one, applies one to an array."""

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


def _run(args: Arguments, console: Console) -> Answer:
    if args.format is None:
        if args.apply or args.codes:
            raise UsageError("No format is given.", "Name one, such as 'integer(width=8, frac_width=4)'.")
        return _list()
    fmt = parse_format(args.format)
    data: dict[str, Any] = {"format": str(fmt), "label": fmt.label, **_description(fmt)}
    if args.apply:
        data |= _apply(fmt, *args.apply)
    if args.codes:
        data |= _codes(fmt, console, required=not args.apply)
    return Answer(data, lambda: _lines(data))


def _codes(fmt: Format, console: Console, *, required: bool) -> dict[str, Any]:
    """All values of an element; too many raise FormatError if `required`, else write a note."""
    try:
        return {"codes": fmt.codes().tolist()}
    except FormatError as error:
        if required:
            raise
        console.note(f"The codes are omitted: {error}")
        return {}


def _list() -> Answer:
    entries = [_entry(cls) for _, cls in FORMATS.items()]
    rows = [{"format": _signature(e), "title": e["title"], "aliases": ", ".join(e["aliases"])} for e in entries]
    return Answer({"formats": entries}, lambda: table(rows))


def _entry(cls: type[Format]) -> dict[str, Any]:
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(cls)}
    return {"name": cls.name, "title": cls.title, "parameters": defaults, "aliases": list(cls.aliases),
            "formula": cls.formula, "source": cls.source}  # fmt: skip


def _signature(entry: dict[str, Any]) -> str:
    inner = ", ".join(k if v is None else f"{k}={v}" for k, v in entry["parameters"].items())
    return f"{entry['name']}({inner})"


def _description(fmt: Format) -> dict[str, Any]:
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
    stored_bits_ = (
        fmt.stored_bits(array.shape) / array.size if array.size else fmt.bits
    )  # includes short blocks and row scales
    return {**compare(fmt, x).row(), "bits": stored_bits_, "elements": array.size, "output": result}


def _load(path: str) -> NDArray[Any]:
    hint = "Give a .npy file with an array of float16, float32 or float64."
    with reading(Path(path), FormatError, "is not a readable .npy file", hint):
        array: Any = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{Path(path).name} holds several arrays.", hint)
    if array.dtype.name not in ("float16", "float32", "float64"):
        raise FormatError(f"{Path(path).name} holds {array.dtype} values.", hint)
    return np.array(array, dtype=array.dtype.name, order="C")


def _lines(data: dict[str, Any]) -> Iterable[str]:
    texts = {k: cell(data[k]) for k in ("format", "title", "bits", "formula", "source")}
    if "output" in data:
        texts["elements"] = count(data["elements"])
        texts["SQNR"] = "–" if data["sqnr_db"] is None else f"{data['sqnr_db']:.2f} dB"
        texts["largest error"], texts["mean error"] = f"{data['max_error']:.4g}", f"{data['mean_error']:.4g}"
        texts["saturated"], texts["zeros"] = f"{data['saturated']:.2%}", f"{data['zeros']:.2%}"
        texts["written to"] = data["output"]
    yield from facts(texts)
    if "codes" in data:
        codes = data["codes"]
        yield f"{count(len(codes))} values:"
        yield "  ".join(f"{c:g}" for c in codes[:CODES_SHOWN]) + ("  …" if len(codes) > CODES_SHOWN else "")


COMMAND = Command("formats", "lists, describes or applies a number format", _arguments, _run)
