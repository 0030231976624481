"""Plug-ins, the user's own code: files named on the command line, folders of them, installed packages.

No code is taken from a project file.
"""

from __future__ import annotations

import configparser
import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from espalier.kernels.registry import install
from espalier.model.data.base import SOURCES
from espalier.model.document.codec import encode
from espalier.model.document.recipe import Raw, Recipe
from espalier.model.errors import EspalierError, PassError
from espalier.model.formats.base import Format, make_format, parameters
from espalier.model.registry import FORMATS, OWN, PASSES, PLUGIN_FILES, Added, Registry, recorded, shown_key, withdraw
from espalier.passes.costs.base import COSTS
from espalier.passes.plugins.user_error import user_error
from espalier.passes.recipes.dialects import DIALECTS
from espalier.passes.recipes.offered import PluginState, describe

GROUP = "espalier.plugins"
REGISTERS = "Use @analysis, @transform, @FORMATS.register, COSTS.add, SOURCES.add or @lowers"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plug-in and what it registered."""

    source: str
    added: tuple[Added, ...]

    def names(self, registry: Registry[str, Any]) -> tuple[str, ...]:
        """What it added to `registry`, sorted."""
        return tuple(sorted(str(key) for where, key in self.added if where is registry))

    @property
    def passes(self) -> tuple[str, ...]:
        """Names of its passes."""
        return self.names(PASSES)

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of its number formats."""
        return self.names(FORMATS)

    @property
    def others(self) -> tuple[str, ...]:
        """What it added elsewhere: "hardware rule leaky_relu"."""
        known = (PASSES, FORMATS, COSTS, SOURCES)
        return tuple(f"{r.noun} {shown_key(key)}" for r, key in self.added if not any(r is k for k in known))

    @property
    def costs(self) -> tuple[str, ...]:
        """Names of its costs."""
        return self.names(COSTS)

    @property
    def sources(self) -> tuple[str, ...]:
        """Prefixes of its data sources."""
        return self.names(SOURCES)


_LOADED: dict[Path, Plugin] = {}
_PACKAGES: dict[str, Plugin] = {}


def default_folder() -> Path:
    """`espalier/plugins` in the user's configuration: what lies there is always loaded."""
    return _configuration() / "espalier" / "plugins"


def _configuration() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def plugin_places(listed: Iterable[str] | None = None) -> tuple[Path, ...]:
    """Files and folders to load from: `$ESPALIER_PLUGINS`, or those of the window's list and the default folder.

    `listed` is that list; None reads it from the window's settings.
    """
    given = os.environ.get("ESPALIER_PLUGINS")
    if given is not None:
        texts = given.split(os.pathsep)
    elif listed is not None:
        texts = [*listed, str(default_folder())]
    else:
        kept = _setting(_configuration() / "Espalier" / "Espalier.conf", "plugins")
        texts = [*kept.split(os.pathsep), str(default_folder())]
    return tuple(dict.fromkeys(Path(t).expanduser().absolute() for t in texts if t))


def has_packages() -> bool:
    """Whether an installed package offers a plug-in."""
    return bool(entry_points(group=GROUP))


def _setting(file: Path, key: str) -> str:
    """A text of the window's settings (Qt's INI form, as it is used on Linux); empty where there is none."""
    reader = configparser.ConfigParser(interpolation=None)
    try:
        reader.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeError, OSError):
        return ""
    return reader.get("General", key, fallback="").strip('"')


def plugin_files(place: Path) -> list[Path]:
    """The plug-ins of a file or folder; files of a folder whose names begin with `_` are parts of others."""
    if place.is_dir():
        return sorted(p for p in place.glob("*.py") if not p.name.startswith("_"))
    return [place] if place.exists() else []


def loaded_plugins() -> list[Plugin]:
    """The files that were loaded so far."""
    return list(_LOADED.values())


def has_plugins() -> bool:
    """Whether anything of files or of installed packages was loaded."""
    return bool(_LOADED or _PACKAGES)


