"""Registries of formats, passes, costs, kernels and hardware rules, with one module per entry.

Entries are registered by decorators when the packages of a registry are imported, at the first look-up. A second entry
for a key is an error that names both files, unless it has `replace=True`; removing it restores the first.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Generic, TypeVar, cast

from espalier.model.errors import EspalierError, FormatError, OptionsError, RegistryError, unknown

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

ROOT = f"{Path(__file__).parents[1]}{os.sep}"
OWN = ("model", "passes", "kernels", "verilog", "app")  # packages of Espalier; all others are plug-ins


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    """A value with the file that registered it and the entry that it replaced."""

    value: T
    source: str
    replaced: _Entry[T] | None = None


Added = tuple["Registry[Any, Any]", Hashable]
PLUGIN_FILES: list[str] = []  # of the plug-ins that this process has loaded, for those that it starts
_RECORDS: list[list[Added]] = []


class Registry(Generic[K, T]):
    """Key → entry. A missing key raises `error` with the nearest valid key.

    `packages`: packages or modules that register entries when imported.
    """

    def __init__(self, noun: str, error: type[EspalierError] = OptionsError, packages: tuple[str, ...] = ()) -> None:
        self.noun = noun
        self._error = error
        self._packages = packages
        self._entries: dict[K, _Entry[T]] = {}

    def _filled(self) -> dict[K, _Entry[T]]:
        packages, self._packages = self._packages, ()
        for name in packages:
            module = importlib.import_module(name)
            if hasattr(module, "__path__"):
                walk(module)
        return self._entries

    def add(self, key: K, entry: T, *, replace: bool = False, source: str = "") -> T:
        """Register `entry`. Raises RegistryError if the key has another entry.

        `replace` replaces the present entry, but not one that is a replacement itself: otherwise the order of plug-ins
        would decide. `source`: the registering file, by default the module that is being imported.
        """
        source = source or _importing()
        if not _is_own(source):  # plug-ins come last
            self._filled()
        old = self._entries.get(key)
        if old is not None and old.value is entry:
            return entry
        if old is not None and (not replace or old.replaced is not None):
            raise self._taken(key, old, source)
        self._entries[key] = _Entry(entry, source, old)
        if not _is_own(source):
            for record in _RECORDS:
                record.append((self, key))
        return entry

    def _taken(self, key: K, old: _Entry[T], source: str) -> RegistryError:
        if old.replaced is not None:
            text = f"The {self.noun} {_label(key)} is replaced twice: by {old.source} and by {source}."
            return RegistryError(text, "Load only one of them.")
        text = f"The {self.noun} {_label(key)} is registered twice: by {old.source} and by {source}."
        return RegistryError(text, "Give one of them another name, or pass replace=True in the later one.")

    def remove(self, key: K) -> None:
        """Remove an entry, if there is one, and restore the entry that it replaced."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.replaced is not None:
            self._entries[key] = entry.replaced

    def register(self, *keys: K, replace: bool = False) -> Callable[[T], T]:
        """Decorator form of `add`, for one or more keys."""

        def add(entry: T) -> T:
            for key in keys:
                self.add(key, entry, replace=replace)
            return entry

        return add

    def find(self, key: K) -> T | None:
        """The entry of `key`, or None."""
        entry = (self._filled() if self._packages else self._entries).get(key)
        return None if entry is None else entry.value

    def get(self, key: K) -> T:
        """The entry of `key`; raises the registry's error with the nearest valid key."""
        entries = self._filled()
        if key not in entries:
            raise self._error(f"There is no {self.noun} {_label(key)}.", unknown(str(key), map(str, entries)))
        return entries[key].value

    __getitem__ = get

    def source(self, key: K) -> str:
        """The file and line that registered `key`, for files of Espalier relative to the repository."""
        self.get(key)
        return self._entries[key].source

    def is_own(self, key: K) -> bool:
        """Whether the entry of `key` belongs to Espalier, not to a plug-in."""
        return _is_own(self.source(key))

    def __contains__(self, key: object) -> bool:
        return key in self._filled()

    def __iter__(self) -> Iterator[K]:
        return iter([key for key, _ in self.items()])

    def __len__(self) -> int:
        return len(self._filled())

    def items(self) -> list[tuple[K, T]]:
        """All entries by key, sorted."""
        return [(key, entry.value) for key, entry in sorted(self._filled().items(), key=lambda item: str(item[0]))]


FORMATS: Registry[str, Any] = Registry("format", FormatError, ("espalier.model.formats",))
WALKED = (
    "espalier.passes.analysis", "espalier.passes.transform", "espalier.passes.allocation.true_divergence",
    "espalier.passes.export.targets.report",
)  # fmt: skip
PASSES: Registry[str, Any] = Registry("pass", OptionsError, WALKED)


@contextmanager
def recorded() -> Generator[list[Added]]:
    """Record the entries that plug-ins add to all registries; removes them if the body raises."""
    record: list[Added] = []
    _RECORDS.append(record)
    try:
        yield record
    except BaseException:
        withdraw(record)
        raise
    finally:
        _RECORDS.remove(record)


def withdraw(added: list[Added] | tuple[Added, ...]) -> None:
    """Remove recorded entries, the last first."""
    for registry, key in reversed(added):
        registry.remove(key)


def walk(package: ModuleType) -> None:
    """Import all modules below `package`, so that their decorators run, except those in its UNWALKED."""
    unwalked = {f"{package.__name__}.{name}" for name in getattr(package, "UNWALKED", ())}
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if info.name not in unwalked:
            importlib.import_module(info.name)


def _importing() -> str:
    """The module that is being imported, as file:line; outside of imports the nearest caller outside Espalier."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    sources: list[str] = []
    while frame is not None:
        source = shown(frame.f_code.co_filename, frame.f_lineno)
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return source
        sources.append(source)
        frame = frame.f_back
    return next((s for s in sources if not _is_own(s)), sources[0])


def shown(file: str, line: int = 0) -> str:
    """A source for messages: files of Espalier relative to the repository, others by their full path."""
    name = file.removeprefix(ROOT).replace(os.sep, "/") if file.startswith(ROOT) else file
    return f"{name}:{line}" if line else name


def _is_own(source: str) -> bool:
    return source.partition("/")[0] in OWN


def shown_key(key: object) -> str:
    """The text of a key in lists."""
    if isinstance(key, tuple):
        return " on ".join(map(shown_key, cast("tuple[object, ...]", key)))
    return key.__name__ if isinstance(key, type) else str(key)


def _label(key: object) -> str:
    return repr(key) if isinstance(key, str) else shown_key(key)
