"""Imports a Python file of the user and modules of its folder, separate from all other modules.

Its folder is searched first by all import statements of its modules, also later in a forward method. Nothing is
added to `sys.path`, so that two projects with a `model.py` each import their own.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import itertools
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from typing_extensions import override

_SUFFIXES = tuple(importlib.machinery.all_suffixes())
_numbers = itertools.count()


class Siblings:
    """A load of a file, as a separate package of the modules in its folder."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path.parent
        self.package = f"espalier_files_{next(_numbers)}"
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self) -> ModuleType:
        """Run the file. On an exception its modules are removed, and the exception propagates."""
        home = ModuleType(self.package)
        home.__path__ = [str(self.folder)]
        sys.modules[self.package] = home
        _finder.loads[self.package] = self
        name = f"{self.package}.{self.path.stem.replace('.', '_')}"
        spec = importlib.util.spec_from_file_location(name, self.path, loader=_Loader(name, str(self.path), self))
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            return module
        except BaseException:
            for name in [n for n in sys.modules if n == self.package or n.startswith(f"{self.package}.")]:
                del sys.modules[name]
            del _finder.loads[self.package]
            raise

    def prepare(self, module: ModuleType) -> None:
        """Make all import statements of a module search the folder first."""
        vars(module)["__builtins__"] = self._builtins

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        head = name.partition(".")[0]
        if level or not self._has(head):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        try:
            module = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist or (), 0)
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith(f"{self.package}."):
                missing_name = error.name.removeprefix(f"{self.package}.")
                raise ModuleNotFoundError(f"No module named {missing_name!r}", name=missing_name) from None
            raise
        return module if fromlist else sys.modules[f"{self.package}.{head}"]

    def _has(self, head: str) -> bool:
        """Whether the name refers to a module of the folder; modules of the standard library are never replaced."""
        if head in sys.stdlib_module_names:
            return False
        if f"{self.package}.{head}" in sys.modules and head != self.path.stem:
            return True
        inner = self.folder / head
        if any((self.folder / f"{head}{s}").is_file() for s in _SUFFIXES):
            return head != self.path.stem or not _is_elsewhere(head)  # such as a bert.py that imports an installed bert
        if any((inner / f"__init__{s}").is_file() for s in _SUFFIXES):
            return True
        return inner.is_dir() and any(inner.rglob("*.py")) and not _is_elsewhere(head)


class _Finder:
    """Finds the modules of all loads by Python's import system, and prepares those with source."""

    def __init__(self) -> None:
        self.loads: dict[str, Siblings] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name in the folder of its load."""
        owner = self.loads.get(fullname.partition(".")[0])
        if owner is None or path is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path, owner)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, owner: Siblings) -> None:
        super().__init__(fullname, path)
        self._owner = owner

    @override
    def get_code(self, fullname: str) -> CodeType:
        """Always compile the source: bytecode is matched by second and size and may be stale."""
        return self.source_to_code(self.get_data(self.path), self.path)

    @override
    def exec_module(self, module: ModuleType) -> None:
        self._owner.prepare(module)
        super().exec_module(module)


def _is_elsewhere(head: str) -> bool:
    """Whether an installed module has this name."""
    try:
        return head in sys.modules or importlib.util.find_spec(head) is not None
    except (ImportError, ValueError):
        return False


_finder = _Finder()
sys.meta_path.insert(0, _finder)
