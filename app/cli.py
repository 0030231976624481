"""The command line: runs a subcommand or the window, and returns the exit code.

0: success. 1: a bug, with a report file. 2: an error of the user or the system, in two lines. 130: Ctrl+C.
"""

from __future__ import annotations

import contextlib
import errno
import gc
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
from espalier.app.commands.interrupts import ToldInterrupt, interrupt
from espalier.model.cache.entries import OFF
from espalier.model.document.project import APP
from espalier.model.errors import EspalierError, FileError, nearest
from espalier.model.files import file_error, hint_of
from espalier.model.leftovers import clear_scratch
from espalier.model.sources.torchao import quiet_import
from espalier.model.trust import NAMED

PROGRAM = "main.py"
SYSTEM_ERRORS = {
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
}  # errors of the system, not bugs
# Read when the libraries are imported; keeps their output off the terminal.
QUIET = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false",
         "TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99"}  # fmt: skip


class Window(Protocol):
    """Opens the window; passed in by the caller, so that this module needs no Qt."""

    def open(self, target: str | None, plugins: Sequence[str], theme: str | None, language: str | None) -> int:
        """Show the window until it is closed; returns the exit code."""
        ...

    def render(
        self, target: str | None, plugins: Sequence[str], file: Path, size: tuple[int, int], theme: str,
        panel: str | None, language: str | None,
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
        _print_error(kind, error.message, error.hint or f"See {PROGRAM} --help.", words, out)
        return 2
    except KeyboardInterrupt as stop:
        if not isinstance(stop, ToldInterrupt):
            print("Stopped.", file=sys.stderr)
        _print_json_error("interrupt", str(stop) or "Stopped.", "Run it again.", words, out)
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        _discard_output(out)
        return 0
    except MemoryError:
        hint = "Close other programs, or use a smaller model."
        _print_error("memory", "There is not enough memory for this.", hint, words, out)
        return 2
    except OSError as error:
        if error.errno not in SYSTEM_ERRORS:
            return _bug(error, words, out)
        problem = file_error(error)
        _print_error("file", problem.message, problem.hint, words, out)
        return 2
    except Exception as error:  # noqa: BLE001 - a bug
        return _bug(error, words, out)


def _bug(error: Exception, words: list[str], out: TextIO) -> int:
    from espalier.passes.plugins.plugins import plugin_fault

    path = write_crash_report(error, words)
    if fault := plugin_fault(error):
        _print_error("plugin", fault.message, f"{fault.hint} Traceback: {path}", words, out)
        return 2
    what = f"Espalier failed: {type(error).__name__}: {error}."
    print(one_line(f"{what} Report: {path}"), file=sys.stderr)
    _print_json_error("bug", what, f"Report: {path}", words, out)
    return 1


def process(window: Window | None = None) -> int:
    """`main` in a process of its own; what libraries write to file descriptor 1 goes to stderr.

    Sets the handler of SIGINT, because a shell starts background jobs with that signal ignored.
    """
    signal.signal(signal.SIGINT, interrupt)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")
    quiet_import()
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(real, "w", encoding="utf-8", errors="replace")
    code = main(window=window)
    if "PySide6" not in sys.modules:
        gc.freeze()  # the interpreter would search all of torch's objects for cycles again and again as it ends
    return code


def _print_error(kind: str, what: str, do: str, words: list[str], out: TextIO) -> None:
    print(one_line(what), one_line(do), sep="\n", file=sys.stderr)
    _print_json_error(kind, what, do, words, out)


def _discard_output(out: TextIO) -> None:
    """Redirect a closed stream to the null device, so that the interpreter's last flush raises no error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _print_json_error(kind: str, what: str, do: str, words: list[str], out: TextIO) -> None:
    """Print a failure to stdout as JSON, with --json."""
    if "--json" in words:
        failure = {"error": {"message": one_line(what), "hint": one_line(do), "kind": kind}}
        try:
            print(json.dumps(failure, ensure_ascii=False), file=out, flush=True)
        except OSError:
            _discard_output(out)


def _dispatch(words: list[str], window: Window | None, out: TextIO) -> int:
    words = _common_last(words)
    if words and (command := _named(words[0])):  # imports only its module, for a quick start
        return _run(command, words[1:], out)
    if words and words[0] in ("-V", "--version"):
        print(f"espalier {APP}", file=out)
        return 0
    if words and words[0] in ("-h", "--help", "help"):
        print(_overview(commands()), file=out)
        return 0
    if words and not words[0].startswith("-") and not _is_target(words[0]):
        raise UsageError(f"There is no command {words[0]!r}.", nearest(words[0], commands()))
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
    """All subcommands by name, sorted."""
    every = (_command_in(module) for modules in _packages() for module in modules.values())
    return {c.name: c for c in sorted(filter(None, every), key=lambda c: c.name)}


def _packages() -> Iterator[dict[str, str]]:
    """For `app.commands` and each feature's `commands`: command name → module."""
    features = ((f"{espalier.app.features.__name__}.{i.name}.commands", Path(p) / i.name / "commands")
                for p in espalier.app.features.__path__ for i in pkgutil.iter_modules([p]))  # fmt: skip
    packages = [(espalier.app.commands.__name__, Path(p)) for p in espalier.app.commands.__path__]
    for package, folder in (*packages, *features):
        yield {i.name.replace("_", "-"): f"{package}.{i.name}" for i in pkgutil.iter_modules([str(folder)])}


def _named(word: str) -> Command | None:
    """The subcommand of a name; its module has the same name."""
    module = next((modules[word] for modules in _packages() if word in modules), None)
    command = _command_in(module) if module else None
    return command if command and command.name == word else None


def _command_in(module: str) -> Command | None:
    command = getattr(importlib.import_module(module), "COMMAND", None)
    return command if isinstance(command, Command) else None


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
    args = parser.read(words)
    if args.no_cache:
        os.environ[OFF] = "1"  # also for the workers of this command
    if args.trust:
        os.environ[NAMED] = os.pathsep.join(str(Path(p).expanduser().resolve()) for p in args.trust)
    console = Console(out, args.json)
    _prepare(args.plugin, console)
    try:
        answer = command.run(args, console)
    finally:
        console.clear()
    _answer(answer, console)
    return answer.code


def _prepare(files: list[str], console: Console) -> None:
    from espalier.passes.jobs.heap import keep_freed_memory
    from espalier.passes.jobs.openmp import yield_processors
    from espalier.passes.plugins.plugins import load_plugins

    clear_scratch()
    keep_freed_memory()
    yield_processors()
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
        _discard_output(console.out)
        if isinstance(error, BrokenPipeError):
            raise
        raise FileError(f"The answer could not be written ({error.strerror}).", hint_of(error)) from error


# -- the window


def _is_target(word: str) -> bool:
    """Whether the first argument is a model or file rather than a command."""
    return ":" in word or "." in word or "/" in word or os.path.exists(word)


def window_parser() -> Parser:
    """The parser of the program without a subcommand."""
    parser = Parser("The window", PROGRAM, "Opens the window, or draws it into a file.", "")
    parser.add_argument("target", nargs="?", metavar="PATH|SOURCE", help="a project, or a model to open")
    parser.add_argument("--screenshot", metavar="FILE", help="draw the window offscreen into a PNG and exit")
    parser.add_argument("--size", type=_size, metavar="WxH", help="of the picture (default 1600x1000)")
    parser.add_argument("--theme", choices=("light", "dark"), help="light or dark (default: as chosen in the window)")
    parser.add_argument(
        "--language", metavar="CODE", help="en, or that of a catalogue (default: as chosen in the window)"
    )
    parser.add_argument("--panel", metavar="NAME", help="in a picture, the panel to bring to the front")
    add_plugins(parser)
    return parser


def _size(text: str) -> tuple[int, int]:
    width, x, height = text.lower().partition("x")
    if not (x and width.isdigit() and height.isdigit() and 200 <= int(width) <= 8000 and 200 <= int(height) <= 8000):
        raise UsageError(f"--size is {text!r}.", "Write width x height in pixels, such as 1600x1000.")
    return int(width), int(height)


def _window(words: list[str], window: Window | None) -> int:
    args = window_parser().read(words)
    if window is None:
        raise UsageError("There is no window here.", f"Use a command: {', '.join(commands())}.")
    if args.screenshot:
        size, theme = args.size or (1600, 1000), args.theme or "light"
        window.render(args.target, args.plugin, Path(args.screenshot), size, theme, args.panel, args.language)
        return 0
    if args.size or args.panel:
        raise UsageError("--size and --panel are for a picture of the window.", "Add --screenshot FILE.")
    if not has_display():
        raise UsageError("There is no display, so the window cannot open.",
                         f"Use --screenshot FILE, or a command: {', '.join(commands())}.")  # fmt: skip
    return window.open(args.target, args.plugin, args.theme, args.language)


def has_display() -> bool:
    """Whether a window can be shown."""
    platform = os.environ.get("QT_QPA_PLATFORM", "").partition(":")[0]
    if platform or not sys.platform.startswith("linux"):
        return platform not in ("offscreen", "minimal")
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _overview(available: dict[str, Command]) -> str:
    width = max(map(len, available))
    return "\n".join([
        window_parser().format_help().strip(), "", "commands (main.py COMMAND --help tells more):",
        *(f"  {name.ljust(width)}  {c.about}" for name, c in available.items()), "",
        "SOURCE  a Hugging Face folder, hf:NAME, config:bert?num_hidden_layers=2, file.py:factory, model.pt2,",
        "        a packed model (F.packed.safetensors), demo:reviews, demo:stories, demo:digits or demo:digits-mlp",
        "Every command takes --json, --seed N, --no-cache and --plugin FILE.py; --version prints the version.",
    ])  # fmt: skip
