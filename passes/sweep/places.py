"""Options by their path (`sparsity`, `rules.0.formats.weight.width`): found, listed, and replaced all at once."""

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
SKIPPED = ("select", "freeze")  # which nodes: not a value to try in a row


@dataclass(frozen=True, slots=True)
class Place:
    """One option that can be given another value: where it stands, its type, what is known of it, its value."""

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
        """All that it can be, where that is few."""
        plain = _plain(self.kind)
        return (True, False) if plain is bool else get_args(plain) if get_origin(plain) is Literal else ()

    @property
    def is_format(self) -> bool:
        """Whether its value is a number format."""
        return _holds_format(self.kind)

    def read(self, value: Any, where: str) -> Any:
        """`value`, as it was written, in this option's type and range; raises what says `where` it does not fit."""
        wish = _spelled(value, self)
        found = decode(self.kind, wish, where)
        in_range(field(metadata=dict(self.metadata)), found, where)
        return found


def _spelled(value: Any, place: Place) -> Any:
    """`float` or `none` for no format, `4.0` for 4, `on` for true, `1` for a text."""
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


def places(options: Any) -> tuple[Place, ...]:
    """All options below `options` that hold one value each, formats and their parameters too."""
    return tuple(_walk(options, (), type(options), {}))


def _walk(value: Any, path: Path, kind: Any, metadata: Mapping[str, Any]) -> Iterator[Place]:
    if path and path[-1] in SKIPPED:
        return
    if _holds_format(kind):
        yield Place(path, kind, metadata, value)
    if is_dataclass(value) and not isinstance(value, type):
        known = hints(type(value))
        for f in fields(value):
            if f.init:
                yield from _walk(getattr(value, f.name), (*path, f.name), known[f.name], f.metadata)
    elif isinstance(value, Mapping | tuple):
        inner = (get_args(kind) or (Any,))[1 if isinstance(value, Mapping) and get_args(kind) else 0]
        for key, held in _items(value):
            yield from _walk(held, (*path, key), inner, {})
    elif not _holds_format(kind):
        yield Place(path, kind, metadata, value)


def _items(value: Any) -> list[tuple[str, Any]]:
    """(name or number, item) of a table or a list."""
    if isinstance(value, Mapping):
        return [(str(k), v) for k, v in cast("Mapping[Any, Any]", value).items()]
    return [(str(i), v) for i, v in enumerate(value)]


def find(options: Any, text: str, of: str) -> tuple[Place, ...]:
    """The options that `text` means: one by its whole path, `*` for any part of it, or all that a short name fits.

    `width` is every width, `weight.width` those below a weight. Raises OptionsError, which names the nearest of `of`.
    """
    known, wish = places(options), tuple(text.split("."))
    exact = [p for p in known if len(p.path) == len(wish) and all(map(_alike, wish, p.path))]
    found = exact or [p for p in known if p.path[-1] == wish[-1] and _in_order(wish, p.path)]
    if not found:
        lasts = {p.path[-1] for p in known}
        hint = nearest(text, {p.name for p in known}) if wish[-1] in lasts else nearest(wish[-1], lasts)
        raise OptionsError(f"{of} has no option {text!r}.", hint)
    return tuple(found)


def _alike(wish: str, part: str) -> bool:
    return wish in ("*", part)


def _in_order(wish: Path, path: Path) -> bool:
    rest = iter(path)
    return all(any(part == k for k in rest) for part in wish if part != "*")


def rebuilt(value: Any, changes: Mapping[Path, Any], where: str) -> Any:
    """`value` with the options at these paths replaced, all at once; raises what its own checks raise, and where."""
    if () in changes:
        return changes[()]
    inner: dict[str, dict[Path, Any]] = {}
    for path, new in changes.items():
        inner.setdefault(path[0], {})[path[1:]] = new
    if isinstance(value, Mapping | tuple):
        held = {k: rebuilt(v, inner[k], where) if k in inner else v for k, v in _items(value)}
        return held if isinstance(value, Mapping) else tuple(held.values())
    parts = {name: rebuilt(getattr(value, name), below, where) for name, below in inner.items()}
    try:
        return replace(value, **parts)
    except EspalierError as error:
        raise type(error)(f"{where}: {error.message}", error.hint, error.node) from error
