"""The rows of Compare in the menu View."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.compare import actions
from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("compare")
def rows(host: Host) -> list[Action]:
    """Compare, pin, use, step."""
    compared = partial(actions.is_compared, host)
    return [
        Action("compare", "Compare states…", "View", partial(actions.toggle, host), "Ctrl+Shift+D", "Compare", group=5,
               checked=partial(actions.is_shown, host),
               help="Two states, trials or files side by side, with their differences"),
        Action("compare_pin", "Pin the present state…", "View/Comparison", partial(actions.pin, host), group=5,
               help="Keep it under a name, to compare with it later"),
        Action("compare_next", "Next difference", "View/Comparison", partial(actions.step, host, 1), "F9",
               needs=compared, group=5),
        Action("compare_previous", "Previous difference", "View/Comparison", partial(actions.step, host, -1),
               "Shift+F9", needs=compared, group=5),
        Action("compare_use", "Use B", "View/Comparison", partial(actions.use, host), needs=compared, group=5,
               help="Make B's recipe the document's, as one edit"),
    ]  # fmt: skip
