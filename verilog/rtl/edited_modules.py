"""Modules of the library that a person edited for one project: their text, and ours that it began as.

They lie in the project's file as JSON; a design takes them in the place of ours, and the bits it must give stay.
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
# What a module may call: it computes, or says something. All else opens files or starts programs ($fopen, $system, $c),
# as do imports from C; and macros can put together any word. Texts come with projects and recipes of other people.
PURE = frozenset((
    "bits", "ceil", "clog2", "countones", "display", "error", "fatal", "finish", "floor", "high", "info", "isunknown",
    "itor", "left", "low", "onehot", "onehot0", "random", "readmemh", "realtime", "right", "rtoi", "signed", "size",
    "sqrt", "stop", "time", "unsigned", "urandom", "urandom_range", "warning", "write",
))  # fmt: skip
_CALLED = re.compile(r"\$([A-Za-z_$][\w$]*)")
_REMARK = re.compile(
    r"^[ \t]*//.*$", re.MULTILINE
)  # a line of its own, which no text runs into: see the last two below
_FOREIGN = re.compile(r"""`|\b(?:import|export)\b|\"{3}|\\\s*$""", re.MULTILINE)

# What a memory may be filled from: a file of the design, by the parameter that names it. A path leads elsewhere.
_FILLED = re.compile(r"(?:\$readmemh\s*\(|\b[A-Z]_FILE\s*[=(])\s*([^\s,);]*)")
_DESIGN_FILE = re.compile(r'[A-Z]_FILE|"\w+\.mem"')
_PATH = re.compile(r'"(?:/|\\|[^"\n]*\.\.)[^"\n]*"?')


@dataclass(frozen=True, slots=True)
class Edited:
    """A module's text as it was edited; `original`: ours, when the copy was made."""

    module: str
    text: str
    original: str

    def outdated(self, ours: str) -> bool:
        """Whether ours has become another since the copy was made."""
        return self.original != ours


def to_bytes(held: Mapping[str, Edited]) -> bytes | None:
    """The member of the project; None where nothing is edited."""
    if not held:
        return None
    modules = {e.module: {"text": e.text, "original": e.original} for e in held.values()}
    return json.dumps({"version": VERSION, "modules": modules}, separators=(",", ":")).encode()


def from_bytes(raw: bytes | None) -> dict[str, Edited]:
    """What `to_bytes` gave, by module; raises OptionsError where it cannot be read."""
    if raw is None:
        return {}
    what = "The edited modules of hardware in the project"
    with reading(what, OptionsError, "cannot be read", "They are left out; ours are used."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}")
        found = {str(n): Edited(str(n), *_texts(n, m)) for n, m in data["modules"].items()}
    return found


def _texts(name: Any, held: Any) -> tuple[str, str]:
    texts = held["text"], held["original"]
    good = isinstance(name, str) and name.isascii() and name.isidentifier()
    if not good or not all(isinstance(t, str) and len(t) <= MOST for t in texts):
        raise ValueError("no text of a module")
    return cast("tuple[str, str]", texts)


def check_pure(module: str, text: str) -> None:
    """Raise OptionsError for a module that could do more in a simulation than compute."""
    called = next((f"${n}" for n in _CALLED.findall(text) if n not in PURE), None)
    bare = _REMARK.sub("", text)
    foreign = _FOREIGN.search(bare) or _PATH.search(bare)
    filled = next((f.group() for f in _FILLED.finditer(bare) if not _DESIGN_FILE.fullmatch(f[1])), None)
    if called or foreign or filled:
        what = called or filled or (foreign.group().strip() if foreign else "")
        hint = "Take it out of the edited module, or revert the module to ours."
        raise OptionsError(f"The edited module {module} uses {what}, which can reach files and programs.", hint)


def texts_in(extras: Mapping[str, bytes]) -> dict[str, str]:
    """Module → edited text, of what a project keeps beside its graph; raises OptionsError."""
    return {e.module: e.text for e in from_bytes(extras.get(MEMBER)).values()}
