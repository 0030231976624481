"""Rows of the menus. A feature registers its rows in `features/NAME/menu.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.translation import tr
from espalier.model.errors import OptionsError
from espalier.model.registry import Registry

if TYPE_CHECKING:
    from espalier.app.host import Host


@dataclass(frozen=True, slots=True)
class Action:
    """One row, its texts translated. `menu` may name a submenu ("View/Colour by"); `tool`: its title on the toolbar.

    `needs`: whether the action is enabled; None: enabled while a model is open.
    """

    id: str
    title: str
    menu: str
    run: Callable[[], object]
    key: str = ""
    tool: str = ""
    needs: Callable[[], bool] | None = None
    checked: Callable[[], bool] | None = None
    dynamic_title: Callable[[], str] | None = None  # replaces `title` at each refresh
    help: str = ""
    group: int = 0  # a separator is drawn between two groups
    section: str = ""  # title of the group
    more_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("title", "tool", "help", "section"):
            object.__setattr__(self, name, tr(getattr(self, name)))

    @property
    def menu_text(self) -> str:
        """Its menu as text, `View › Colour by`; `menu` itself names the menu in any language."""
        return " › ".join(tr(part) for part in self.menu.split("/"))

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the row."""
        return (self.key, *self.more_keys) if self.key else self.more_keys


def always() -> bool:
    """Enables rows that need no open model."""
    return True


Rows = Callable[["Host"], list[Action]]
_MODULES = tuple(
    f"espalier.app.features.{file.parent.name}.menu"
    for file in sorted((Path(__file__).parent / "features").glob("*/menu.py"))
)
MENUS: Registry[str, Rows] = Registry("menu", OptionsError, _MODULES)
