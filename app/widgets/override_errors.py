"""Lets an error in a method that Qt calls be reported rather than end the program, on Python before 3.12.

There PySide (6.10.1, 6.11.3) reads the arguments of an error of C code before Python has made an exception of it, and
the process ends (SIGSEGV). An error that has passed a handler is whole.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, MethodDescriptorType
from typing import Any

from shiboken6 import Shiboken

_OURS = ("espalier.", "tests.")
_OF_QT = (BuiltinMethodType, MethodDescriptorType)


def normalise_override_errors() -> None:
    """Do so for all classes of this program, also for those that are imported later."""
    if sys.version_info >= (3, 12) or getattr(Shiboken.Object, "normalises_errors", False):
        return
    Shiboken.Object.normalises_errors = True  # type: ignore[attr-defined]
    Shiboken.Object.__init_subclass__ = classmethod(lambda cls, **_: _wrap(cls))  # type: ignore[assignment, method-assign]
    waiting: list[type] = [Shiboken.Object]
    while waiting:
        kind = waiting.pop()
        waiting += type.__subclasses__(kind)
        _wrap(kind)


def _wrap(kind: type) -> None:
    """Let errors of the methods of a class that override Qt's pass a handler."""
    if not kind.__module__.startswith(_OURS):
        return
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and not name.startswith("__") and _overrides(kind, name):
            setattr(kind, name, _passing(method))


def _overrides(kind: type, name: str) -> bool:
    found = next((vars(base)[name] for base in kind.__mro__[1:] if name in vars(base)), None)
    return isinstance(found, _OF_QT) or getattr(found, "normalises_errors", False)


def _passing(method: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(method, "normalises_errors", False):
        return method

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except BaseException:  # the handler is what makes the error whole
            raise

    call.normalises_errors = True  # type: ignore[attr-defined]
    return call
