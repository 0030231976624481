"""Every error that a user can cause: what happened (message), what to do (hint), where (node).

The core raises these; only the window and the command line show them. Anything else is a bug.
"""

from __future__ import annotations

import difflib
import json
import zipfile
import zlib
from collections.abc import Iterable

from espalier.model.private import redacted


class EspalierError(Exception):
    """A mistake that the user can mend.

    `message` says what happened, `hint` what to do, `node` is the id of the graph node at fault, if any.
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
    """An edit would leave an illegal graph."""


class MissingCodeError(GraphError):
    """The graph runs only with the code of its source, which was not loaded."""


class OptionsError(EspalierError):
    """Options of a pass are wrong; the message holds the path of the key."""


class PassError(EspalierError):
    """A pass could not do its work on this graph."""


class RegistryError(EspalierError):
    """Two files register the same name."""


class FormatError(EspalierError):
    """A number format does not exist or its parameters are impossible."""


class ProjectError(EspalierError):
    """A project file is missing, foreign, damaged or too new."""


class ChangedError(ProjectError):
    """A project file was written by another program since it was opened."""


class FileError(EspalierError):
    """A file or folder could not be written."""


class DataError(EspalierError):
    """A data set is missing or lacks what was asked of it."""


class JobError(EspalierError):
    """A background job ended without a result."""


class StorageError(EspalierError):
    """The storage of a study cannot be reached, or holds something else."""


class ExportError(EspalierError):
    """The result cannot be handed on in the form asked for."""


class EmitError(EspalierError):
    """A graph, or a node of it, cannot be written as hardware."""


class SimulateError(EspalierError):
    """A hardware simulator or synthesiser is missing or failed."""


class Interrupted(BaseException):
    """The job was cancelled, and broken off between two of its operations: nobody's mistake, and nobody's to catch."""


PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit, Interrupted)  # what no border makes an error of


class Damage(ValueError):
    """What is wrong with a file, in words that end a sentence; a reader's border makes an EspalierError of it."""


_LISTED = 20  # names that a hint lists at most; of more it tells the nearest three
PLUG_IN = "Or load its plug-in first (--plugin FILE.py)."
_TYPED = 0.85  # from this likeness on, one name is the other with a slip of the keyboard


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the valid name closest to `name`; where none is close, all of them, of many the nearest three.

    A name that has all words of `name` (`num_layers`: `num_hidden_layers`) is closer than one of like letters.
    """
    names = sorted(known)
    alike = difflib.get_close_matches(name, names, n=1, cutoff=_TYPED)
    close = alike or _with_words(name, names) or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    if len(names) > _LISTED:
        three = difflib.get_close_matches(name, names, n=3, cutoff=0.0)
        return f"Valid names nearest to it: {', '.join(three)} (of {len(names)})."
    return f"Valid names: {', '.join(names)}." if names else "There are none."


def unknown(name: str, known: Iterable[str]) -> str:
    """`nearest` for a table that plug-ins add to: what is no slip of the keyboard may be missing its plug-in."""
    names = sorted(known)
    hint = nearest(name, names)
    return hint if difflib.get_close_matches(name, names, n=1, cutoff=_TYPED) else f"{hint} {PLUG_IN}"


def _with_words(name: str, names: list[str]) -> list[str]:
    """Names that have all words of `name` and more, those with the fewest more first."""
    words = set(name.lower().split("_"))
    if len(words) < 2:
        return []
    found = [n for n in names if words < set(n.lower().split("_"))]
    return sorted(found, key=lambda n: (len(n.split("_")), n))


def damage(error: BaseException) -> str:
    """What a damaged file made Python raise, in words; the end of a sentence, without a full stop."""
    match error:
        case EspalierError():
            return error.message.rstrip(".")
        case Damage():
            return str(error)
        case RecursionError():
            return "it is nested too deeply"
        case MemoryError():
            return "it would take more memory than there is"
        case KeyError(args=(str(name), *_)):
            return name if " " in name else f"{name!r} is missing"
        case UnicodeDecodeError() | json.JSONDecodeError():
            return "a part of it is not JSON"
        case zipfile.BadZipFile() if "not a zip" in str(error):
            return "it is not a zip file, or only a part of one"
        case zipfile.BadZipFile() | zlib.error() | EOFError():
            return f"a part of it is altered or cut off ({error})" if str(error) else "a part of it is cut off"
        case OSError(strerror=str(text)):
            return text
        case _:
            return "a part of it has another form than it should"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
