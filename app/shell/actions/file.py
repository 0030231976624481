"""What the File menu does. Dialogs open without blocking; unsaved changes are asked about before they are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QMessageBox

from espalier.app.widgets.icons import file_icons
from espalier.app.words import mebibytes
from espalier.model.errors import EspalierError
from espalier.model.files import write_text
from espalier.model.opening import is_project
from espalier.passes.jobs.kinds import Done, JobEvent, SaveJob

if TYPE_CHECKING:
    from espalier.app.host import Exportable, Savable
    from espalier.app.shell.window import Window
    from espalier.passes.export import Exported

OPENABLE = "Models and projects (*.espalier *.safetensors *.pt2 *.py);;All files (*)"
RECIPES = "Recipes (*.toml *.json *.py *.txt);;All files (*)"
PICTURES = (".png", ".svg")
PLOTS = (".png", ".svg", ".csv")
Then = Callable[[], object]


def ask_path(window: Window, title: str, then: Callable[[Path], object], *, save: bool = False,
              names: str = "", folder: bool = False, suggestion: str = "") -> QFileDialog:  # fmt: skip
    """A file dialog that calls `then` with what was chosen."""
    dialog = QFileDialog(window, title, window.settings.last_folder, names)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setIconProvider(file_icons())
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave if save else QFileDialog.AcceptMode.AcceptOpen)
    dialog.setFileMode(QFileDialog.FileMode.Directory if folder else
                       QFileDialog.FileMode.AnyFile if save else QFileDialog.FileMode.ExistingFile)  # fmt: skip
    if suggestion:
        dialog.selectFile(suggestion)
    if save and "." in suggestion:
        dialog.setDefaultSuffix(suggestion.rpartition(".")[2])
    dialog.fileSelected.connect(lambda name: _chosen(window, Path(name), then))
    dialog.open()
    return dialog


def _chosen(window: Window, path: Path, then: Callable[[Path], object]) -> None:
    window.settings.last_folder = str(path.parent)
    then(path)


def open_file(window: Window) -> None:
    """Choose a project or model file."""
    ask_path(window, "Open", lambda p: open_path(window, p), names=OPENABLE)


def open_folder(window: Window) -> None:
    """Choose a Hugging Face folder."""
    ask_path(window, "Open folder", lambda p: open_spec(window, str(p)), folder=True)


def open_path(window: Window, path: Path) -> None:
    """Open a dropped or chosen path; a Python file needs its function named."""
    if path.suffix in (".toml", ".json") and window.session.document:
        add_steps(window, path)
    elif path.suffix == ".py":
        _ask_factory(window, path)
    else:
        open_spec(window, str(path))


def _ask_factory(window: Window, path: Path) -> None:
    """Choose among what a Python file defines; one definition is opened without a question."""
    from espalier.model.sources.source import factories

    try:
        names = factories(path)
    except EspalierError as error:
        window.banner.tell(error.message, error.hint, kind="error")
        return
    if not names:
        hint = "Write one that returns the model, or (model, example inputs)."
        window.banner.tell(f"{path.name} defines no function and no class.", hint, kind="error")
    elif len(names) == 1:
        open_spec(window, f"{path}:{names[0]}")
    else:
        label = f"Function or class in {path.name} that returns the model"
        _ask_text(window, "Open", label, names[0], lambda name: open_spec(window, f"{path}:{name}"), names)


def open_name(window: Window) -> None:
    """Type a source."""
    _ask_text(window, "Open by name", "A folder, hf:NAME, config:TYPE?key=value, demo:NAME or file.py:factory",
              "demo:reviews", lambda text: open_spec(window, text))  # fmt: skip


def _ask_text(
    window: Window, title: str, label: str, value: str, then: Callable[[str], object], offered: Sequence[str] = ()
) -> None:
    dialog = QInputDialog(window)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(title)
    dialog.setLabelText(label)
    if offered:
        dialog.setComboBoxItems(offered)
    dialog.setTextValue(value)
    dialog.setOkButtonText("Open")
    dialog.resize(480, 120)
    dialog.textValueSelected.connect(lambda text: text.strip() and then(text.strip()))
    dialog.open()


def open_spec(window: Window, spec: str) -> None:
    """Open a source, after asking about unsaved changes."""
    guard(window, lambda: window.begin_opening(spec))


def fill_recent(window: Window, menu: QMenu) -> None:
    """List what was opened last."""
    menu.clear()
    for spec in window.settings.recent:
        menu.addAction(spec.replace("&", "&&"), lambda spec=spec: open_spec(window, spec))
    if not window.settings.recent:
        menu.addAction("Nothing opened yet").setEnabled(False)


def unsaved(window: Window) -> bool:
    """Whether something would be lost with the document: edits that are not saved, or that the worker has not done."""
    document = window.session.document
    return document is not None and (document.dirty or bool(window.session.waiting))


def guard(window: Window, then: Then) -> None:
    """Do `then` once nothing unsaved would be lost: at once, or after Save or Discard."""
    document = window.session.document
    if document is None or not unsaved(window):
        then()
        return
    name, waiting = document.path.name if document.path else document.project.source.name, window.session.waiting
    undone = f"{', '.join(waiting)} is not done yet, and is lost if you go on." if waiting else ""
    buttons = QMessageBox.StandardButton
    box = QMessageBox(window)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowTitle("Espalier")
    if document.dirty:
        box.setText(f"Save the changes to {name}?")
        box.setInformativeText(f"Otherwise they are lost. {undone}".strip())
        box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
        box.setDefaultButton(buttons.Save)
    else:
        box.setText(f"Leave {name} while the worker is at it?")
        box.setInformativeText(undone)
        box.setStandardButtons(buttons.Discard | buttons.Cancel)
        box.setDefaultButton(buttons.Cancel)
    box.buttonClicked.connect(lambda b: _answered(window, box.standardButton(b), then))
    box.open()


def _answered(window: Window, answer: QMessageBox.StandardButton, then: Then) -> None:
    if answer == QMessageBox.StandardButton.Discard:
        then()
    elif answer == QMessageBox.StandardButton.Save:
        window.after_save = then
        save(window)


def save(window: Window) -> None:
    """Save to the project's file; the first time ask for one."""
    document = window.session.document
    if document is None or document.path is None:
        save_as(window)
    elif window.ownership.free(document.path):
        window.session.save()
    else:
        _forget_then(window)


