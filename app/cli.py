"""The command line: finds the subcommand, runs it, and turns every ending into streams and an exit code.

0: done. 2: the user's mistake, told in two lines. 1: a bug, with a report file. 130: stopped by Ctrl+C.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import pkgutil
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TextIO

import espalier.app.commands
import espalier.app.features
from espalier.app.commands.command import Answer, Command, Parser, UsageError, add_common, add_plugins
from espalier.app.commands.console import Console, one_line, plain
from espalier.app.commands.crash import write_crash_report
from espalier.model.cache.entries import OFF
from espalier.model.document.project import APP
from espalier.model.errors import EspalierError, FileError, nearest
from espalier.model.files import hint_of, told
from espalier.model.leftovers import clear_scratch
from espalier.model.trust import NAMED

PROGRAM = "main.py"
REFUSED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.EIO,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENXIO,
    errno.EMFILE,
    errno.ENFILE,
}  # by the system: no bugs
# Read when the libraries are imported: nothing of theirs belongs on the terminal.
QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false",
         "TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99"}  # fmt: skip


class Window(Protocol):
    """What opens the window; given by whoever starts the program, so that nothing here knows of Qt."""

    def open(self, target: str | None, plugins: Sequence[str], theme: str | None) -> int:
        """Show the window until it is closed; the exit code."""
        ...

    def render(
        self, target: str | None, plugins: Sequence[str], file: Path, size: tuple[int, int], theme: str,
        panel: str | None,
    ) -> None:  # fmt: skip
        """Draw the window offscreen into a file, with everything loaded."""
        ...


def main(words: list[str] | None = None, window: Window | None = None) -> int:
    """Run the command line `words`; returns the exit code."""
    words = sys.argv[1:] if words is None else words
    out = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _dispatch(words, window, out)
    except EspalierError as error:
        kind = type(error).__name__.removesuffix("Error").lower()
        _tell(kind, error.message, error.hint or f"See {PROGRAM} --help.", words, out)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has gone, as `head` does
        _abandon(out)
        return 0
    except MemoryError:
        hint = "Close other programs, or use a smaller model."
        _tell("memory", "There is not enough memory for this.", hint, words, out)
        return 2
    except OSError as error:
        if error.errno not in REFUSED:
            return _bug(error, words, out)
        problem = told(error)
        _tell("file", problem.message, problem.hint, words, out)
        return 2
    # A bug: whatever it is, the user gets one line and a file.
    except Exception as error:  # noqa: BLE001
        return _bug(error, words, out)


def _bug(error: Exception, words: list[str], out: TextIO) -> int:
    path = write_crash_report(error, words)
    what = f"Espalier failed: {type(error).__name__}: {error}."
    print(one_line(f"{what} Report: {path}"), file=sys.stderr)
    _tell_json("bug", what, f"Report: {path}", words, out)
    return 1


def process(window: Window | None = None) -> int:
    """`main` for a process of its own: even what libraries write to file descriptor 1 goes to stderr.

    SIGINT stops it however it was started: a shell's background jobs begin with that signal ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(real, "w", encoding="utf-8", errors="replace")
    return main(window=window)


def _tell(kind: str, what: str, do: str, words: list[str], out: TextIO) -> None:
    print(one_line(what), one_line(do), sep="\n", file=sys.stderr)
    _tell_json(kind, what, do, words, out)


def _abandon(out: TextIO) -> None:
    """Nothing more can be written there; what is left goes nowhere, so that the interpreter's end says nothing."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _tell_json(kind: str, what: str, do: str, words: list[str], out: TextIO) -> None:
    """With --json, whoever reads stdout learns of a failure too."""
    if "--json" in words:
        found = {"error": {"message": one_line(what), "hint": one_line(do), "kind": kind}}
        try:
            print(json.dumps(found, ensure_ascii=False), file=out, flush=True)
        except OSError:
            _abandon(out)


def _dispatch(words: list[str], window: Window | None, out: TextIO) -> int:
    words = _common_last(words)
    if words and (command := _named(words[0])):  # without those of all others, so that it starts quickly
        return _run(command, words[1:], out)
    if words and words[0] in ("-V", "--version"):
        print(f"espalier {APP}", file=out)
        return 0
    known = commands()
    if words and words[0] in ("-h", "--help", "help"):
        print(_overview(known), file=out)
        return 0
    if words and not words[0].startswith("-") and not _is_target(words[0]):
        raise UsageError(f"There is no command {words[0]!r}.", nearest(words[0], known))
    return _window(words, window)


def _common_last(words: list[str]) -> list[str]:
    """`--json trace X` means `trace X --json`."""
    lead: list[str] = []
    rest = list(words)
    while rest and rest[0] in ("--json", "--no-cache", "--seed", "--plugin", "--trust"):
        count = 1 if rest[0] in ("--json", "--no-cache") else 2
        lead, rest = lead + rest[:count], rest[count:]
    return rest + lead if rest and not rest[0].startswith("-") else words


def commands() -> dict[str, Command]:
    """All subcommands by name: every module of a room of commands that holds one."""
    held = (_command_in(module) for modules in _rooms() for module in modules.values())
    return {c.name: c for c in sorted(filter(None, held), key=lambda c: c.name)}


def _rooms() -> Iterator[dict[str, str]]:
    """The modules of `app.commands` and of each feature's `commands`, by the word that names them."""
    features = ((f"{espalier.app.features.__name__}.{i.name}.commands", Path(p) / i.name / "commands")
                for p in espalier.app.features.__path__ for i in pkgutil.iter_modules([p]))  # fmt: skip
    rooms = [(espalier.app.commands.__name__, Path(p)) for p in espalier.app.commands.__path__]
    for room, folder in (*rooms, *features):
        yield {i.name.replace("_", "-"): f"{room}.{i.name}" for i in pkgutil.iter_modules([str(folder)])}


