"""What is wrong with one module while somebody writes it: slang on it, on what it uses, and on how the top uses it.

A whole transformer takes slang 100 ms; a module with its parts takes 2 to 10, so it can be asked after each word.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence

from espalier.verilog.proof.lint import Finding, slang

CHECK = "use_in_the_design"
MOST = 4  # of the top's instances with different parameters
_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def can_check() -> bool:
    """Whether slang is installed."""
    return importlib.util.find_spec("pyslang") is not None


def needed(file: str, files: Mapping[str, str]) -> dict[str, str]:
    """The file and all that its modules are made of, by name."""
    homes = {name: f for f, text in files.items() for name in _MODULE.findall(text)}
    found, todo = dict[str, str](), [file]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = files[name]
            todo += [homes[w] for w in set(_WORD.findall(files[name])) & homes.keys() if homes[w] not in found]
    return found


def uses(module: str, top: str) -> list[str]:
    """The top's instances of a module, one for each set of parameters."""
    found: dict[str, str] = {}
    for text in re.findall(rf"^  {re.escape(module)} #\(.*?^  \);$", top, re.MULTILINE | re.DOTALL):
        found.setdefault(text.partition(") u_")[0], text)
    return list(found.values())[:MOST]


def check(
    file: str, module: str, files: Mapping[str, str], instances: Sequence[str], stop: Callable[[], bool] = lambda: False
) -> list[Finding]:
    """Errors of a module's file, in its order; `instances`: how it is used, in SystemVerilog (`uses`).

    A finding with another file than `file` is of a use: a port or parameter that is gone.
    """
    parts = needed(file, files)
    found = slang(parts, module)
    for instance in instances:  # one by one: slang holds the interpreter as long as it works
        if found or stop():
            break
        # Names of the ports' wires are declared nowhere: implicit nets of one bit, which slang lets pass.
        found = slang({**parts, f"{CHECK}.sv": f"module {CHECK};\n{instance}\nendmodule\n"}, CHECK)
    return sorted(_own(found, file), key=lambda f: f.line)


def _own(found: list[Finding], file: str) -> list[Finding]:
    """Each message once: an error in a generic module comes with every instance."""
    seen: dict[tuple[int, int, str], Finding] = {}
    for each in found:
        line, column = (each.line, each.column) if each.file == file else (0, 0)
        seen.setdefault((line, column, each.text), each)
    return list(seen.values())