def _forget_then(window: Window) -> None:
    """Do not go on with what waited for a save: there was none."""
    window.after_save = None


def forget_failed_save(window: Window, ended: JobEvent) -> None:
    """A save that did not come about takes what waited for it along: a later one is not to close the window."""
    save = ended.job.job
    if isinstance(save, SaveJob) and not save.copy and not isinstance(ended.event, Done):
        _forget_then(window)


def save_as(window: Window) -> None:
    """Choose a file and save to it."""
    document = window.session.document
    if document is None:
        return
    name = document.path.name if document.path else f"{_word(document.project.source.name)}.espalier"
    dialog = ask_path(window, "Save as", lambda p: _save_to(window, _project(p)), save=True,
                       names="Espalier projects (*.espalier)", suggestion=name)  # fmt: skip
    dialog.rejected.connect(lambda: _forget_then(window))


def _save_to(window: Window, path: Path) -> None:
    if window.ownership.free(path):
        window.session.save_as(path)
    else:
        _forget_then(window)


def _project(path: Path) -> Path:
    return path if is_project(path.name) else path.with_name(path.name + ".espalier")


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"


def close(window: Window) -> None:
    """Close the document."""
    guard(window, window.session.close)


def load_recipe(window: Window) -> None:
    """Choose a file and add its steps."""
    ask_path(window, "Load a recipe", lambda p: add_steps(window, p), names=RECIPES)


def add_steps(window: Window, path: Path) -> None:
    """Add the steps of a recipe's file (TOML, JSON, a dict of MASE) after the present ones: one undo step."""
    from espalier.passes.recipes.pasted import load_recipe_file

    try:
        steps = load_recipe_file(path).steps
    except EspalierError as error:
        window.banner.error(error)
        return
    window.session.set_recipe(window.session.recipe.append(*steps), f"Load {path.name}")


