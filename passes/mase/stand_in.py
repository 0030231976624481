"""MASE's files import its package, `chop`. Where that is not installed, names of ours take its
place while such a file is loaded or run: its passes are ours, the few others are here. All else fails when used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Generator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from espalier.model.errors import PassError, nearest
from espalier.passes.mase.pass_names import MASE_PASSES, NOTHING

TOOL = "chop"


def get_logger(name: str = TOOL) -> logging.Logger:
    """As MASE's `chop.tools.get_logger`: a logger of Python's own."""
    return logging.getLogger(name)


def set_logging_verbosity(level: str = "info") -> None:
    """As MASE's function: the level of their logger."""
    logging.getLogger(TOOL).setLevel(level.upper())


def get_mase_op(node: Any) -> str:
    """As MASE's function."""
    return node.meta["mase"].parameters["common"]["mase_op"]


def get_mase_type(node: Any) -> str:
    """As MASE's function."""
    return node.meta["mase"].parameters["common"]["mase_type"]


def get_node_actual_target(node: Any) -> Any:
    """As MASE's function: the module that a node calls, or else its target."""
    return node.meta["mase"].module if node.op == "call_module" else node.target


def get_parent_name(target: str) -> tuple[str, str]:
    """As MASE's function: "a.b.c" → ("a.b", "c")."""
    parent, _, name = target.rpartition(".")
    return parent, name


def deepsetattr(home: Any, path: str, value: Any) -> None:
    """As MASE's function: set `home.a.b.c`."""
    *parents, name = path.split(".")
    for part in parents:
        home = getattr(home, part)
    setattr(home, name, value)


def deepgetattr(home: Any, path: str) -> Any:
    """As MASE's function: get `home.a.b.c`."""
    for part in path.split("."):
        home = getattr(home, part)
    return home


_NAMES: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (get_logger, set_logging_verbosity, get_mase_op, get_mase_type, get_node_actual_target,
              get_parent_name, deepsetattr, deepgetattr)
}  # fmt: skip


class _Missing:
    """A name of the tool that has no stand-in: may be imported, not used."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *args: object, **kwargs: object) -> Any:
        last = self._path.rpartition(".")[2]
        hint = nearest(last, {*MASE_PASSES, *NOTHING}) if last.endswith("_pass") else "Use torch."
        raise PassError(f"{self._path} is not available here.", hint)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _found(self._path, name)


class _Module(ModuleType):
    """Any module of the tool."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _found(self.__name__, name)


def _found(home: str, name: str) -> Any:
    """What stands in for `home.name`; a part of the tool that nobody imported yet is looked into in the same way."""
    if name in MASE_PASSES or name in NOTHING:
        from espalier.passes.mase.loan import mase_pass

        return mase_pass(name)
    if name == "MaseGraph":
        from espalier.passes.mase.loan import MaseGraph

        return MaseGraph
    if name in ("get_trainer", "get_tokenized_dataset"):
        from espalier.passes.mase import trainer

        return getattr(trainer, name)
    return _NAMES.get(name) or _Missing(f"{home}.{name}")


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Every module below the tool's name."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == TOOL else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A stand-in."""
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@contextlib.contextmanager
def chop_importable() -> Generator[None]:
    """While open, `import chop` works: the real one where it is installed, or else the stand-in."""
    if TOOL in sys.modules or importlib.util.find_spec(TOOL) is not None:
        yield
        return
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] == TOOL]:
            del sys.modules[name]
