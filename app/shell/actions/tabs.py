"""The rows of the menus about tabs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from espalier.app.menu import Action


class TabActions(Protocol):
    """The tabs of the program's window, as one of them sees them."""

    @property
    def current(self) -> object:
        """The window of the tab in front."""
        ...

    @property
    def count(self) -> int:
        """The number of tabs."""
        ...

    def new(self) -> None:
        """Open an empty tab."""
        ...

    def bring(self, spec: str) -> bool:
        """Bring the other tab to the front in which a project is open; False if there is none."""
        ...

    def open(self, spec: str) -> None:
        """Open a source in a tab of its own."""
        ...

    def restore(self, sources: Sequence[str], current: int) -> None:
        """Open the sources of the last session, the one in front at once and each other one when it is chosen."""
        ...

    def step(self, by: int) -> None:
        """Choose the tab that many to the right."""
        ...

    def close_current(self) -> None:
        """Close the tab in front."""
        ...


def rows(tabs: Callable[[], TabActions | None]) -> list[Action]:
    """Rows for opening and choosing tabs. `tabs`: None in a window without tabs."""

    def several() -> bool:
        present = tabs()
        return present is not None and present.count > 1

    def run(act: Callable[[TabActions], None]) -> Callable[[], None]:
        def inner() -> None:
            if (present := tabs()) is not None:
                act(present)

        return inner

    return [
        Action("new_tab", "New tab", "File", run(lambda t: t.new()), "Ctrl+T", needs=lambda: tabs() is not None,
               help="Open another model beside this one"),
        Action("next_tab", "Next tab", "View", run(lambda t: t.step(1)), "Ctrl+PgDown", needs=several,
               more_keys=("Ctrl+Tab",), group=9),
        Action("previous_tab", "Previous tab", "View", run(lambda t: t.step(-1)), "Ctrl+PgUp", needs=several,
               more_keys=("Ctrl+Shift+Tab",), group=9),
    ]  # fmt: skip