def plugin_passes() -> set[str]:
    """Names of all passes that came from plug-ins."""
    return {name for p in (*_LOADED.values(), *_PACKAGES.values()) for name in p.passes}


def load_plugin(file: str | Path) -> Plugin:
    """Run a plug-in's file once and register what it holds; raises PassError, or RegistryError for a name in use."""
    path = Path(file).expanduser().resolve()
    if path not in _LOADED:
        if not path.is_file():
            raise PassError(f"There is no plug-in {str(file)!r}.", "Give the path of a Python file.")
        found = _noting(str(path), lambda: _register_file(path))
        if not found.added:
            signatures = "".join(f", or write {d.signature}" for _, d in DIALECTS.items() if d.signature)
            raise PassError(f"The plug-in {path.name} registers nothing.", f"{REGISTERS}{signatures}.")
        _LOADED[path] = found
        PLUGIN_FILES.append(str(path))
    return _LOADED[path]


def load_formats(file: str | Path) -> None:
    """Formats, costs and data sources of a plug-in, for the window, which shows them; its passes stay in the worker."""
    plugin = load_plugin(file)
    withdraw([a for a in plugin.added if a[0] is PASSES])
    _LOADED[Path(plugin.source)] = replace(plugin, added=tuple(a for a in plugin.added if a[0] is not PASSES))


def plugin_fault(error: BaseException) -> PassError | None:
    """An unexpected error as one of the plug-in whose code raised it, with the line; None where none took part."""
    trace, found = error.__traceback__, None
    while trace:
        path = Path(trace.tb_frame.f_code.co_filename)
        found = path if path in _LOADED else found
        trace = trace.tb_next
    return None if found is None else user_error(f"The plug-in {found.name}", error, found)


def unload_plugins() -> None:
    """Forget all plug-in files and what they registered, so that they can be loaded again from changed files."""
    for path, plugin in reversed(_LOADED.items()):
        withdraw(plugin.added)
        sys.modules.pop(_module_name(path), None)
    _LOADED.clear()
    PLUGIN_FILES.clear()


def _register_file(path: Path) -> None:
    with ExitStack() as imports:
        for _, dialect in DIALECTS.items():
            imports.enter_context(dialect.imports())
        module = _import(path)
    _register_functions(module, path)
    install()


def _register_functions(module: ModuleType, path: Path) -> None:
    """Register the functions of `module` itself that are passes in a dialect."""
    for function in vars(module).copy().values():
        own = inspect.isfunction(function) and function.__module__ == module.__name__
        if own and not function.__name__.startswith("_"):
            dialect = next((d for _, d in DIALECTS.items() if d.is_pass(function)), None)
            if dialect is not None:
                dialect.register(function, path)


def _noting(source: str, load: Callable[[], None]) -> Plugin:
    with recorded() as added:  # what it registers before it fails would stand in its own way the next time
        load()
        plugin = Plugin(source, tuple(added))
        for name in plugin.formats:
            _complete(name, FORMATS.get(name))
    for name in plugin.formats:  # between processes, and after the file was loaded again, a format is what has its name
        FORMATS.get(name).__reduce__ = _by_name
    return plugin


def _complete(name: str, cls: type[Format]) -> None:
    """Raise PassError for a format that lacks what lists, forms and quantising ask of it."""
    asked = ("name", "title", "formula", "source", *(n for n in dir(Format) if _abstract(getattr(Format, n))))
    missing = [n for n in asked if not hasattr(cls, n) or _abstract(getattr(cls, n))]
    if missing:
        raise PassError(f"The number format {name} lacks {', '.join(missing)}.", "Define them in its class.")
    if cls.name != name:
        raise PassError(f"The number format {name} has the name {cls.name!r}.", f"Register it as {cls.name!r}.")


def _abstract(member: object) -> bool:
    return getattr(member, "__isabstractmethod__", False)


