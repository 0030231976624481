"""The recipe as a Python file that repeats every step through our own functions."""

from __future__ import annotations

import json
import pprint
from pathlib import Path

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import ExportError
from espalier.model.files import write_text
from espalier.model.registry import FORMATS
from espalier.model.trust import named
from espalier.passes.plugins.plugins import loaded_plugins
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.offered import missing_passes

TEMPLATE = '''\
"""Repeats {count} on {name}. Written by Espalier; needs its packages to be importable.

    python {file} [RESULT.espalier]     prints the score, and saves the project if a file is given
"""

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from espalier.model.opening import open_any
from espalier.model.document.project import save_project
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.config import load_recipe
from espalier.passes.plugins.plugins import load_plugins
from espalier.passes.recipes.replay import replay
from espalier.passes.score import static_score

SOURCE = {source}
INPUTS = {inputs}
SEED = {seed}
PLUGINS = {plugins}
RECIPE = {recipe}


def main() -> None:
    load_plugins(PLUGINS, lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        opened = open_any(SOURCE, Path(folder), INPUTS, SEED, origin=Origin.{origin})
        context = Context(opened.store, SEED, callables=opened.callables, reading=opened.project.source.reading)
        recipe = load_recipe(RECIPE, SEED)
        done = replay(opened.project.graph, recipe, context)
        print(json.dumps(asdict(static_score(done.graph))))
        if len(sys.argv) > 1:
            project = replace(opened.project, recipe=recipe, graph=done.graph)
            save_project(project, opened.store, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
'''


def write_script(project: Project, path: Path) -> list[Path]:
    """Write the script."""
    write_text(path, script_of(project, path.name), ExportError)
    return [path]


def script_of(project: Project, file: str) -> str:
    """The script's text."""
    steps, source = len(project.recipe.active), project.source
    if missing := missing_passes(Recipe(project.recipe.active)):
        what = f"The script needs the pass {missing[0]}, whose plug-in is not loaded."
        raise ExportError(what, "Load the plug-in (--plugin FILE.py), and the script names it.")
    names = {s.pass_name for s in project.recipe.active} | _formats(project.recipe)
    plugins = [p.source for p in loaded_plugins() if names & {*p.passes, *p.formats}]
    return TEMPLATE.format(
        count="1 step" if steps == 1 else f"{steps} steps",
        name=_comment(source.name),
        file=_comment(file),
        source=json.dumps(source.spec, ensure_ascii=False),
        origin="TYPED" if named(source.spec) else "FILE",
        inputs=repr(source.inputs),
        seed=source.seed,
        plugins=repr(plugins),
        recipe=pprint.pformat(recipe_to_dict(project.recipe), width=110, sort_dicts=False),
    )


def _formats(recipe: Recipe) -> set[str]:
    """Names of number formats that the recipe's options write, such as `mxint` of `mxint(width=8)`."""
    text = json.dumps(recipe_to_dict(recipe))
    return {name for name in FORMATS if f'"{name}(' in text}


def _comment(text: str) -> str:
    """Text that cannot end the docstring it stands in."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")
