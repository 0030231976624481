"""Typed values ↔ plain JSON, driven by dataclass fields and type hints.

Formats are tagged by their registered name; nothing is ever looked up by class path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Generator, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin

from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.model.formats.base import Format, make_format, parameters, parse_format
from espalier.model.graph.graph import Ref
from espalier.model.graph.node import Arg, Slice, TorchConst
from espalier.model.registry import Registry

T = TypeVar("T")
Json = Any
_PLAIN = frozenset((str, int, bool, type(None)))


def encode(value: Any) -> Json:
    """Plain JSON of a typed value, without fields at their default."""
    if type(value) in _PLAIN:  # the most frequent case: thousands in a graph
        return value
    match value:
        case Format():
            return {"name": value.name, **{k: v for k, v in parameters(value).items()}}
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case tuple() | list():
            return [encode(v) for v in cast("list[Any]", value)]
        case Mapping():
            return {str(k): encode(v) for k, v in cast("Mapping[Any, Any]", value).items()}
        case _ if dataclasses.is_dataclass(value):
            held = ((f, getattr(value, f.name)) for f in _fields(type(value)))
            table = {f.name: encode(v) for f, v in held if not _default(v, f)}
            return {value.tag: table} if isinstance(value, Tagged) else table
        case _:
            raise TypeError(f"cannot encode {type(value).__name__}")


class Tagged:
    """A value of one of several registered kinds, written as a table with one key, its tag: {"bypass": {"node": …}}.

    Subclasses are dataclasses; `kinds` gives the registry of those that may stand in the place of a base.
    """

    tag: ClassVar[str] = ""

    @classmethod
    def kinds(cls) -> Registry[str, Any]:
        """Tag → class."""
        raise NotImplementedError


@cache
def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _default(held: Any, field: dataclasses.Field[Any]) -> bool:
    if field.default is not dataclasses.MISSING:
        return type(held) is type(field.default) and held == field.default
    return field.default_factory is not dataclasses.MISSING and held == field.default_factory()


@cache
def hints(cls: type) -> dict[str, Any]:
    """Field name → resolved type of a dataclass."""
    return typing.get_type_hints(cls)


def decode(kind: Any, data: Json, path: str = "") -> Any:
    """A value of type `kind` from plain JSON; raises OptionsError with the path of an invalid value."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if issubclass(kind, Format):
            return decode_format(data, path)
        return _decode_tagged(kind, data, path) if issubclass(kind, Tagged) else _decode_fields(kind, data, path)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(inner, data, path)
    if origin is Literal:
        return _decode_literal(inner, data, path)
    if origin is tuple:
        return _decode_tuple(inner, data, path)
    if origin is dict:
        _expect(isinstance(data, Mapping), path, "a table", data)
        return {str(k): decode(inner[1], v, join(path, str(k))) for k, v in data.items()}
    return _decode_plain(kind, data, path)


def join(path: str, key: str) -> str:
    """`path.key`"""
    return f"{path}.{key}" if path else key


def _expect(good: bool, path: str, what: str, data: Json) -> None:
    if not good:
        raise OptionsError(f"{path or 'the value'} is {data!r}.", f"It must be {what}.")


@contextlib.contextmanager
def _under(path: str) -> Generator[None]:
    """Add the path to an error of a value's constructor."""
    try:
        yield
    except EspalierError as error:
        raise type(error)(f"{path}: {error.message}" if path else error.message, error.hint, error.node) from error


def _decode_fields(kind: type[T], data: Json, path: str) -> T:
    """Metadata of a field: `read` turns other forms of its value into the one that is decoded."""
    _expect(isinstance(data, Mapping), path, "a table of options", data)
    known = {f.name: f for f in dataclasses.fields(cast("Any", kind)) if f.init}
    for key in data:
        if key not in known:
            raise OptionsError(f"{join(path, str(key))} is not an option.", nearest(str(key), known))
    for name, f in known.items():
        if name not in data and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise OptionsError(f"{join(path, name)} is missing.", _wanted(hints(kind)[name]))
    given = {k: known[k].metadata["read"](v) if "read" in known[k].metadata else v for k, v in data.items()}
    values = {k: decode(hints(kind)[k], v, join(path, k)) for k, v in given.items()}
    for name, value in values.items():
        in_range(known[name], value, join(path, name))
    with _under(path):
        return kind(**values)


def _wanted(kind: Any) -> str:
    """What a missing option is: for a selection the names of its table, for a word the choices."""
    if get_origin(kind) is Literal:
        return f"Give it one of {', '.join(map(str, get_args(kind)))}."
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and not issubclass(kind, Format | Tagged):
        first, *_ = named = _fields(kind)
        choices = get_args(hints(kind)[first.name]) if get_origin(hints(kind)[first.name]) is Literal else ()
        of = f", where {first.name} is one of {', '.join(map(str, choices))}" if choices else ""
        return f"Give it a table of {', '.join(f.name for f in named)}{of}."
    return "Give it a value."


