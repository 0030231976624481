"""The recipe as a Python file that repeats every step through the Python interface."""

from __future__ import annotations

import json
import pprint
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from espalier.model.data.memory import PREFIX
from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import ExportError
from espalier.model.files import write_text
from espalier.model.registry import FORMATS, PASSES
from espalier.model.sources.source import OBJECT
from espalier.model.trust import named, wanted_code
from espalier.passes.plugins.plugins import loaded_plugins
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.offered import missing_passes, typed
from espalier.passes.running.splits import WHICH
from espalier.passes.tasks.base import is_own

TEMPLATE = '''\
"""Repeats {count} on {name}. Written by Espalier; needs its packages to be importable.

    python {file} [RESULT.espalier] [--data DATA] [--trust FILE.py]

prints the score, and saves the project if a file is given.
"""

import argparse
import json
import sys

import espalier as es

SOURCE = {source}
INPUTS = {inputs}
SEED = {seed}
PLUGINS = {plugins}
DATA = {data}


def main() -> None:
    parser = argparse.ArgumentParser(description="Repeats {count} on a model.", allow_abbrev=False)
    parser.add_argument("result", nargs="?", metavar="RESULT.espalier", help="save the result as a project")
    parser.add_argument("--data", default=DATA, help='data of the score (default: %(default)r); "": measure none')
    parser.add_argument("--trust", action="append", default=[], metavar="FILE.py",
                        help="allow this file to run if SOURCE names it; may repeat")
    args = parser.parse_args()
    es.load_plugins(*PLUGINS)
    m = es.open(SOURCE, inputs=INPUTS, seed=SEED, trust=args.trust, origin="{origin}")
{calls}
    if args.result:
        m.save(args.result)
    print(json.dumps(dict(m.score(args.data{reading}).figures)))


if __name__ == "__main__":
    try:
        main()
    except es.EspalierError as error:
        sys.exit(str(error))
'''


def write_script(project: Project, path: Path) -> tuple[list[Path], list[str]]:
    """Write the script; returns it, and what its user must do so that it runs."""
    write_text(path, script_of(project, path.name), ExportError)
    code = wanted_code(project.source.spec)
    if code is None:
        return [path], []
    return [path], [f"The script does not run {code} by itself, since the project names that code and not you. "
                    f"Read that file, then run the script with --trust {code}."]  # fmt: skip


def script_of(project: Project, file: str) -> str:
    """The script's text."""
    steps, source = len(project.recipe.active), project.source
    data, reading = _data_of(project)
    if missing := missing_passes(Recipe(project.recipe.active)):
        what = f"The script needs the pass {missing[0]}, whose plug-in is not loaded."
        raise ExportError(what, "Load the plug-in (--plugin FILE.py), and the script names it.")
    _refuse_memory(project)
    names = {s.pass_name for s in project.recipe.active} | _formats(project.recipe)
    plugins = [p.source for p in loaded_plugins() if names & {*p.passes, *p.formats}]
    return TEMPLATE.format(
        count="1 step" if steps == 1 else f"{steps} steps",
        name=_comment(source.name),
        file=_comment(file),
        source=json.dumps(source.spec, ensure_ascii=False),
        origin="typed" if named(source.spec) else "file",
        inputs=repr(source.inputs),
        seed=source.seed,
        plugins=repr(plugins),
        calls="\n".join(map(_call, project.recipe.steps)) or "    # no steps",
        data=repr(data),
        reading="".join(f", {name}={value!r}" for name, value in reading.items()),
    )


def _data_of(project: Project) -> tuple[str, dict[str, Any]]:
    """The data of the score, and how they are read: of the last training, else of the last step with data, else the
    source's; empty where none are known."""
    given = [s for s in project.recipe.active if getattr(s.options, "data", "")]
    chosen = next((s for s in reversed(given) if s.pass_name == "finetune"), given[-1] if given else None)
    if chosen is None:
        return project.source.data or "", {}
    read = {name: getattr(chosen.options, name, "") for name in WHICH if name != "data"}
    return str(getattr(chosen.options, "data", "")), {name: value for name, value in read.items() if value}


