"""Library modules edited in a project: their text, and the library's text that they were copied from.

Stored in the project file as JSON. A design uses them in place of the library's; the integer model stays the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from espalier.model.borders import parse_json, reading
from espalier.model.errors import OptionsError

MEMBER = "hardware_modules.json"  # of the project file
VERSION = 1
MOST = 1 << 20  # characters of a module
# System functions that a module may call: they compute or print. Others open files or start programs ($fopen, $system,
# $c), as do imports from C, and macros can form any word. Texts come with other people's projects and recipes.
PURE = frozenset((
    "bits", "ceil", "clog2", "countones", "display", "error", "fatal", "finish", "floor", "high", "info", "isunknown",
    "itor", "left", "low", "onehot", "onehot0", "random", "readmemh", "realtime", "right", "rtoi", "signed", "size",
    "sqrt", "stop", "time", "unsigned", "urandom", "urandom_range", "warning", "write",
))  # fmt: skip
_SYSTEM_CALL = re.compile(r"\$([A-Za-z_$][\w$]*)")
_COMMENT = re.compile(
    r"^[ \t]*//.*$", re.MULTILINE
)  # a whole line; no string reaches into it, see the last two patterns of _FOREIGN
_FOREIGN = re.compile(r"""`|\b(?:import|export)\b|\"{3}|\\\s*$""", re.MULTILINE)

# A memory may only be initialised from a file of the design, by the parameter that names it; paths are rejected.
_MEMORY_FILE = re.compile(r"(?:\$readmemh\s*\(|\b[A-Z]_FILE\s*[=(])\s*([^\s,);]*)")
_DESIGN_FILE = re.compile(r'[A-Z]_FILE|"\w+\.mem"')
_PATH = re.compile(r'"(?:/|\\|[^"\n]*\.\.)[^"\n]*"?')


@dataclass(frozen=True, slots=True)
class Edited:
    """The edited text of a module; `original`: the library's text when it was copied."""

    module: str
    text: str
    original: str

    def outdated(self, library_text: str) -> bool:
        """Whether the library's module has changed since the copy."""
        return self.original != library_text


def to_bytes(edited: Mapping[str, Edited]) -> bytes | None:
    """Content of the project member; None without edited modules."""
    if not edited:
        return None
    modules = {e.module: {"text": e.text, "original": e.original} for e in edited.values()}
    return json.dumps({"version": VERSION, "modules": modules}, separators=(",", ":")).encode()


def from_bytes(raw: bytes | None) -> dict[str, Edited]:
    """The inverse of `to_bytes`, by module; raises OptionsError for damaged content."""
    if raw is None:
        return {}
    title = "The edited modules of hardware in the project"
    with reading(title, OptionsError, "cannot be read", "They are left out; the library's modules are used."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}")
        edited = {str(n): Edited(str(n), *_texts(n, m)) for n, m in data["modules"].items()}
    return edited


def _texts(name: Any, member: Any) -> tuple[str, str]:
    texts = member["text"], member["original"]
    valid = isinstance(name, str) and name.isascii() and name.isidentifier()
    if not valid or not all(isinstance(t, str) and len(t) <= MOST for t in texts):
        raise ValueError("not a module's text")
    return cast("tuple[str, str]", texts)


def check_pure(module: str, text: str) -> None:
    """Raise OptionsError for a module that could access files or programs in a simulation."""
    called = next((f"${n}" for n in _SYSTEM_CALL.findall(text) if n not in PURE), None)
    code = _COMMENT.sub("", text)
    foreign = _FOREIGN.search(code) or _PATH.search(code)
    other_file = next((f.group() for f in _MEMORY_FILE.finditer(code) if not _DESIGN_FILE.fullmatch(f[1])), None)
    if called or foreign or other_file:
        construct = called or other_file or (foreign.group().strip() if foreign else "")
        hint = "Remove it from the edited module, or revert the module to the library's."
        raise OptionsError(f"The edited module {module} uses {construct}, which can reach files and programs.", hint)


def texts_in(extras: Mapping[str, bytes]) -> dict[str, str]:
    """Module → edited text, from the extra members of a project; raises OptionsError."""
    return {e.module: e.text for e in from_bytes(extras.get(MEMBER)).values()}
