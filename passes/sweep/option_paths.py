"""Options by path (`sparsity`, `rules.0.formats.weight.width`): listing, lookup, replacement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from espalier.model.document.codec import decode, hints, in_range
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.passes.sweep.values import WORDS, value_text

Path = tuple[str, ...]
SKIPPED = ("select", "freeze")  # selections of nodes are not varied


@dataclass(frozen=True, slots=True)
class Option:
    """One option: path, type, metadata, value."""

    path: Path
    kind: Any
    metadata: Mapping[str, Any]
    value: Any

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def choices(self) -> tuple[Any, ...]:
        """All values of a boolean or literal option, otherwise empty."""
        plain = _plain(self.kind)
        return (True, False) if plain is bool else get_args(plain) if get_origin(plain) is Literal else ()

    @property
    def is_format(self) -> bool:
        """Whether its value is a number format."""
        return _holds_format(self.kind)

    def read(self, value: Any, where: str) -> Any:
        """Convert `value` to this option's type and range; raises OptionsError or FormatError with `where`."""
        decoded = decode(self.kind, _spelled(value, self), where)
        in_range(field(metadata=dict(self.metadata)), decoded, where)
        return decoded


def _spelled(value: Any, place: Option) -> Any:
    """Convert spellings: `float` or `none` to no format, 4.0 to 4, `on` to true, 1 to a text."""
    plain = _plain(place.kind)
    if place.is_format:
        return None if str(value).lower() in ("float", "none") else value
    if plain is str:
        return value_text(value) if not isinstance(value, str) else value
    if plain is bool and str(value).lower() in WORDS:
        return WORDS[str(value).lower()]
    if get_origin(plain) is Literal and isinstance(value, bool):
        return next((c for c in get_args(plain) if WORDS.get(str(c)) is value), value)
    whole = plain is int and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _plain(kind: Any) -> Any:
    """The type without None."""
    if get_origin(kind) in (Union, UnionType):
        inner = [k for k in get_args(kind) if k is not type(None)]
        return inner[0] if len(inner) == 1 else kind
    return kind


def _holds_format(kind: Any) -> bool:
    plain = _plain(kind)
    return isinstance(plain, type) and issubclass(plain, Format)


def list_options(options: Any) -> tuple[Option, ...]:
    """All options within `options` with a single value, including formats and their parameters."""
    return tuple(_walk(options, (), type(options), {}))


def _walk(value: Any, path: Path, kind: Any, metadata: Mapping[str, Any]) -> Iterator[Option]:
    if path and path[-1] in SKIPPED:
        return
    if _holds_format(kind):
        yield Option(path, kind, metadata, value)
    if is_dataclass(value) and not isinstance(value, type):
        known = hints(type(value))
        for f in fields(value):
            if f.init:
                yield from _walk(getattr(value, f.name), (*path, f.name), known[f.name], f.metadata)
    elif isinstance(value, Mapping | tuple):
        inner = (get_args(kind) or (Any,))[1 if isinstance(value, Mapping) and get_args(kind) else 0]
        for key, item in _items(value):
            yield from _walk(item, (*path, key), inner, {})
    elif not _holds_format(kind):
        yield Option(path, kind, metadata, value)


def _items(value: Any) -> list[tuple[str, Any]]:
    """(key or index, item) of a mapping or a tuple."""
    if isinstance(value, Mapping):
        return [(str(k), v) for k, v in cast("Mapping[Any, Any]", value).items()]
    return [(str(i), v) for i, v in enumerate(value)]


def find(options: Any, text: str, of: str) -> tuple[Option, ...]:
    """The options that `text` matches: a full path, with `*` for any part, or all that a short name fits.

    `width` is every width, `weight.width` those below a weight. Raises OptionsError with the nearest name; `of` names
    the options.
    """
    every, pattern = list_options(options), tuple(text.split("."))
    exact = [p for p in every if len(p.path) == len(pattern) and all(map(_matches, pattern, p.path))]
    matching = exact or [p for p in every if p.path[-1] == pattern[-1] and _in_order(pattern, p.path)]
    if not matching:
        lasts = {p.path[-1] for p in every}
        hint = nearest(text, {p.name for p in every}) if pattern[-1] in lasts else nearest(pattern[-1], lasts)
        raise OptionsError(f"{of} has no option {text!r}.", hint)
    return tuple(matching)


def _matches(pattern: str, part: str) -> bool:
    return pattern in ("*", part)


def _in_order(pattern: Path, path: Path) -> bool:
    rest = iter(path)
    return all(any(part == k for k in rest) for part in pattern if part != "*")


def rebuilt(value: Any, changes: Mapping[Path, Any], where: str) -> Any:
    """`value` with the options at these paths replaced together; errors of its checks are prefixed with `where`."""
    if () in changes:
        return changes[()]
    inner: dict[str, dict[Path, Any]] = {}
    for path, new in changes.items():
        inner.setdefault(path[0], {})[path[1:]] = new
    if isinstance(value, Mapping | tuple):
        items = {k: rebuilt(v, inner[k], where) if k in inner else v for k, v in _items(value)}
        return items if isinstance(value, Mapping) else tuple(items.values())
    parts = {name: rebuilt(getattr(value, name), below, where) for name, below in inner.items()}
    try:
        return replace(value, **parts)
    except EspalierError as error:
        raise type(error)(f"{where}: {error.message}", error.hint, error.node) from error
