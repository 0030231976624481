"""Definition of a subcommand: name, arguments, and a function from arguments to an answer."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from espalier.app.commands.console import Console
from espalier.model.errors import EspalierError, nearest

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

Arguments = argparse.Namespace


class UsageError(EspalierError):
    """An invalid command line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's result: JSON object, text lines, and exit code."""

    data: dict[str, Any]
    lines: Callable[[], Iterable[str]]
    code: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. `about`: its line in the list of commands; `details`: further text of its own help."""

    name: str
    about: str
    arguments: Callable[[Parser], None]
    run: Callable[[Arguments, Console], Answer]
    details: str = ""
    aliases: tuple[str, ...] = field(default=())


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises UsageError with a message and a hint."""

    def __init__(self, command: str, program: str, about: str, details: str) -> None:
        form = argparse.RawDescriptionHelpFormatter
        text = f"{about}\n\n{details}".strip()
        super().__init__(prog=program, description=text, formatter_class=form, allow_abbrev=False)
        self.command = command

    @property
    def hint(self) -> str:
        """Hint that refers to the command's help."""
        return f"See {self.prog} --help."

    @property
    def flags(self) -> list[str]:
        """All options that start with two dashes."""
        return [o for a in self._actions for o in a.option_strings if o.startswith("--")]

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing a usage text."""
        missing = re.match(r"the following arguments are required: (.*)", message)
        if missing:
            raise UsageError(f"{self.command} needs {missing.group(1)}.", self.hint)
        choice = re.match(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice:
            known = re.findall(r"'([^']*)'", choice.group(3))
            raise UsageError(f"{choice.group(1)} cannot be {choice.group(2)!r}.", nearest(choice.group(2), known))
        raise UsageError(f"{message.removeprefix('argument ')}.", self.hint)

    def read(self, words: list[str]) -> Arguments:
        """Parse `words`; raises UsageError."""
        args, extra = self.parse_known_args(words)
        for word in extra:
            if word.startswith("-") and len(word) > 1:
                flag = word.partition("=")[0]
                raise UsageError(f"{self.command} has no option {flag}.", nearest(flag, self.flags))
        if extra:
            raise UsageError(f"{extra[0]!r} is one argument too many for {self.command}.", self.hint)
        return args


def add_common(parser: Parser) -> None:
    """Add the arguments of every command."""
    group = parser.add_argument_group("every command")
    group.add_argument("--seed", type=int, default=0, help="equal seeds give equal results (default 0)")
    group.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    group.add_argument("--no-cache", action="store_true", help="capture and measure again without the cache")
    group.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="FILE.py",
        help="allow this file to run if a project or a recipe names it; may repeat",
    )
    add_plugins(group)


def add_plugins(parser: Parser | _ArgumentGroup) -> None:
    """Add --plugin, also for the window."""
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE.py",
        help="load a plug-in, a file with code of your own; may repeat",
    )