def _refuse_memory(project: Project) -> None:
    """Raise ExportError for what only the program that made it has."""
    if project.source.spec.startswith(OBJECT):
        what = f"{project.source.name} was traced from an object in Python, which a script cannot make."
        raise ExportError(what, "Save the project, or open the model as file.py:function.")
    held = next((s for s in project.recipe.active if str(getattr(s.options, "data", "")).startswith(PREFIX)), None)
    if held is not None:
        what = f"The step {held.pass_name} used arrays of a Python program, which a script cannot name."
        raise ExportError(what, "Give the step a file or folder of data instead.")
    made = next((s for s in project.recipe.active if is_own(str(getattr(s.options, "task", "")))), None)
    if made is not None:
        what = f"The step {made.pass_name} used loss or metric of a Python program, which a script cannot name."
        raise ExportError(what, "Register the task in a plug-in, and train with --task (guide: Add a task).")


def _call(step: Step) -> str:
    """A step as a statement of the script: a method, or `apply` for what no method of the same name is sure to do."""
    readable, is_method = _readable(step)
    if not is_method:
        return f"    m.apply({_indented({'steps': [readable]})})"
    given = {**readable["options"], "seed": step.seed}
    inner = "".join(f"        {name}={_indented(value, 8)},\n" for name, value in given.items())
    return f"    m.{step.pass_name}(\n{inner}    )"


def line_of(step: Step) -> str:
    """The statement in one line that repeats a step through the Python interface; defaults are left out."""
    readable, is_method = _readable(step)
    if not is_method:
        return f"m.apply({ {'steps': [readable]}!r})"
    return _method_call(step, readable)


def line_of_steps(recipe: Recipe) -> str:
    """The statement that appends several steps by one call, in one line."""
    return f"m.apply({recipe_to_dict(recipe)!r})"


def analysis_line(step: Step) -> str:
    """The statement that repeats an analysis through the Python interface, in one line."""
    return _method_call(step, _readable(step)[0])


def _method_call(step: Step, readable: dict[str, Any]) -> str:
    usual = _at_default(typed(step.pass_name, step.options))
    given = {name: value for name, value in readable["options"].items() if name not in usual}
    given |= {"seed": step.seed} if step.seed else {}
    return f"m.{step.pass_name}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _at_default(options: Any) -> set[str]:
    """Names of the options with their default values."""
    return {
        f.name
        for f in fields(options)
        if getattr(options, f.name) == (f.default if f.default_factory is MISSING else f.default_factory())
    }


def opening_line(project: Project) -> str:
    """The statement that opens the project's source; a comment for a model that no source names."""
    source = project.source
    if source.spec.startswith(OBJECT):
        return f"# m: {_comment(source.name)}, traced from an object in Python"
    inputs = f", inputs={list(source.inputs)!r}" if source.inputs else ""
    seed = f", seed={source.seed}" if source.seed else ""
    return f"m = es.open({source.spec!r}{inputs}{seed})"


def _readable(step: Step) -> tuple[dict[str, Any], bool]:
    """A step as recipe files write it, and whether a method of its pass repeats it."""
    (readable,) = recipe_to_dict(Recipe((step,)))["steps"]
    name = step.pass_name
    known = step.enabled and name in PASSES  # the plug-in of a step may be missing
    return readable, known and PASSES.is_own(name) and PASSES.get(name).kind == "transform"


def _indented(value: Any, indent: int = 4) -> str:
    text = pprint.pformat(value, width=112 - indent, sort_dicts=False)
    return text.replace("\n", "\n" + " " * (indent + 4))


def _formats(recipe: Recipe) -> set[str]:
    """Names of number formats that the recipe's options write, such as `mxint` of `mxint(width=8)`."""
    text = json.dumps(recipe_to_dict(recipe))
    return {name for name in FORMATS if f'"{name}(' in text}


def _comment(text: str) -> str:
    """Text that cannot end the docstring it stands in."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")