def _by_name(fmt: Format) -> tuple[Any, ...]:
    return make_format, (fmt.name, parameters(fmt))


def _module_name(path: Path) -> str:
    return f"espalier_plugin_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"


class _Fresh(SourceFileLoader):
    """Reads the source each time: compiled files are known by second and size, and one just edited may look old."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import(path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise PassError(f"{path.name} is not a Python file.", "Give the path of a file that ends in .py.")
    name = _module_name(path)
    loader = _Fresh(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        loader.exec_module(module)
    except EspalierError:
        del sys.modules[name]
        raise
    # The user's own code may raise anything, SystemExit too.
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        fault = user_error(f"The plug-in {path.name}", error, path)
        raise PassError(fault.message, _moved(error, path) or fault.hint) from error
    return module


def _moved(error: BaseException, path: Path) -> str:
    """A hint where a file imports a module of ours without the name of the package, as old plug-ins do."""
    missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    root = missing.partition(".")[0]
    if root not in OWN:
        return ""
    written = re.search(rf"^[ \t]*(?:from|import)[ \t]+({root}\.[\w.]+)", path.read_text(encoding="utf-8"), re.M)
    return f"Write espalier.{written[1]} instead of {written[1]}." if written else ""


def load_plugins(files: Iterable[str | Path], warn: Callable[[str], None]) -> list[Plugin]:
    """Plug-ins of the known places and of installed packages, whose faults are only told, then `files`.

    Raises PassError or RegistryError for a fault of `files`.
    """
    found: list[Plugin] = []
    for load in _loads(plugin_places()).values():
        try:
            found.append(load())
        except EspalierError as error:
            warn(f"A plug-in was left out. {error}")
    return found + [load_plugin(f) for f in files]


def reload_plugins(places: Iterable[Path]) -> tuple[PluginState, ...]:
    """Load every plug-in of `places` afresh, and of installed packages; each with what came of it."""
    unload_plugins()
    return tuple(_state(source, load) for source, load in _loads(places).items())


def _state(source: str, load: Callable[[], Plugin]) -> PluginState:
    try:
        found = load()
        offered = tuple(describe(PASSES.get(n)) for n in found.passes)
        return PluginState(source, offered, found.formats, costs=found.costs, others=found.others,
                           sources=found.sources)  # fmt: skip
    except EspalierError as error:
        return PluginState(source, error=error.message, hint=error.hint)


def _loads(places: Iterable[Path]) -> dict[str, Callable[[], Plugin]]:
    """What loads each plug-in, by its path or the name of its package; a place that is gone fails."""
    files = [f for p in places for f in plugin_files(p) or ([] if p == default_folder() or p.is_dir() else [p])]
    loads: dict[str, Callable[[], Plugin]] = {str(f.resolve()): partial(load_plugin, f) for f in files}
    return loads | {e.name: partial(_load_package, e) for e in entry_points(group=GROUP)}


def _load_package(entry: EntryPoint) -> Plugin:
    if entry.name not in _PACKAGES:
        _PACKAGES[entry.name] = _noting(entry.name, partial(_load_entry, entry))
    return _PACKAGES[entry.name]


def _load_entry(entry: EntryPoint) -> None:
    try:
        loaded = entry.load()
    # An installed package may fail in any way; it must not keep Espalier from starting.
    except Exception as error:
        raise PassError(f"{entry.name} raised {type(error).__name__}: {error}.", "Update or remove it.") from error
    if isinstance(loaded, ModuleType):
        _register_functions(loaded, Path(str(loaded.__file__)))


def portable(recipe: Recipe) -> Recipe:
    """`recipe` with the options of plug-ins' passes as JSON, for a process that does not have the plug-ins."""
    names = plugin_passes()
    steps = (
        replace(s, options=Raw(encode(s.options))) if s.pass_name in names and not isinstance(s.options, Raw) else s
        for s in recipe.steps
    )
    return Recipe(tuple(steps))