def _named(word: str) -> Command | None:
    """The subcommand of a name, whose module is called the same."""
    module = next((modules[word] for modules in _rooms() if word in modules), None)
    found = _command_in(module) if module else None
    return found if found and found.name == word else None


def _command_in(module: str) -> Command | None:
    found = getattr(importlib.import_module(module), "COMMAND", None)
    return found if isinstance(found, Command) else None


def parser_of(command: Command) -> Parser:
    """The parser of a subcommand."""
    parser = Parser(command.name, f"{PROGRAM} {command.name}", command.about, command.details)
    command.arguments(parser)
    add_common(parser)
    return parser


def _run(command: Command, words: list[str], out: TextIO) -> int:
    parser = parser_of(command)
    if "-h" in words or "--help" in words:
        print(parser.format_help(), end="", file=out)
        return 0
    found = parser.read(words)
    if found.no_cache:
        os.environ[OFF] = "1"  # workers of this command hear it too
    if found.trust:
        os.environ[NAMED] = os.pathsep.join(str(Path(p).expanduser().resolve()) for p in found.trust)
    console = Console(out, found.json)
    _prepare(found.plugin, console)
    try:
        answer = command.run(found, console)
    finally:
        console.clear()
    _answer(answer, console)
    return answer.code


def _prepare(files: list[str], console: Console) -> None:
    from espalier.passes.jobs.heap import keep_freed_memory
    from espalier.passes.plugins.plugins import load_plugins

    clear_scratch()
    keep_freed_memory()
    load_plugins(files, console.note)


def _answer(answer: Answer, console: Console) -> None:
    if console.json:
        lines = [json.dumps(plain(answer.data), ensure_ascii=False, allow_nan=False) + "\n"]
    else:
        lines = [line + "\n" for line in answer.lines()]
    try:
        console.out.writelines(lines)
        console.out.flush()
    except OSError as error:
        _abandon(console.out)
        if isinstance(error, BrokenPipeError):
            raise
        raise FileError(f"The answer could not be written ({error.strerror}).", hint_of(error)) from error


# -- the window


def _is_target(word: str) -> bool:
    """Whether a first word names something to open rather than a command."""
    return ":" in word or "." in word or "/" in word or os.path.exists(word)


def window_parser() -> Parser:
    """What the program takes without a subcommand."""
    parser = Parser("The window", PROGRAM, "Opens the window, or draws it into a file.", "")
    parser.add_argument("target", nargs="?", metavar="PATH|SOURCE", help="a project, or a model to open")
    parser.add_argument("--screenshot", metavar="FILE", help="draw the window offscreen into a PNG and exit")
    parser.add_argument("--size", type=_size, metavar="WxH", help="of the picture (default 1600x1000)")
    parser.add_argument("--theme", choices=("light", "dark"), help="light or dark (default: as chosen in the window)")
    parser.add_argument("--panel", metavar="NAME", help="in a picture, the panel to bring to the front")
    add_plugins(parser)
    return parser


def _size(text: str) -> tuple[int, int]:
    width, x, height = text.lower().partition("x")
    if not (x and width.isdigit() and height.isdigit() and 200 <= int(width) <= 8000 and 200 <= int(height) <= 8000):
        raise UsageError(f"--size is {text!r}.", "Write width x height in pixels, such as 1600x1000.")
    return int(width), int(height)


def _window(words: list[str], window: Window | None) -> int:
    found = window_parser().read(words)
    if window is None:
        raise UsageError("There is no window here.", f"Use a command: {', '.join(commands())}.")
    if found.screenshot:
        size, theme = found.size or (1600, 1000), found.theme or "light"
        window.render(found.target, found.plugin, Path(found.screenshot), size, theme, found.panel)
        return 0
    if found.size or found.panel:
        raise UsageError("--size and --panel are for a picture of the window.", "Add --screenshot FILE.")
    if not has_display():
        raise UsageError("There is no display, so the window cannot open.",
                         f"Use --screenshot FILE, or a command: {', '.join(commands())}.")  # fmt: skip
    return window.open(found.target, found.plugin, found.theme)


def has_display() -> bool:
    """Whether a window could be seen."""
    asked = os.environ.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if asked or not sys.platform.startswith("linux"):
        return asked not in ("offscreen", "minimal")
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _overview(known: dict[str, Command]) -> str:
    width = max(map(len, known))
    return "\n".join([
        window_parser().format_help().strip(), "", "commands (main.py COMMAND --help tells more):",
        *(f"  {name.ljust(width)}  {c.about}" for name, c in known.items()), "",
        "SOURCE  a Hugging Face folder, hf:NAME, config:bert?num_hidden_layers=2, file.py:factory, model.pt2,",
        "        a packed model (F.packed.safetensors), demo:reviews, demo:digits or demo:digits-mlp",
        "Every command takes --json, --seed N, --no-cache and --plugin FILE.py; --version prints the version.",
    ])  # fmt: skip
