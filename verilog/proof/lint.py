"""Lint of a design: Verilator's warnings and slang's elaboration errors, as far as the tools are installed."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass

from espalier.model.leftovers import scratch
from espalier.verilog.proof.subprocesses import run_polled
from espalier.verilog.proof.tools import verilator

SECONDS = 300
_VERILATOR = re.compile(r"%(Warning|Error)(?:-(\w+))?: (?:([^:\s]+):(\d+):(?:(\d+):)? )?(.*)")


@dataclass(frozen=True, slots=True)
class Finding:
    """A message; `line` and `column` are 1-based, 0 if the tool gives none."""

    tool: str
    severity: str
    file: str
    line: int
    text: str
    column: int = 0


@dataclass(frozen=True, slots=True)
class Lint:
    """All messages, and the tools that ran."""

    findings: tuple[Finding, ...]
    tools: tuple[str, ...]


def lint(files: dict[str, str], top: str) -> Lint:
    """Lint a design's files (name → text) with the installed tools."""
    findings: list[Finding] = []
    tools: list[str] = []
    if verilator() is not None:
        tools.append("verilator")
        findings += _verilator(files, top)
    if importlib.util.find_spec("pyslang") is not None:
        tools.append("slang")
        findings += slang(files, top)
    return Lint(tuple(findings), tuple(tools))


def _verilator(files: dict[str, str], top: str) -> list[Finding]:
    tool = verilator()
    assert tool is not None
    with scratch() as place:
        sources = sorted(n for n in files if n.endswith(".sv"))
        for name in sources:
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name])
        # -O0: reports combinational loops that optimisation would remove
        command = [*tool.command, "--lint-only", "-O0", "-Wall", "--top-module", top, *sources]
        code, output = run_polled(command, place, tool.environment, SECONDS)
    findings = []
    for line in output.splitlines():
        match = _VERILATOR.match(line)
        if match and "Exiting due to" not in line:
            kind, code, file, number, _, text = match.groups()
            findings.append(
                Finding("verilator", kind.lower(), file or "", int(number or 0), f"{code}: {text}" if code else text)
            )
    if code and not findings:
        findings.append(Finding("verilator", "error", "", 0, output.strip()[-300:]))
    return findings


def slang(files: dict[str, str], top: str) -> list[Finding]:
    """Parse and elaborate in this process, in milliseconds, for diagnostics while editing."""
    import pyslang

    sources = pyslang.SourceManager()
    trees = [
        pyslang.syntax.SyntaxTree.fromText(t, sources, n, n) for n, t in sorted(files.items()) if n.endswith(".sv")
    ]
    options = pyslang.ast.CompilationOptions()
    options.topModules = {top}
    compilation = pyslang.ast.Compilation(pyslang.Bag([options]))
    for tree in trees:
        compilation.addSyntaxTree(tree)
    engine = pyslang.DiagnosticEngine(sources)
    findings = []
    for diagnostic in compilation.getAllDiagnostics():
        level = str(engine.getSeverity(diagnostic.code, diagnostic.location)).rpartition(".")[2].lower()
        if level not in ("error", "fatal"):  # warnings are left to Verilator
            continue
        text = engine.formatMessage(diagnostic)
        at = diagnostic.location
        file, line, column = sources.getFileName(at), sources.getLineNumber(at), sources.getColumnNumber(at)
        findings.append(Finding("slang", level, file, line, text, column))
    return findings
