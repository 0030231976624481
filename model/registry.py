"""Named things that one file each adds: formats, passes.

A registry fills by decorator when its packages are walked, at the first look-up; a name is taken once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Generic, TypeVar

from model.errors import EspalierError, FormatError, OptionsError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Name → entry, with an error that names the nearest valid name."""

    def __init__(self, noun: str, error: type[EspalierError], packages: tuple[str, ...]) -> None:
        self.noun = noun
        self._error = error
        self._packages = packages
        self._entries: dict[str, T] = {}

    def _filled(self) -> dict[str, T]:
        packages, self._packages = self._packages, ()
        for name in packages:
            walk(importlib.import_module(name))
        return self._entries

    def add(self, name: str, entry: T) -> T:
        """Register `entry`; raises ValueError when the name is taken by another."""
        if name in self._entries and self._entries[name] is not entry:
            raise ValueError(f"{self.noun} {name!r} is already registered")
        self._entries[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Forget an entry, if there is one: its plug-in goes."""
        self._entries.pop(name, None)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda entry: self.add(name, entry)

    def get(self, name: str) -> T:
        """The entry called `name`; raises the registry's error with the nearest valid name."""
        entries = self._filled()
        if name not in entries:
            raise self._error(f"There is no {self.noun} {name!r}.", nearest(name, entries))
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._filled()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._filled()))

    def items(self) -> list[tuple[str, T]]:
        """All entries by name, sorted."""
        return sorted(self._filled().items(), key=lambda item: item[0])


FORMATS: Registry[Any] = Registry("format", FormatError, ("model.formats",))
PASSES: Registry[Any] = Registry("pass", OptionsError, ("passes.analysis", "passes.transform"))


def walk(package: ModuleType) -> None:
    """Import every module below `package`, so that its decorators run."""
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(info.name)
