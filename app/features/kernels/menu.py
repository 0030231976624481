"""Rows of the menus Run and Help: measuring kernels and models, and how kernels work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.kernels import actions, measurement_actions
from espalier.app.menu import MENUS, Action, always

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("kernels")
def rows(host: Host) -> list[Action]:
    """F7 and its kin; what can be timed; the explanations."""
    return [
        Action("kernels_run", "Run kernels", "Run", partial(actions.run, host), "F7", needs=always, group=2,
               dynamic_title=partial(actions.run_title, host),
               help="Measure the selected kernels, or what the front tab of Kernels is for"),
        Action("kernels_stop", "Cancel the run of kernels", "Run", partial(actions.stop, host), "Shift+F7",
               needs=partial(actions.running, host), group=2,
               help="Also stops the front tab of Kernels; rows measured so far are kept"),
        Action("kernels_load", "Load results of kernels…", "Run", partial(actions.load, host), needs=always, group=2,
               help="Compare with another machine or an earlier run"),
        *(Action(f"timed_{name}", title, "Run", partial(measurement_actions.measure, host, name), help=about, group=3)
          for name, (title, about) in measurement_actions.ABOUT.items()),
        Action("kernels_explain", "How kernels work", "Help", partial(actions.explain, host), needs=always,
               help="With live figures"),
    ]  # fmt: skip
