"""The recipe as a Python file that repeats every step through our own functions."""

from __future__ import annotations

import json
import pprint
from pathlib import Path

from model.project import Project
from passes.config import recipe_to_dict
from passes.plugins import loaded_plugins

TEMPLATE = '''\
"""Repeats {count} on {name}. Written by Espalier; needs its packages to be importable.

    python {file} [RESULT.espalier]     prints the score, and saves the project if a file is given
"""

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from model.opening import open_any
from model.project import save_project
from passes.base import Context
from passes.config import load_recipe
from passes.plugins import load_plugin
from passes.replay import replay
from passes.score import static_score

SOURCE = {source}
INPUTS = {inputs}
SEED = {seed}
PLUGINS = {plugins}
RECIPE = {recipe}


def main() -> None:
    for plugin in PLUGINS:
        load_plugin(plugin)
    with tempfile.TemporaryDirectory() as folder:
        opened = open_any(SOURCE, Path(folder), INPUTS, SEED)
        context = Context(opened.store, SEED, callables=opened.callables, tokenizer=opened.project.source.tokenizer)
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
    path.write_text(script_of(project, path.name), encoding="utf-8")
    return [path]


def script_of(project: Project, file: str) -> str:
    """The script's text."""
    steps, source = len(project.recipe.active), project.source
    names = {s.pass_name for s in project.recipe.active}
    plugins = [p.source for p in loaded_plugins() if names & set(p.passes)]
    return TEMPLATE.format(
        count="1 step" if steps == 1 else f"{steps} steps",
        name=_comment(source.name),
        file=_comment(file),
        source=json.dumps(source.spec, ensure_ascii=False),
        inputs=repr(source.inputs),
        seed=source.seed,
        plugins=repr(plugins),
        recipe=pprint.pformat(recipe_to_dict(project.recipe), width=110, sort_dicts=False),
    )


def _comment(text: str) -> str:
    """Text that cannot end the docstring it stands in."""
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")
