"""Errors that a user can cause: what is wrong (message), what to do (hint), where (node).

The core raises them; the window and the command line show them. Any other exception is a bug.
"""

from __future__ import annotations

import difflib
import json
import zipfile
import zlib
from collections.abc import Iterable

from espalier.model.private import redacted


class EspalierError(Exception):
    """An error that the user can correct.

    `message`: what is wrong; `hint`: what to do; `node`: id of the graph node that caused it, if any.
    """

    def __init__(self, message: str, hint: str = "", node: str | None = None) -> None:
        message, hint = redacted(message), redacted(hint)
        super().__init__(message, hint, node)
        self.message = message
        self.hint = hint
        self.node = node

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class SourceError(EspalierError):
    """The model's source is missing, unreadable or unknown."""


class TraceError(EspalierError):
    """The model could not be captured."""


class GraphError(EspalierError):
    """An edit would result in an invalid graph."""


class MissingCodeError(GraphError):
    """The graph needs code of its source that is not loaded."""


class OptionsError(EspalierError):
    """Options of a pass are invalid; the message contains the path of the key."""


class PassError(EspalierError):
    """A pass cannot be applied to this graph."""


class RegistryError(EspalierError):
    """Two files register the same name."""


class FormatError(EspalierError):
    """A number format does not exist or its parameters are invalid."""


class ProjectError(EspalierError):
    """A project file is missing, foreign, damaged or too new."""


class ChangedError(ProjectError):
    """A project file was written by another program since it was opened."""


class FileError(EspalierError):
    """A file or folder could not be written."""


class DataError(EspalierError):
    """A data set is missing or lacks requested columns, splits or classes."""


class JobError(EspalierError):
    """A background job ended without a result."""


class StorageError(EspalierError):
    """The storage of a study is unreachable or contains other data."""


class ExportError(EspalierError):
    """The result cannot be exported in the requested format."""


class EmitError(EspalierError):
    """A graph or a node cannot be emitted as hardware."""


class SimulateError(EspalierError):
    """A hardware simulator or synthesiser is missing or failed."""


class Interrupted(BaseException):
    """The job was cancelled and aborted between two operations; not to be caught by handlers of exceptions."""


PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit, Interrupted)  # not converted by `borders.reading`


class Damage(ValueError):
    """A fault of a file, as the end of a sentence; `borders.reading` converts it to an EspalierError."""


_LISTED = 20  # maximum number of names in a hint; of more, the nearest three are listed
PLUG_IN = "Or load its plug-in first (--plugin FILE.py)."
_TYPED = 0.85  # similarity from which a name counts as a typing error


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the valid name closest to `name`; if none is close, with all names or the nearest three of many.

    A name with all words of `name` (`num_layers`: `num_hidden_layers`) is closer than one with similar letters.
    """
    names = sorted(set(known))
    alike = difflib.get_close_matches(name, names, n=1, cutoff=_TYPED)
    close = alike or _with_words(name, names) or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    if len(names) > _LISTED:
        three = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
        return f"Valid names nearest to it: {', '.join(three)} (of {len(names)})."
    return f"Valid names: {', '.join(names)}." if names else "There are none."


def unknown(name: str, known: Iterable[str]) -> str:
    """`nearest` for registries: unless `name` looks like a typing error, the hint also suggests to load a plug-in."""
    names = sorted(set(known))
    hint = nearest(name, names)
    return hint if difflib.get_close_matches(name, names, n=1, cutoff=_TYPED) else f"{hint} {PLUG_IN}"


def _with_words(name: str, names: list[str]) -> list[str]:
    """Names with all words of `name` and more, those with the fewest extra words first."""
    words = set(name.lower().split("_"))
    if len(words) < 2:
        return []
    matches = [n for n in names if words < set(n.lower().split("_"))]
    return sorted(matches, key=lambda n: (len(n.split("_")), n))


def damage(error: BaseException) -> str:
    """A description of an exception from reading a damaged file: the end of a sentence, without a full stop."""
    match error:
        case EspalierError():
            return error.message.rstrip(".")
        case Damage():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
        case MemoryError():
            return "it needs more memory than is available"
        case KeyError(args=(str(name), *_)):
            return name if " " in name else f"{name!r} is missing"
        case UnicodeDecodeError() | json.JSONDecodeError():
            return "a part of it is not valid JSON"
        case zipfile.BadZipFile() if "not a zip" in str(error):
            return "it is not a complete zip file"
        case zipfile.BadZipFile() | zlib.error() | EOFError():
            return f"a part of it is altered or truncated ({error})" if str(error) else "a part of it is truncated"
        case OSError(strerror=str(text)):
            return text
        case _:
            return "a part of it has an unexpected structure"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
