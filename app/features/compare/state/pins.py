"""Pinned states: named recipes that the project keeps. Free of Qt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from espalier.model.borders import parse_json, tried
from espalier.model.document.document import Document
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe

MEMBER = "pins.json"  # member of the project file
LONGEST_NAME = 80  # characters


@dataclass(frozen=True, slots=True)
class Pin:
    """A named state."""

    name: str
    recipe: Recipe


def pins_of(document: Document) -> tuple[Pin, ...]:
    """The pinned states in order, without unreadable ones."""
    data = tried(lambda: parse_json(document.project.extras[MEMBER].decode())["pins"], None)
    return (
        tuple(pin for entry in data if (pin := tried(lambda e=entry: _pin(e), None))) if isinstance(data, list) else ()
    )


def _pin(entry: Any) -> Pin:
    return Pin(str(entry["name"])[:LONGEST_NAME], recipe_from_json(entry["recipe"]))


def pin(document: Document, name: str, recipe: Recipe) -> Pin:
    """Pin a recipe under a name; replaces the pin of that name."""
    name = " ".join(name.split())[:LONGEST_NAME]
    new = Pin(name, recipe)
    _keep(document, (*(p for p in pins_of(document) if p.name != name), new))
    return new


def unpin(document: Document, name: str) -> None:
    """Remove a pin."""
    _keep(document, tuple(p for p in pins_of(document) if p.name != name))


def _keep(document: Document, pins: tuple[Pin, ...]) -> None:
    data = {"pins": [{"name": p.name, "recipe": recipe_to_json(p.recipe)} for p in pins]}
    document.keep(MEMBER, json.dumps(data, ensure_ascii=False).encode() if pins else None)
