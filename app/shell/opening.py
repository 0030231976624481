"""Opens models, projects and recipes from dialogs, names, recent files and drops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QMenu

from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError
from espalier.passes.jobs.kinds import OpenJob

if TYPE_CHECKING:
    from espalier.app.errors import Banner
    from espalier.app.session.session import Session
    from espalier.app.settings import Settings
    from espalier.app.shell.dialogs import Dialogs
    from espalier.app.shell.saving import Saving

OPENABLE = tr("Models and projects (*.espalier *.safetensors *.pt2 *.onnx *.py);;All files (*)")
RECIPES = tr("Recipes (*.toml *.json *.py *.txt);;All files (*)")


class Opening:
    """Opens a source after asking about unsaved changes; `begin` opens without asking.

    `in_tab` opens a source in another tab, and returns False if this one is to open it; its second argument: whether
    this one is in use.
    """

    def __init__(
        self, session: Session, settings: Settings, banner: Banner, dialogs: Dialogs, saving: Saving,
        begin: Callable[[str], object], in_tab: Callable[[str, bool], bool],
    ) -> None:  # fmt: skip
        self._session, self._settings, self._banner = session, settings, banner
        self._dialogs, self._saving, self._begin, self._in_tab = dialogs, saving, begin, in_tab

    def open_file(self) -> None:
        """Ask for a project or model file and open it."""
        self._dialogs.ask_path(tr("Open"), lambda p: self.open_path(p), names=OPENABLE)

    def open_folder(self) -> None:
        """Ask for a Hugging Face folder and open it."""
        self._dialogs.ask_path(tr("Open folder"), lambda p: self.open_spec(str(p)), folder=True)

    def open_path(self, path: Path) -> None:
        """Open a path: a recipe adds its steps to the open model, a Python file may need its factory named."""
        if path.suffix in (".toml", ".json") and self._session.document:
            self.add_steps(path)
        else:
            self._name_factory(path, self.open_spec)

    def ask_model(self, title: str, then: Callable[[str], object]) -> None:
        """Ask for a model or project file, and for the factory of a Python file; call `then` with the source."""
        self._dialogs.ask_path(title, lambda p: self._name_factory(p, then), names=OPENABLE)

    def _name_factory(self, path: Path, then: Callable[[str], object]) -> None:
        """Call `then` with the source of a path; ask which function or class of a Python file returns the model."""
        from espalier.model.sources.source import factories

        if path.suffix != ".py":
            then(str(path))
            return
        try:
            names = factories(path)
        except EspalierError as error:
            self._banner.show_message(message(error.message), message(error.hint), kind="error")
            return
        if not names:
            hint = tr("Add a function that returns the model, or (model, example inputs).")
            self._banner.show_message(tr("{} defines no function and no class.", path.name), hint, kind="error")
        elif len(names) == 1:
            then(f"{path}:{names[0]}")
        else:
            label = tr("Function or class in {} that returns the model", path.name)
            self._dialogs.ask_text(tr("Open"), label, names[0], lambda name: then(f"{path}:{name}"), names)

    def open_name(self) -> None:
        """Ask for the name of a source and open it."""
        self._dialogs.ask_text(
            tr("Open by name"),
            tr("A folder, hf:NAME, config:TYPE?key=value, demo:NAME or file.py:factory"),
            "demo:reviews",
            lambda text: self.open_spec(text),
        )

    def open_spec(self, spec: str) -> None:
        """Open a source: in another tab if this one is in use; without tabs after asking about unsaved changes."""
        session = self._session
        in_use = session.document is not None or any(isinstance(j.job, OpenJob) for j in session.jobs)
        if not self._in_tab(spec, in_use):
            self._saving.guard(lambda: self._begin(spec))

    def fill_recent(self, menu: QMenu) -> None:
        """Fill a menu with the recent files."""
        menu.clear()
        for spec in self._settings.recent:
            menu.addAction(spec.replace("&", "&&"), lambda spec=spec: self.open_spec(spec))
        if not self._settings.recent:
            menu.addAction(tr("No recent files")).setEnabled(False)

    def load_recipe(self) -> None:
        """Ask for a recipe file and add its steps."""
        self._dialogs.ask_path(tr("Load a recipe"), lambda p: self.add_steps(p), names=RECIPES)

    def add_steps(self, path: Path) -> None:
        """Append the steps of a recipe file (TOML, JSON or a MASE dict) to the recipe, as one undo step."""
        from espalier.passes.recipes.pasted import load_recipe_file

        try:
            steps = load_recipe_file(path).steps
        except EspalierError as error:
            self._banner.show_error(error)
            return
        self._session.set_recipe(self._session.recipe.append(*steps), tr("Load {}", path.name))