EXPORTS = {
    "safetensors": ("Export a safetensors folder", "", True),
    "packed": ("Export a packed model", "model.packed.safetensors", False),
    "onnx": ("Export as ONNX", "model.onnx", False),
    "pt2": ("Export a torch program", "model.pt2", False),
    "adapter": ("Export the LoRA adapters into a folder", "", True),
    "recipe": ("Export the recipe", "recipe.json", False),
    "script": ("Export a Python script", "compress.py", False),
    "graphml": ("Export the graph as GraphML", "graph.graphml", False),
}


def has_adapters(window: Window) -> bool:
    """Whether there are any to fuse or to hand on."""
    document = window.session.document
    return document is not None and any(n.adapters for n in document.graph)


def export(window: Window, form: str) -> None:
    """Hand the result on in `form`, and say what was written."""
    title, suggestion, folder = EXPORTS[form]
    if form == "packed":
        title = f"{title} of {mebibytes(window.session.score.size_bytes)}"

    def write(path: Path) -> None:
        window.session.export(form, path, lambda done: _exported(window, path, done))

    ask_path(window, title, write, save=not folder, folder=folder, suggestion=suggestion)


def _exported(window: Window, path: Path, done: Exported) -> None:
    """What was written, whether it was run, and what the form could not take along."""
    home = path if path.is_dir() else path.parent
    text = f"{path.name} is written: {mebibytes(done.bytes)}."
    if done.max_abs_diff is not None and not done.notes:
        text += f" It was run: results differ from the model's by {done.max_abs_diff:.2g} at most."
    show = ("Show in folder", lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(home))))
    window.banner.tell(text, " ".join(done.notes), [show])


def packed_words(window: Window) -> str:
    """The menu's word for a packed export, with the size that its file will have."""
    size = window.session.score.size_bytes
    return f"Packed model, {mebibytes(size)}…" if size else "Packed model…"


def folder_words(window: Window) -> str:
    """The menu's word for a folder of float weights, with about the size of these."""
    document = window.session.document
    size = sum(w.elements * w.float_bits for w in document.graph.weights.values()) // 8 if document else 0
    return f"Safetensors folder, about {mebibytes(size)}…" if size else "Safetensors folder…"


def export_picture(window: Window) -> None:
    """Write the graph as it is open on the canvas, as PNG or SVG."""

    def write(path: Path) -> None:
        kind = path.suffix.lower()
        if kind not in PICTURES:
            told = f"{path.name} could not be written: {kind or 'a name without an ending'} is not supported."
            window.banner.tell(told, "Choose a name that ends in .svg or .png.", kind="error")
        else:
            telling(window, lambda: _draw(window, path))

    names = "Pictures (*.svg *.png)"
    ask_path(window, "Export a picture", write, save=True, names=names, suggestion="graph.svg")


def telling(window: Window, write: Callable[[], object]) -> None:
    """Write a file; the banner tells why that failed."""
    try:
        write()
    except EspalierError as error:
        window.banner.error(error)


def _draw(window: Window, path: Path) -> None:
    """Draw the graph into a file; raises FileError."""
    from espalier.app.canvas.svg import to_svg

    canvas, graph = window.canvas, window.session.open_document.graph
    if path.suffix.lower() == ".svg":
        write_text(path, to_svg(graph, canvas.open_groups, horizontal=canvas.horizontal))
    else:
        canvas.render(path, (3200, 2400))


def save_plots(window: Window, plots: Exportable, title: str, suggestion: str) -> None:
    """Write the plots that are shown as a picture or their figures as CSV, as the name's ending says."""

    def write(path: Path) -> None:
        telling(window, lambda: plots.export(path if path.suffix in PLOTS else path.with_name(path.name + ".png")))

    names = "Pictures and figures (*.png *.svg *.csv)"
    ask_path(window, title, write, save=True, names=names, suggestion=suggestion)


def save_table(window: Window, rows: Savable, suggestion: str = "report.csv") -> None:
    """Write a table as CSV."""

    def write(path: Path) -> None:
        telling(window, lambda: rows.save(path))

    ask_path(window, "Save the table", write, save=True, names="CSV (*.csv)", suggestion=suggestion)
