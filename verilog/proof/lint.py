"""What tools say of the text: Verilator's warnings where it is there, and slang's elaboration from its wheel."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

from espalier.model.leftovers import scratch
from espalier.verilog.proof.subprocesses import watched
from espalier.verilog.proof.tools import verilator

SECONDS = 300
_VERILATOR = re.compile(r"%(Warning|Error)(?:-(\w+))?: (?:([^:\s]+):(\d+):(?:(\d+):)? )?(.*)")


@dataclass(frozen=True, slots=True)
class Finding:
    """One message; `line` and `column` count from 1, 0 where the tool names none."""

    tool: str
    severity: str
    file: str
    line: int
    text: str
    column: int = 0


@dataclass(frozen=True, slots=True)
class Lint:
    """All messages, and the tools that looked."""

    findings: tuple[Finding, ...]
    tools: tuple[str, ...]


def lint(files: dict[str, str], top: str) -> Lint:
    """Check a design's files by name; tools that are missing are left out of `tools`."""
    found: list[Finding] = []
    tools: list[str] = []
    if verilator() is not None:
        tools.append("verilator")
        found += _verilator(files, top)
    if importlib.util.find_spec("pyslang") is not None:
        tools.append("slang")
        found += slang(files, top)
    return Lint(tuple(found), tuple(tools))


def _verilator(files: dict[str, str], top: str) -> list[Finding]:
    tool = verilator()
    assert tool is not None
    with scratch() as place:
        sources = sorted(n for n in files if n.endswith(".sv"))
        for name in sources:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name])
        # -O0: nothing is to run, and loops that optimising takes away are told
        command = [*tool.command, "--lint-only", "-O0", "-Wall", "--top-module", top, *sources]
        code, said = watched(command, place, tool.environment, SECONDS)
    found = []
    for line in said.splitlines():
        got = _VERILATOR.match(line)
        if got and "Exiting due to" not in line:
            kind, code, file, number, _, text = got.groups()
            found.append(
                Finding("verilator", kind.lower(), file or "", int(number or 0), f"{code}: {text}" if code else text)
            )
    if code and not found:
        found.append(Finding("verilator", "error", "", 0, said.strip()[-300:]))
    return found


def slang(files: dict[str, str], top: str) -> list[Finding]:
    """Parse and elaborate in this process, in milliseconds; for diagnostics while somebody writes."""
    import pyslang

    sources = pyslang.SourceManager()
    trees = [
        pyslang.syntax.SyntaxTree.fromText(t, sources, n, n) for n, t in sorted(files.items()) if n.endswith(".sv")
    ]
    options = pyslang.ast.CompilationOptions()
    options.topModules = {top}
    made = pyslang.ast.Compilation(pyslang.Bag([options]))
    for tree in trees:
        made.addSyntaxTree(tree)
    engine = pyslang.DiagnosticEngine(sources)
    found = []
    for diagnostic in made.getAllDiagnostics():
        level = str(engine.getSeverity(diagnostic.code, diagnostic.location)).rpartition(".")[2].lower()
        if level not in ("error", "fatal"):  # Verilator's warnings are the ones that we keep to
            continue
        text = engine.formatMessage(diagnostic)
        at = diagnostic.location
        file, line, column = sources.getFileName(at), sources.getLineNumber(at), sources.getColumnNumber(at)
        found.append(Finding("slang", level, file, line, text, column))
    return found
