"""Rows of the menus. A feature registers its own in `features/NAME/menu.py`; nothing else names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.errors import OptionsError
from espalier.model.registry import Registry

if TYPE_CHECKING:
    from espalier.app.host import Host


@dataclass(frozen=True, slots=True)
class Action:
    """One row. `menu` may hold a submenu ("View/Colour by"); `tool` is its word on the toolbar.

    `needs`: whether there is something to do; None: where a model is open.
    """

    id: str
    title: str
    menu: str
    run: Callable[[], object]
    key: str = ""
    tool: str = ""
    needs: Callable[[], bool] | None = None
    checked: Callable[[], bool] | None = None
    words: Callable[[], str] | None = None
    help: str = ""
    group: int = 0  # a separator stands between groups of a menu
    section: str = ""  # what a group is called


def always() -> bool:
    """For rows that need no model."""
    return True


Rows = Callable[["Host"], list[Action]]
_MODULES = tuple(
    f"espalier.app.features.{file.parent.name}.menu"
    for file in sorted((Path(__file__).parent / "features").glob("*/menu.py"))
)
MENUS: Registry[str, Rows] = Registry("menu", OptionsError, _MODULES)
