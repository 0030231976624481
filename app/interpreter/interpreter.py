"""Runs texts of Python one after another, as the interactive interpreter does."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
import traceback
import types
from typing import Any

from espalier.app.interpreter.display import readable
from espalier.model.errors import EspalierError

NAME = "<console {}>"


class Interpreter:
    """A namespace, which is the module `__main__` of its process."""

    def __init__(self) -> None:
        module = types.ModuleType("__main__", "The console.")
        sys.modules["__main__"] = module
        self.namespace: dict[str, Any] = module.__dict__
        self.namespace["__builtins__"] = builtins
        sys.displayhook = self.show

    def show(self, value: object) -> None:
        """Print the value of an expression; `_` is the last one."""
        if value is not None:
            self.namespace["_"] = value
            sys.stdout.write(f"{readable(value)}\n")

    def parse(self, text: str, number: int) -> ast.Module | None:
        """The statements of a text; prints the error of one that is no Python."""
        name = NAME.format(number)
        linecache.cache[name] = (len(text), None, [f"{line}\n" for line in text.splitlines()], name)
        try:
            return ast.parse(text, name, "exec")
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
            kind = type(error)
            sys.stderr.write("".join(traceback.format_exception_only(kind, error)))
            return None

    def run(self, tree: ast.Module, number: int) -> None:
        """Run statements; the value of the last one is shown if it is an expression. Raises what they raise."""
        name, last = NAME.format(number), tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, name, "exec"), self.namespace)
        if isinstance(last, ast.Expr):
            exec(compile(ast.Interactive([last]), name, "single"), self.namespace)


def report(error: BaseException) -> None:
    """Print an error from the user's lines on; one that explains itself without the lines of its library."""
    match error:
        case KeyboardInterrupt():
            sys.stderr.write("Stopped (KeyboardInterrupt).\n")
        case SystemExit():
            sys.stderr.write("exit() does not end the console. Restart gives a new one.\n")
        case _:
            shown = traceback.TracebackException.from_exception(error)
            _strip(shown, isinstance(error, EspalierError))
            sys.stderr.write("".join(shown.format() if shown.stack else shown.format_exception_only()))


def _strip(shown: traceback.TracebackException, own_only: bool) -> None:
    """Leave out the frames before the console's, and after them where `own_only`."""
    frames = list(shown.stack)
    first = next((i for i, f in enumerate(frames) if f.filename.startswith("<console")), None)
    if first is not None or own_only:
        kept = frames[first or 0 :]
        shown.stack[:] = [f for f in kept if not own_only or f.filename.startswith("<console")]
    if own_only:
        name = str(shown.exc_type.__name__) if shown.exc_type else "Error"
        shown.exc_type = type(name, (Exception,), {"__module__": "builtins"})
