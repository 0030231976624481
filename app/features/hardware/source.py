"""The text of the modules: to be read, and, as a copy that the project keeps, to be edited and checked while typing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.hardware.findings import Findings
from espalier.app.features.hardware.state.copies import Copies, ours
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import link
from espalier.app.widgets.source.find import Find
from espalier.app.widgets.source.text import Mark, SourceText
from espalier.app.words import plural
from espalier.verilog.proof.lint import Finding
from espalier.verilog.proof.lint_while_editing import can_check, check, uses
from espalier.verilog.rtl.edited_modules import Edited

FIND = QKeySequence.StandardKey.Find
PAUSE = 250  # milliseconds without a key before the text is looked at
SLOT = "diagnostics"
NO_TOOL = "no errors while you type: slang is missing (pip install espalier[rtl])"
GENERATED = "It is generated from the graph and its weights: change those."


class SourceView(QWidget):
    """A choice of files and the text. `file_shown` tells which is in front; `changes` are shown as a diff."""

    file_shown = Signal(str)

    def __init__(self, copies: Copies) -> None:
        super().__init__()
        self._files: dict[str, str] = {}
        self._marks: dict[str, dict[int, str]] = {}
        self._copies = copies
        self._gone: Edited | None = None
        self.choice, self.text = Choice(), SourceText()
        self.finder, self.findings = Find(self.text), Findings()
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.RichText)
        self._checked = ""
        self.edit = link("Edit a copy", self._begin)
        self.compare = link("Changes", lambda: self._show_changes(not self.comparing))
        self.settle = link("Keep mine", lambda: copies.settle(self.module))
        self.revert = link("Revert", self._revert)
        self.bring_back = link("Bring my copy back", self._bring_back)
        self.compare.setToolTip("What differs from ours")
        self.revert.setToolTip("Let the copy go and use ours")
        self.settle.setToolTip("The built-in module has changed since this copy was made; keep the copy")
        self.comparing = False
        self._previews = Previews(self)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._build()
        self._connect()

    def _build(self) -> None:
        self.choice.setAccessibleName("File")
        self.choice.setMinimumWidth(128)
        self.edit.setToolTip("The project keeps the copy and uses it instead of the built-in module")
        bar = Flow(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        tools = (self.edit, self.compare, self.settle, self.revert, self.bring_back)
        for part in (self.choice, self.finder, self.state, *tools):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.text, 1)
        box.addWidget(self.findings)

    def _connect(self) -> None:
        self.choice.edited.connect(lambda: self._show(self.choice.get()))
        self.text.typed.connect(self._typed)
        self._wait.timeout.connect(self._look)
        self._previews.ready.connect(lambda slot, key, found: self._looked(key, found))
        self._previews.failed.connect(lambda slot, error: self._told(f"slang failed: {error}"))
        self.findings.chosen.connect(self._go_to)
        self._copies.changed.connect(self._copied)

    def event(self, event: QEvent) -> bool:
        """Take Ctrl+F before the window does: in here it searches the file, not the graph."""
        if event.type() == QEvent.Type.ShortcutOverride and event.matches(FIND):  # type: ignore[attr-defined]
            event.accept()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(FIND):
            self.finder.begin()
        else:
            super().keyPressEvent(event)

    # -- files

    @property
    def file(self) -> str:
        """The file that is shown."""
        return self.choice.get() if self.choice.currentIndex() >= 0 else ""

    @property
    def module(self) -> str:
        """The module of the file that is shown."""
        return module_of(self.file)

    def show_files(self, files: Mapping[str, str], marks: Mapping[str, dict[int, str]]) -> None:
        """Offer other files; the one that is shown stays where it is among them."""
        before = self.file
        self._files, self._marks = dict(files), dict(marks)
        self._offer()
        if self.choice.values:
            self.choice.put(before if before in self.choice.values else self.choice.values[0])
            self._show(self.file)
        else:
            self.text.show_text("", {})

    def _offer(self) -> None:
        names = tuple(sorted(self._files, key=lambda n: ("/" in n, n)))
        files = (n.removeprefix("rtl/") for n in names)
        texts = tuple(f"{f} · yours" if module_of(f) in self._copies.held else f for f in files)
        with QSignalBlocker(self.choice):
            self.choice.offer(names, texts)

    def show_file(self, name: str, text: str = "") -> None:
        """Show a file; at the first line that holds `text`."""
        if name not in self._files:
            return
        if name != self.file or self.comparing:
            self.choice.put(name)
            self._show(name)
        if text and (line := self.text.line_of(text)):
            self.text.go_to(line)

    def _show(self, name: str) -> None:
        self.comparing, self._checked = False, ""
        self._previews.forget(SLOT)
        copy = self._copies.held.get(module_of(name))
        if copy:
            self.text.show_editable(name, copy.text)
            self._look()
        else:
            self.text.show_text(self._files.get(name, ""), self._marks.get(name, {}))
            self._refresh()
        self.file_shown.emit(name)

    def go_to(self, name: str, line: int) -> None:
        """Show a line of a file."""
        self.show_file(name)
        if name == self.file:
            self.text.go_to(line)

    # -- the copy

    def _begin(self) -> None:
        """Edit the file in front: its text becomes the project's own."""
        module = self.module
        if self.file.startswith("rtl/") and (text := ours(module)) is not None:
            self._gone = None
            self._copies.begin(module, text)
            self.text.setFocus()

    def _revert(self) -> None:
        self._gone = self._copies.held.get(self.module)
        self._copies.revert(self.module)

    def _bring_back(self) -> None:
        """Take the copy that was let go last."""
        if copy := self._gone:
            self._gone = None
            self._copies.begin(copy.module, copy.original)
            self._copies.edit(copy.module, copy.text)
            if (name := f"rtl/{copy.module}.sv") in self._files:
                self.choice.put(name)
                self._show(name)  # in front or not: the text is that from before

    def _typed(self) -> None:
        if self.module in self._copies.held and not self.comparing:
            self._wait.start()
            self._copies.edit(self.module, self.text.toPlainText())

    def _copied(self, module: str) -> None:
        """A copy began, changed or went."""
        if not module:  # another document
            self.text.forget()
            self._gone = None
            return
        held = module in self._copies.held
        shown = self.text.editable or self.comparing  # the copy, or what it changes
        if module == self.module and shown != held:
            self._offer()
            if not held:
                self.text.forget(self.file)
                self._files[self.file] = ours(module) or (self._gone.original if self._gone else "")
                self._marks.pop(self.file, None)
            self._show(self.file)
        elif not self._wait.isActive():  # else once it has been looked at
            self._refresh()

    def _show_changes(self, wanted: bool) -> None:
        """The copy's differences from ours, to be read; or the copy again."""
        copy, name = self._copies.held.get(self.module), self.file
        if not wanted or copy is None:
            self._show(name)
            return
        lines = difflib.unified_diff((ours(copy.module) or copy.original).splitlines(), copy.text.splitlines(),
                                     "ours", "yours", lineterm="")  # fmt: skip
        self.comparing = True
        self.text.show_text("\n".join(lines) or "// The copy is as ours.", {})
        self.findings.show_marks([])
        self._refresh()

    def _refresh(self) -> None:
        """What can be done with the file in front, and how its copy stands."""
        copy, module = self._copies.held.get(self.module), self.module
        library = self.file.startswith("rtl/") and ours(module) is not None
        self.edit.setVisible(bool(self.file) and copy is None)
        self.edit.setEnabled(library)
        self.edit.setToolTip(
            "The project keeps the copy and uses it instead of the built-in module" if library else GENERATED
        )
        old = copy is not None and self._copies.outdated(module)
        self.compare.setVisible(copy is not None)
        self.compare.setText("Back" if self.comparing else "Changes")
        self.settle.setVisible(old)
        self.revert.setVisible(copy is not None)
        self.bring_back.setVisible(self._gone is not None and copy is None and self._gone.module == module)
        self.state.setText("" if copy is None else " · ".join(filter(None, (copy_words(copy, old), self._checked))))
        self.state.setVisible(copy is not None)
        if copy is None:
            self.findings.show_marks([])

    # -- what is wrong while somebody types

    def _look(self) -> None:
        """Ask slang, in a pool thread; the latest text alone."""
        name, module = self.file, self.module
        if module not in self._copies.held or self.comparing:
            return
        self._refresh()
        if not can_check():
            self._told(NO_TOOL)
            return
        copied = {f"rtl/{m}.sv": e.text for m, e in self._copies.held.items()}
        files = {n: t for n, t in {**self._files, **copied}.items() if n.startswith("rtl/")}
        top = next((t for n, t in self._files.items() if "/" not in n), "")
        key = name, files[name], hash(top)
        found = self._previews.ask(
            SLOT, key, lambda stop: tuple(check(name, module, files, uses(module, top), stop)))  # fmt: skip
        if found is not None:
            self._looked(key, found)

    def _looked(self, key: tuple[str, str, int], found: tuple[Finding, ...]) -> None:
        if key[0] == self.file and self.text.editable and not self.comparing:
            own = [Mark(f.line, f.text, f.column) if f.file == self.file else Mark(0, f.text) for f in found]
            self.text.show_marks(own)
            self.findings.show_marks(own)
            look = tokens(self)
            good = f'<span style="color:{look.good}">✓ slang</span>'
            self._told(f'<span style="color:{look.bad}">✗ {plural(len(own), "error")}</span>' if own else good)

    def _told(self, words: str) -> None:
        """What slang said, beside how the copy stands."""
        self._checked = words
        self._refresh()

    def _go_to(self, mark: Mark) -> None:
        self.text.go_to(mark.line, mark.column)
        self.text.setFocus()


def module_of(file: str) -> str:
    """The module that a file holds."""
    return file.rpartition("/")[2].removesuffix(".sv")


def copy_words(copy: Edited, outdated: bool) -> str:
    """How a copy stands to ours."""
    now = (ours(copy.module) or copy.original).splitlines()
    steps = difflib.SequenceMatcher(None, now, copy.text.splitlines(), autojunk=False).get_opcodes()
    different = sum(max(b - a, d - c) for kind, a, b, c, d in steps if kind != "equal")
    words = f"{plural(different, 'line')} changed" if different else "as ours"
    return f"{words} · built-in module has changed since" if outdated else words
