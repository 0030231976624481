"""Lint of a module while it is edited: slang on the module, its submodules and its instances in the top.

slang takes 100 ms for a whole transformer and 2 to 10 ms for a module, so it can run after each word.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence

from espalier.verilog.proof.lint import Finding, slang

CHECK = "use_in_the_design"
MOST = 4  # checked instances with different parameters
_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def can_check() -> bool:
    """Whether slang is installed."""
    return importlib.util.find_spec("pyslang") is not None


def needed(file: str, files: Mapping[str, str]) -> dict[str, str]:
    """The file and the files of all its submodules, by name."""
    homes = {name: f for f, text in files.items() for name in _MODULE.findall(text)}
    sources, todo = dict[str, str](), [file]
    while todo:
        name = todo.pop()
        if name not in sources:
            sources[name] = files[name]
            todo += [homes[w] for w in set(_WORD.findall(files[name])) & homes.keys() if homes[w] not in sources]
    return sources


def uses(module: str, top: str) -> list[str]:
    """The top's instances of a module, one for each set of parameters, at most MOST."""
    instances: dict[str, str] = {}
    for text in re.findall(rf"^  {re.escape(module)} #\(.*?^  \);$", top, re.MULTILINE | re.DOTALL):
        instances.setdefault(text.partition(") u_")[0], text)
    return list(instances.values())[:MOST]


def check(
    file: str, module: str, files: Mapping[str, str], instances: Sequence[str], stop: Callable[[], bool] = lambda: False
) -> list[Finding]:
    """Errors of a module's file, sorted by line; `instances`: instantiations in SystemVerilog (from `uses`).

    A finding in another file than `file` concerns an instantiation, such as a removed port or parameter.
    """
    parts = needed(file, files)
    findings = slang(parts, module)
    for instance in instances:  # one by one, since slang holds the GIL while it runs
        if findings or stop():
            break
        # The wires of the ports are not declared: implicit nets of one bit, which slang accepts.
        findings = slang({**parts, f"{CHECK}.sv": f"module {CHECK};\n{instance}\nendmodule\n"}, CHECK)
    return sorted(_distinct(findings, file), key=lambda f: f.line)


def _distinct(findings: list[Finding], file: str) -> list[Finding]:
    """Without duplicates: an error in a parametrised module is reported for every instance."""
    distinct: dict[tuple[int, int, str], Finding] = {}
    for finding in findings:
        line, column = (finding.line, finding.column) if finding.file == file else (0, 0)
        distinct.setdefault((line, column, finding.text), finding)
    return list(distinct.values())
