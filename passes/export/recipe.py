"""The recipe as a TOML or JSON file that `run` reads again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.files import write_text
from espalier.passes.recipes.config import recipe_to_dict


def write_recipe(project: Project, path: Path) -> list[Path]:
    """Write the recipe by the path's ending, .toml or .json; raises ExportError."""
    data = recipe_to_dict(project.recipe)
    match path.suffix.lower():
        case ".json":
            text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        case ".toml":
            text = to_toml(data)
        case _:
            raise ExportError(f"{path.name} has an unknown file type.", "End it in .toml or .json.")
    write_text(path, text, ExportError)
    return [path]


def to_toml(data: Mapping[str, Any]) -> str:
    """A recipe's dict as TOML (https://toml.io/en/v1.0.0); raises ExportError for an empty value."""
    if not data["steps"]:
        return "steps = []\n"
    return "\n".join("\n".join(["[[steps]]", *pairs(step)]) + "\n" for step in data["steps"])


def pairs(table: Mapping[str, Any]) -> Iterator[str]:
    """A line of TOML for each key; raises ExportError for an empty value."""
    for key, value in table.items():
        yield f"{_key(key)} = {_value(value, key)}"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case Mapping():
            items = cast("Mapping[str, Any]", value).items()
            inner = ", ".join(f"{_key(k)} = {_value(v, f'{path}.{k}')}" for k, v in items)
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return "[" + ", ".join(_value(v, path) for v in cast("list[Any]", value)) + "]"
        case None if ".formats." in path:
            return '"float"'
        case _:
            raise ExportError(f"{path} is empty, and TOML has no word for that.", "Export to a .json file.")
