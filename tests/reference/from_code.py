"""The references: passes, formats, costs, hardware operations, commands, kernels, as the registries hold them."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from collections.abc import Iterable
from typing import Any

from espalier.app.cli import commands, parser_of
from espalier.kernels.bench.spec import KERNELS
from espalier.model.formats.base import Format
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.base import NoOptions, PassSpec
from espalier.passes.costs.base import COSTS
from espalier.verilog import templates as template_package
from espalier.verilog.design import template as templates
from espalier.verilog.lowering.lower import RULES
from tests.reference.markdown import default_words, kind_text, options_table, page, sentence, structures, table

COMMON = ("seed", "json", "no_cache", "trust", "plugin", "help")


def _own_passes(kind: str) -> list[PassSpec]:
    return [spec for name, spec in PASSES.items() if spec.kind == kind and PASSES.is_own(name)]


def _pass(spec: PassSpec) -> str:
    head = f"### {spec.name}\n\n**{spec.title}.** {sentence(spec.doc)}"
    return head if spec.options is NoOptions else f"{head}\n\n{options_table(spec.options)}"


def passes() -> str:
    """Every pass with its options."""
    transforms, analyses = _own_passes("transform"), _own_passes("analysis")
    inner = [k for k in structures(s.options for s in (*transforms, *analyses)) if k is not Format]
    parts = [f"### {k.__name__}\n\n{sentence(_doc(k))}\n\n{options_table(k)}" for k in inner
             if not issubclass(k, Format)]  # fmt: skip
    about = (
        "A transform is a step of a recipe: it gives a new graph. An analysis leaves the graph as it is and gives a "
        "report: `report --what NAME` or *Model → Report*. Options have the same names in recipes, forms and flags."
    )
    return page(
        "Passes", about,
        "## Transforms", table(("pass", "title", "in milliseconds"), (
            (f"[{s.name}](#{s.name})", s.title, "yes" if s.instant else "") for s in transforms)),
        *map(_pass, transforms),
        "## Analyses", table(("pass", "title"), ((f"[{s.name}](#{s.name})", s.title) for s in analyses)),
        *map(_pass, analyses),
        "## Values inside options", *parts,
    )  # fmt: skip


def _doc(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0]


def _format(fmt: type[Format]) -> str:
    made = fmt()
    names = ", ".join(f"`{a}`" for a in fmt.aliases)
    lines = [f"## {fmt.name}", f"**{fmt.title}.** {sentence(_doc(fmt))}", "\n".join([
        f"- Definition: {fmt.formula}", f"- Source: {fmt.source}",
        f"- Bits of an element at the defaults: {made.bits:g}",
        *([f"- Other names: {names}"] if names else []),
    ])]  # fmt: skip
    fields = [f for f in dataclasses.fields(fmt) if f.init]
    rows = ((f"`{f.name}`", kind_text(_hint(fmt, f.name)), default_words(f), sentence(str(f.metadata.get("help", ""))))
            for f in fields)  # fmt: skip
    return "\n\n".join([*lines, table(("parameter", "type", "default", "meaning"), rows) if fields else ""]).strip()


def _hint(fmt: type[Format], name: str) -> Any:
    from espalier.model.document.codec import hints

    return hints(fmt)[name]


def formats() -> str:
    """Every number format with its parameters."""
    own = [fmt for name, fmt in FORMATS.items() if FORMATS.is_own(name)]
    about = (
        "A format is written as `name(parameter=value, …)`, for example `integer(width=8, frac_width=4)`. Names and "
        "aliases are accepted wherever a format is named. What a row or a tensor shares is not in the bits of an "
        "element. `espalier formats NAME` shows the codes of a format."
    )
    rows = ((f"[{f.name}](#{f.name})", f.title, f"{f().bits:g}") for f in own)
    return page("Formats", about, table(("format", "title", "bits"), rows), *map(_format, own))


def costs() -> str:
    """Every cost and where it can be used."""
    rows = [(f"`{name}`", c.title, c.unit, c.better, "yes" if c.shares or c.settle else "",
             sentence(c.about)) for name, c in COSTS.items() if COSTS.is_own(name)]  # fmt: skip
    about = (
        "A cost is a goal (`--goals`) or a limit (`weight_bits<=4.5`) of a search. Where *budget* says yes, "
        "`allocate` also takes it as a budget."
    )
    return page("Costs", about, table(("cost", "title", "unit", "better", "budget", "meaning"), rows))


def _templates() -> Iterable[type[templates.Template]]:
    from espalier.model.registry import walk

    walk(template_package)

    def below(kind: type[templates.Template]) -> Iterable[type[templates.Template]]:
        for sub in kind.__subclasses__():
            yield sub
            yield from below(sub)

    found = {k.__name__: k for k in below(templates.Template)
             if k.__module__.rpartition(".")[0].endswith("espalier.verilog.templates")}  # fmt: skip
    return [found[name] for name in sorted(found)]


def hardware() -> str:
    """Operations with a hardware rule, and the modules that they become."""
    by_rule: dict[str, list[str]] = {}
    for op, _ in RULES.items():
        if RULES.is_own(op) and not re.match("_[^_]", op):
            by_rule.setdefault(RULES.source(op).partition(":")[0], []).append(op)
    rules = ((f"`{file}`", ", ".join(f"`{op}`" for op in sorted(ops))) for file, ops in sorted(by_rule.items()))
    kinds = ((f"`{k.__name__}`", f"`verilog/templates/{k.__module__.rpartition('.')[2]}.py`", sentence(_doc(k)))
             for k in _templates())  # fmt: skip
    about = (
        "The operations of a graph that `emit` writes as hardware, by the file of their rule, and the templates that "
        "the rules place. A template brings its module, its integer model, its cycles and its area."
    )
    return page("Hardware operations", about, "## Operations", table(("rule", "operations"), rules),
                "## Templates", table(("template", "file", "what it is"), kinds))  # fmt: skip


def _flag(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if action.choices is not None and not action.metavar:
        value = "\\|".join(map(str, action.choices))
    value = " ".join(value) if isinstance(value, tuple) else str(value)
    names = ", ".join(f"`{o}`" for o in action.option_strings)
    return f"{names} `{value}`" if names and action.nargs != 0 else names or f"`{value}`"


def _command(name: str) -> str:
    command = commands()[name]
    actions = parser_of(command)._actions
    rows = [(_flag(a).replace("\\|", "|"), sentence(_help(a))) for a in actions if a.dest not in COMMON]
    details = f"```text\n{command.details.strip()}\n```" if command.details else ""
    return "\n\n".join(
        p for p in (f"## {name}", sentence(command.about), table(("argument", "meaning"), rows), details) if p
    )


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else str(action.help).replace("%%", "%")


def command_pages() -> str:
    """Every subcommand with its arguments."""
    known = commands()
    first = parser_of(next(iter(known.values())))._actions
    common = [(_flag(a), sentence(_help(a))) for a in first if a.dest in COMMON]
    about = (
        "`espalier COMMAND …`, or `python main.py COMMAND …` in a checkout. "
        "[The command line](../command-line.md) explains sources, recipes and data."
    )
    rows = ((f"[{name}](#{name})", sentence(c.about)) for name, c in known.items())
    return page("Commands", about, table(("command", "what it does"), rows),
                "## Flags of every command", table(("flag", "meaning"), common), *map(_command, known))  # fmt: skip


def kernels() -> str:
    """Every kernel of the bench with its versions."""
    own = [k for name, k in KERNELS.items() if KERNELS.is_own(name)]
    rows = ((f"`{k.name}`", k.title, ", ".join(f"`{v.name}`" for v in k.versions), sentence(k.about)) for k in own)
    about = "What `espalier kernels` and *Kernels* measure. [Kernels](../kernels.md) explains figures and versions."
    return page("Kernels", about, table(("kernel", "title", "versions", "what it computes"), rows))
