"""Recipes as text, from a clipboard or a file: TOML, JSON, or a Python dict, as notebooks hold it.

Nothing of the text is run: of Python only literals are read, and names that stand for them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from espalier.model.borders import parse_json, parse_toml, read_text, reading, tried
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.passes.recipes.config import load_recipe

Json = Any
_MOST = 4 << 20  # bytes of a text; Python's own reader takes much more memory than that


def load_recipe_file(path: Path, seed: int = 0) -> Recipe:
    """The recipe in a file of whatever form; raises OptionsError."""
    with reading(path, OptionsError, "cannot be read", "Choose a TOML, JSON or Python file.", thing="recipe"):
        return parse_recipe(read_text(path, _MOST), seed)


def parse_recipe(text: str, seed: int = 0) -> Recipe:
    """The recipe that a text holds; raises OptionsError with the path of what is wrong."""
    found = next((d for read in (parse_json, parse_toml, _python) if (d := _tried(read, text))), None)
    if found is None:
        raise OptionsError("The text holds no recipe.", "Give TOML, JSON or a Python dict of pass names with options.")
    recipe = load_recipe(found, seed)
    if not recipe.steps:
        raise OptionsError("The recipe has no steps.", "Give it some.")
    return recipe


def _tried(read: Any, text: str) -> Mapping[str, Any] | None:
    """The table that a reader finds; None where the text is of another form."""
    found: Json = tried(lambda: read(text), None)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) and found else None


def _python(text: str) -> Json:
    """The last dict of a Python text; a name stands for what was given to it before."""
    held: dict[str, ast.expr] = {}
    last: Json = None
    for line in ast.parse(text.strip()).body:
        if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            value = held[line.targets[0].id] = _Names(held).visit(line.value)
        elif isinstance(line, ast.Expr):
            value = _Names(held).visit(line.value)
        else:
            continue
        found = _tried(ast.literal_eval, value)
        last = found if found is not None else last
    return last


class _Names(ast.NodeTransformer):
    """Puts what names stand for in their place."""

    def __init__(self, held: Mapping[str, ast.expr]) -> None:
        self._held = held

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The value of a name, where it is known."""
        return self._held.get(node.id, node)
