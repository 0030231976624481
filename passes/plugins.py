"""The user's own passes and formats: files named on the command line, a folder of them, installed packages.

A plug-in is the user's code. It is never taken from a project file.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from model.errors import EspalierError, PassError
from model.registry import FORMATS, PASSES
from passes.labs.adapter import register, user_error
from passes.labs.stand_in import labs_tool

GROUP = "espalier.plugins"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plug-in and what it registered."""

    source: str
    passes: tuple[str, ...]
    formats: tuple[str, ...]


_LOADED: dict[Path, Plugin] = {}


def plugin_folder() -> Path:
    """`$ESPALIER_PLUGINS`, or the folder of the window's settings, or `plugins` in the user's configuration."""
    if given := os.environ.get("ESPALIER_PLUGINS"):
        return Path(given).expanduser()
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    chosen = _setting(home / "Espalier" / "Espalier.conf", "plugin_folder")
    return Path(chosen).expanduser() if chosen else home / "espalier" / "plugins"


def _setting(file: Path, key: str) -> str:
    """A text of the window's settings (Qt's INI form, as it is used on Linux); empty where there is none."""
    reader = configparser.ConfigParser(interpolation=None)
    try:
        reader.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeError, OSError):
        return ""
    return reader.get("General", key, fallback="").strip('"')


def loaded_plugins() -> list[Plugin]:
    """The files that were loaded so far."""
    return list(_LOADED.values())


def load_plugin(file: str | Path) -> Plugin:
    """Run a plug-in's file once and register what it holds; raises PassError."""
    path = Path(file).expanduser().resolve()
    if path not in _LOADED:
        if not path.is_file():
            raise PassError(f"There is no plug-in {str(file)!r}.", "Give the path of a Python file.")
        found = _noting(str(path), lambda: _register_file(path))
        if not found.passes and not found.formats:
            hint = "Write my_pass(mg, pass_args={}) or use @analysis, @transform or @FORMATS.register."
            raise PassError(f"{path.name} registers neither a pass nor a format.", hint)
        _LOADED[path] = found
    return _LOADED[path]


def _register_file(path: Path) -> None:
    with labs_tool():
        module = _import(path)
    for function in labs_functions(module):
        try:
            register(function, path)
        except ValueError as error:
            raise PassError(f"{path.name}: {error}.", "Give the function another name.") from error


def _noting(source: str, load: Callable[[], None]) -> Plugin:
    before = set(PASSES), set(FORMATS)  # also fills both, so that a plug-in cannot take the name of one of ours
    load()
    return Plugin(source, tuple(sorted(set(PASSES) - before[0])), tuple(sorted(set(FORMATS) - before[1])))


def _import(path: Path) -> ModuleType:
    name = f"espalier_plugin_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise PassError(f"{path.name} is not a Python file.", "Give the path of a file that ends in .py.")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        found.loader.exec_module(module)
    except EspalierError:
        raise
    # The user's own code may raise anything, SystemExit too.
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise user_error(f"{path.name}, when loaded,", error, path) from error
    return module


def labs_functions(module: ModuleType) -> list[Callable[..., Any]]:
    """Functions of `module` itself that take (mg, pass_args)."""
    own = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    return [f for f in own if not f.__name__.startswith("_") and _is_labs_pass(f)]


def _is_labs_pass(function: Callable[..., Any]) -> bool:
    names = list(inspect.signature(function).parameters)
    return len(names) >= 2 and names[1] == "pass_args" and (names[0] == "mg" or function.__name__.endswith("_pass"))


def load_plugins(files: Iterable[str | Path], warn: Callable[[str], None]) -> list[Plugin]:
    """Plug-ins of the folder and of installed packages, whose faults are only told, then `files`; raises PassError."""
    found: list[Plugin] = []
    for file in sorted(plugin_folder().glob("*.py")) if plugin_folder().is_dir() else ():
        found += _told(lambda file=file: load_plugin(file), warn)
    for entry in entry_points(group=GROUP):
        found += _told(lambda entry=entry: _noting(entry.name, lambda: _load_entry(entry)), warn)
    return found + [load_plugin(f) for f in files]


def _told(load: Callable[[], Plugin], warn: Callable[[str], None]) -> list[Plugin]:
    try:
        return [load()]
    except EspalierError as error:
        warn(f"A plug-in was left out: {error}")
        return []


def _load_entry(entry: EntryPoint) -> None:
    try:
        loaded = entry.load()
    # An installed package may fail in any way; it must not keep Espalier from starting.
    except Exception as error:
        raise PassError(f"{entry.name} raised {type(error).__name__}: {error}.", "Update or remove it.") from error
    for function in labs_functions(loaded) if isinstance(loaded, ModuleType) else ():
        register(function, Path(str(loaded.__file__)))
