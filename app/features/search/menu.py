"""The menu Search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from espalier.app.features.search import actions
from espalier.app.menu import MENUS, Action

if TYPE_CHECKING:
    from espalier.app.host import Host


@MENUS.register("search")
def rows(host: Host) -> list[Action]:
    """Rows of the menu: compose, templates, run, results."""
    running, stopped = partial(actions.running, host), partial(actions.stopped, host)
    has_study = partial(actions.has_study, host)
    return [
        Action("search", "Search…", "Search", partial(actions.show, host), "Ctrl+K",
               help="Compose a search over formats, sparsities, options and architectures"),
        Action("search_open", "Open a search…", "Search", partial(actions.open_search, host),
               help="A search in a TOML or JSON file"),
        Action("search_save", "Save the search…", "Search", partial(actions.save_search, host),
               help="Save as a file for the command line"),
        *(Action(f"search_{name}", name.replace("-", " ").capitalize(), "Search/Templates",
                 partial(actions.begin_with, host, name), group=1) for name in actions.template_names()),
        Action("search_run", "Run this search", "Search", partial(actions.begin, host), "F8", group=2),
        Action("search_pause", "Pause or continue", "Search", partial(actions.pause, host), "Shift+F8", needs=running,
               group=2),
        Action("search_after", "Stop after this trial", "Search", partial(actions.act("after"), host), needs=running,
               group=2),
        Action("search_stop", "Stop the search", "Search", partial(actions.act("stop"), host), needs=running, group=2),
        Action("search_on", "Go on", "Search", partial(actions.act("on"), host), needs=stopped, group=2,
               help="Run more trials of the shown study"),
        Action("search_apply", "Apply the best trial", "Search", partial(actions.act("apply"), host),
               "Ctrl+Shift+Return", needs=partial(actions.has_best, host), group=3,
               help="Make its configuration the recipe, in one undo step"),
        Action("search_note", "Note on the chosen trial", "Search", partial(actions.note, host), "Ctrl+Alt+N",
               needs=has_study, group=3, help="A text that is shown in the table and kept with the project"),
        Action("search_hand", "Add the present configuration as a trial", "Search",
               partial(actions.act("hand"), host), needs=has_study, group=3),
        Action("search_repeat", "Repeat with other seeds…", "Search", partial(actions.act("repeat"), host),
               needs=has_study, group=3),
        Action("search_trials", "Save the trials…", "Search", partial(actions.save_trials, host), needs=has_study,
               group=3),
    ]  # fmt: skip
