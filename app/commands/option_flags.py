"""Command line flags from the fields of an options dataclass, as the window's forms."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from espalier.app.commands.command import Arguments, Parser
from espalier.model.document.codec import decode, hints, in_range

if TYPE_CHECKING:
    from argparse import _ArgumentGroup


def add_options(parser: Parser | _ArgumentGroup, options: type, skip: tuple[str, ...] = ()) -> None:
    """Add one flag per field of `options`, with help and default, to a parser or to a section of its help."""
    kinds = hints(options)
    for field in dataclasses.fields(options):
        if field.name not in skip:
            _add(parser, field, kinds[field.name])


def _add(parser: Parser | _ArgumentGroup, field: dataclasses.Field[Any], kind: Any) -> None:
    flag = "--" + field.name.replace("_", "-")
    default = "" if field.default in ("", dataclasses.MISSING) else f" (default {field.default})"
    text = (str(field.metadata.get("help", "")) + default).strip() or None
    if kind is bool and field.default is True:
        told = f"switch off: {field.metadata['help']}" if "help" in field.metadata else None
        parser.add_argument(f"--no-{flag[2:]}", action="store_const", const=False, dest=field.name, help=told)
    elif kind is bool:
        parser.add_argument(flag, action="store_true", default=None, help=text)
    elif get_origin(kind) is Literal:
        parser.add_argument(flag, choices=get_args(kind), help=text)
    else:
        parser.add_argument(flag, type=kind, metavar=field.name.upper(), help=text)


def read_options(options: type, args: Arguments, **given: Any) -> Any:
    """The options as given on the command line; raises OptionsError."""
    names = [f.name for f in dataclasses.fields(options)]
    values = {n: getattr(args, n) for n in names if getattr(args, n, None) is not None}
    for field in dataclasses.fields(options):
        in_range(field, values.get(field.name), "--" + field.name.replace("_", "-"))
    return decode(options, {**values, **given})


def over(options: Any, args: Arguments, **given: Any) -> Any:
    """Options of a file, overridden by those given on the command line; raises OptionsError."""
    overrides = read_options(type(options), args, **given)
    names = (f.name for f in dataclasses.fields(options))
    values = {n: getattr(overrides, n) for n in names if n in given or getattr(args, n, None) is not None}
    return dataclasses.replace(options, **values)
