"""Opening models, projects and recipes: by dialog, by name, from the list of recent ones, or dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.errors import Banner
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.saving import Saving

OPENABLE = "Models and projects (*.espalier *.safetensors *.pt2 *.py);;All files (*)"
RECIPES = "Recipes (*.toml *.json *.py *.txt);;All files (*)"


class Opening:
    """`begin` opens a source and asks nothing."""

    def __init__(
        self, session: Session, settings: Settings, banner: Banner, dialogs: Dialogs, saving: Saving,
        begin: Callable[[str], object],
    ) -> None:  # fmt: skip
        self._session, self._settings, self._banner = session, settings, banner
        self._dialogs, self._saving, self._begin = dialogs, saving, begin

    def open_file(self) -> None:
        """Choose a project or model file."""
        self._dialogs.ask_path("Open", lambda p: self.open_path(p), names=OPENABLE)

    def open_folder(self) -> None:
        """Choose a Hugging Face folder."""
        self._dialogs.ask_path("Open folder", lambda p: self.open_spec(str(p)), folder=True)

    def open_path(self, path: Path) -> None:
        """Open a dropped or chosen path; a Python file needs its function named."""
        if path.suffix in (".toml", ".json") and self._session.document:
            self.add_steps(path)
        elif path.suffix == ".py":
            self._ask_factory(path)
        else:
            self.open_spec(str(path))

    def _ask_factory(self, path: Path) -> None:
        """Choose among what a Python file defines; one definition is opened without a question."""
        from espalier.model.sources.source import factories

        try:
            names = factories(path)
        except EspalierError as error:
            self._banner.tell(error.message, error.hint, kind="error")
            return
        if not names:
            hint = "Write one that returns the model, or (model, example inputs)."
            self._banner.tell(f"{path.name} defines no function and no class.", hint, kind="error")
        elif len(names) == 1:
            self.open_spec(f"{path}:{names[0]}")
        else:
            label = f"Function or class in {path.name} that returns the model"
            self._dialogs.ask_text("Open", label, names[0], lambda name: self.open_spec(f"{path}:{name}"), names)

    def open_name(self) -> None:
        """Type a source."""
        self._dialogs.ask_text("Open by name", "A folder, hf:NAME, config:TYPE?key=value, demo:NAME or file.py:factory",
                  "demo:reviews", lambda text: self.open_spec(text))  # fmt: skip

    def open_spec(self, spec: str) -> None:
        """Open a source, after asking about unsaved changes."""
        self._saving.guard(lambda: self._begin(spec))

    def fill_recent(self, menu: QMenu) -> None:
        """List what was opened last."""
        menu.clear()
        for spec in self._settings.recent:
            menu.addAction(spec.replace("&", "&&"), lambda spec=spec: self.open_spec(spec))
        if not self._settings.recent:
            menu.addAction("Nothing opened yet").setEnabled(False)

    def load_recipe(self) -> None:
        """Choose a file and add its steps."""
        self._dialogs.ask_path("Load a recipe", lambda p: self.add_steps(p), names=RECIPES)

    def add_steps(self, path: Path) -> None:
        """Add the steps of a recipe's file (TOML, JSON, a dict of MASE) after the present ones: one undo step."""
        from espalier.passes.recipes.pasted import load_recipe_file

        try:
            steps = load_recipe_file(path).steps
        except EspalierError as error:
            self._banner.error(error)
            return
        self._session.set_recipe(self._session.recipe.append(*steps), f"Load {path.name}")