def _decode_tagged(kind: type[Tagged], data: Json, path: str) -> Any:
    good = isinstance(data, Mapping) and len(cast("Mapping[Any, Any]", data)) == 1
    _expect(good, path, f"a table with one key: {', '.join(kind.kinds())}", data)
    ((tag, options),) = cast("Mapping[Any, Any]", data).items()
    with _under(path):
        own = kind.kinds().get(str(tag))
    return _decode_fields(own, options, join(path, str(tag)))


def in_range(field: dataclasses.Field[Any], value: Any, path: str) -> None:
    """Raise OptionsError for a number outside `min` … `max` of the field's metadata, or NaN."""
    low, high = field.metadata.get("min"), field.metadata.get("max")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    below, above = low is not None and not value >= low, high is not None and not value <= high
    if below or above:
        single = f"of at least {low:g}" if below else f"up to {high:g}"
        legal = single if low is None or high is None else f"from {low:g} to {high:g}"
        raise OptionsError(f"{path} is {value!r}.", f"It must be a number {legal}.")


def _decode_union(inner: tuple[Any, ...], data: Json, path: str) -> Any:
    if type(None) in inner and (data is None or (data == "float" and Format in inner)):
        return None  # TOML has no null: "float" removes a format
    kinds = [k for k in inner if k is not type(None)]
    for i, kind in enumerate(kinds):
        try:
            return decode(kind, data, path)
        except OptionsError:
            if i == len(kinds) - 1:
                raise
    raise OptionsError(f"{path} is {data!r}.", "It must not be empty.")


def _decode_literal(inner: tuple[Any, ...], data: Json, path: str) -> Any:
    if data in inner:
        return data
    if isinstance(data, int) and str(data) in inner:  # a width of 8, where "as it is" is another
        return str(data)
    raise OptionsError(f"{path} is {data!r}.", nearest(str(data), [str(i) for i in inner]))


def _decode_tuple(inner: tuple[Any, ...], data: Json, path: str) -> tuple[Any, ...]:
    _expect(isinstance(data, list | tuple), path, "a list", data)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(decode(inner[0], v, f"{path}[{i}]") for i, v in enumerate(data))
    _expect(len(data) == len(inner), path, f"a list of {len(inner)}", data)
    return tuple(decode(k, v, f"{path}[{i}]") for i, (k, v) in enumerate(zip(inner, data, strict=True)))


def _decode_plain(kind: Any, data: Json, path: str) -> Any:
    if kind is Any:
        return data
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if kind is float and isinstance(data, Mapping) and data.get("float") in ("inf", "-inf", "nan"):
        return float(data["float"])
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    good = isinstance(data, kind) and not (kind is int and isinstance(data, bool))
    _expect(good, path, names.get(kind, getattr(kind, "__name__", str(kind))), data)
    return data


def decode_format(data: Json, path: str = "") -> Format:
    """A format from `{"name": "integer", "width": 8, …}` or from text such as `integer(width=8)`."""
    if isinstance(data, Format):
        return data
    if isinstance(data, str):
        with _under(path):
            return parse_format(data)
    _expect(isinstance(data, Mapping) and isinstance(data.get("name"), str), path, "a format", data)
    with _under(path):
        return make_format(data["name"], {str(k): v for k, v in data.items() if k != "name"})


def encode_arg(arg: Arg) -> Json:
    """Plain JSON of a node's argument."""
    match arg:
        case Ref(node, output):
            return {"ref": [node, output]}
        case Slice(start, stop, step):
            return {"slice": [encode_arg(a) for a in (start, stop, step)]}
        case TorchConst(kind, name):
            return {"torch": [kind, name]}
        case complex():
            return {"complex": [arg.real, arg.imag]}
        case tuple():
            return [encode_arg(a) for a in arg]
        case _:
            return encode(arg)


def decode_arg(data: Json) -> Arg:
    """A node's argument from plain JSON; raises ValueError, LookupError or TypeError on foreign data."""
    if isinstance(data, list):
        return tuple(decode_arg(d) for d in cast("list[Any]", data))
    if not isinstance(data, dict):
        return cast("Arg", data)
    ((tag, value),) = cast("dict[str, Any]", data).items()
    match tag:
        case "ref":
            return Ref(str(value[0]), int(value[1]))
        case "slice":
            return Slice(*(decode_arg(v) for v in value))
        case "torch":
            return TorchConst(decode(Literal["dtype", "device", "layout", "memory_format"], value[0]), str(value[1]))
        case "complex":
            return complex(*value)
        case "float":
            return float(value)
        case _:
            raise ValueError(f"unknown argument {tag!r}")
