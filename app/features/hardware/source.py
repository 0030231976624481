"""Source text of the modules; copies can be edited, are stored in the project and checked while typing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.hardware.findings import Findings
from espalier.app.features.hardware.state.edited_modules import EditedModules, built_in
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import link
from espalier.app.widgets.source.find_bar import FindBar
from espalier.app.widgets.source.source_text import Mark, SourceText
from espalier.verilog.proof.lint import Finding
from espalier.verilog.proof.lint_while_editing import can_check, check, uses
from espalier.verilog.rtl.edited_modules import Edited

FIND = QKeySequence.StandardKey.Find
PAUSE = 250  # milliseconds without a key before the text is checked
SLOT = "diagnostics"
NO_TOOL = tr("no checks while typing: slang is missing (pip install espalier[rtl])")
GENERATED = tr("Generated from the graph and its weights: change those.")


class SourceView(QWidget):
    """File choice and text view; emits `file_shown` with the file in front."""

    file_shown = Signal(str)

    def __init__(self, copies: EditedModules) -> None:
        super().__init__()
        self._files: dict[str, str] = {}
        self._marks: dict[str, dict[int, str]] = {}
        self._copies = copies
        self._reverted: Edited | None = None
        self.choice, self.text = Choice(), SourceText()
        self.finder, self.findings = FindBar(self.text), Findings()
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.RichText)
        self._diagnosis = ""
        self.edit = link(tr("Edit a copy"), self._begin)
        self.compare = link(tr("Changes"), lambda: self._show_changes(not self.comparing))
        self.settle = link(tr("Keep copy"), lambda: copies.settle(self.module))
        self.revert = link(tr("Revert"), self._revert)
        self.restore = link(tr("Restore copy"), self._restore)
        self.compare.setToolTip(tr("Differences from the built-in module"))
        self.revert.setToolTip(tr("Discard the copy and use the built-in module"))
        self.settle.setToolTip(tr("The built-in module has changed since this copy was made; keep the copy"))
        self.comparing = False
        self._previews = Previews(self)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._build()
        self._connect()

    def _build(self) -> None:
        self.choice.setAccessibleName(tr("File"))
        self.choice.setMinimumWidth(128)
        self.edit.setToolTip(tr("The project keeps the copy and uses it instead of the built-in module"))
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        tools = (self.edit, self.compare, self.settle, self.revert, self.restore)
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
        self._wait.timeout.connect(self._check)
        self._previews.ready.connect(lambda slot, key, findings: self._on_checked(key, findings))
        self._previews.failed.connect(lambda slot, error: self._set_diagnosis(tr("slang failed: {}", error)))
        self.findings.chosen.connect(self._go_to)
        self._copies.changed.connect(self._on_copy_changed)

    def event(self, event: QEvent) -> bool:
        """Claim Ctrl+F before the window: here it searches the file, not the graph."""
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
        """Offer files; keep the shown one if it is among them."""
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
        texts = tuple(tr("{} · edited", f) if module_of(f) in self._copies.modules else f for f in files)
        with QSignalBlocker(self.choice):
            self.choice.offer(names, texts)

    def show_file(self, name: str, text: str = "") -> None:
        """Show a file at the first line that contains `text`."""
        if name not in self._files:
            return
        if name != self.file or self.comparing:
            self.choice.put(name)
            self._show(name)
        if text and (line := self.text.line_of(text)):
            self.text.go_to(line)

    def _show(self, name: str) -> None:
        self.comparing, self._diagnosis = False, ""
        self._previews.forget(SLOT)
        copy = self._copies.modules.get(module_of(name))
        if copy:
            self.text.show_editable(name, copy.text)
            self._check()
        else:
            self.text.show_text(self._files.get(name, ""), self._marks.get(name, {}))
            self._refresh()
        self.file_shown.emit(name)

    def go_to(self, name: str, line: int) -> None:
        """Show a line of a file."""
        self.show_file(name)
        if name == self.file:
            self.text.go_to(line)

    # -- edited copy

    def _begin(self) -> None:
        """Begin an edited copy of the file in front."""
        module = self.module
        if self.file.startswith("rtl/") and (text := built_in(module)) is not None:
            self._reverted = None
            self._copies.begin(module, text)
            self.text.setFocus()

    def _revert(self) -> None:
        self._reverted = self._copies.modules.get(self.module)
        self._copies.revert(self.module)

    def _restore(self) -> None:
        """Restore the copy reverted last."""
        if copy := self._reverted:
            self._reverted = None
            self._copies.begin(copy.module, copy.original)
            self._copies.edit(copy.module, copy.text)
            if (name := f"rtl/{copy.module}.sv") in self._files:
                self.choice.put(name)
                self._show(name)  # the shown text is outdated

    def _typed(self) -> None:
        if self.module in self._copies.modules and not self.comparing:
            self._wait.start()
            self._copies.edit(self.module, self.text.toPlainText())

    def _on_copy_changed(self, module: str) -> None:
        """Update after a copy began, changed or was reverted."""
        if not module:  # another document
            self.text.forget()
            self._reverted = None
            return
        exists = module in self._copies.modules
        visible = self.text.editable or self.comparing  # the copy or its diff
        if module == self.module and visible != exists:
            self._offer()
            if not exists:
                self.text.forget(self.file)
                self._files[self.file] = built_in(module) or (self._reverted.original if self._reverted else "")
                self._marks.pop(self.file, None)
            self._show(self.file)
        elif not self._wait.isActive():  # otherwise after the check
            self._refresh()

    def _show_changes(self, checked: bool) -> None:
        """Show the copy's diff against the built-in module, or the copy again."""
        copy, name = self._copies.modules.get(self.module), self.file
        if not checked or copy is None:
            self._show(name)
            return
        lines = difflib.unified_diff((built_in(copy.module) or copy.original).splitlines(), copy.text.splitlines(),
                                     "built-in", "edited", lineterm="")  # fmt: skip
        self.comparing = True
        self.text.show_text("\n".join(lines) or tr("// The copy equals the built-in module."), {})
        self.findings.show_marks([])
        self._refresh()

    def _refresh(self) -> None:
        """Update the actions and the state text of the file in front."""
        copy, module = self._copies.modules.get(self.module), self.module
        library = self.file.startswith("rtl/") and built_in(module) is not None
        self.edit.setVisible(bool(self.file) and copy is None)
        self.edit.setEnabled(library)
        self.edit.setToolTip(
            tr("The project keeps the copy and uses it instead of the built-in module") if library else GENERATED
        )
        old = copy is not None and self._copies.outdated(module)
        self.compare.setVisible(copy is not None)
        self.compare.setText(tr("Back") if self.comparing else tr("Changes"))
        self.settle.setVisible(old)
        self.revert.setVisible(copy is not None)
        self.restore.setVisible(self._reverted is not None and copy is None and self._reverted.module == module)
        self.state.setText("" if copy is None else " · ".join(filter(None, (copy_text(copy, old), self._diagnosis))))
        self.state.setVisible(copy is not None)
        if copy is None:
            self.findings.show_marks([])

    # -- checks while typing

    def _check(self) -> None:
        """Check the latest text with slang in a pool thread."""
        name, module = self.file, self.module
        if module not in self._copies.modules or self.comparing:
            return
        self._refresh()
        if not can_check():
            self._set_diagnosis(NO_TOOL)
            return
        copied = {f"rtl/{m}.sv": e.text for m, e in self._copies.modules.items()}
        files = {n: t for n, t in {**self._files, **copied}.items() if n.startswith("rtl/")}
        top = next((t for n, t in self._files.items() if "/" not in n), "")
        key = name, files[name], hash(top)
        findings = self._previews.ask(
            SLOT, key, lambda stop: tuple(check(name, module, files, uses(module, top), stop)))  # fmt: skip
        if findings is not None:
            self._on_checked(key, findings)

    def _on_checked(self, key: tuple[str, str, int], findings: tuple[Finding, ...]) -> None:
        if key[0] == self.file and self.text.editable and not self.comparing:
            marks = [Mark(f.line, f.text, f.column) if f.file == self.file else Mark(0, f.text) for f in findings]
            self.text.show_marks(marks)
            self.findings.show_marks(marks)
            palette = tokens(self)
            clean = tr('<span style="color:{}">✓ slang</span>', palette.good)
            self._set_diagnosis(
                f'<span style="color:{palette.bad}">✗ {plural(len(marks), "error")}</span>' if marks else clean
            )

    def _set_diagnosis(self, text: str) -> None:
        """Set slang's verdict in the state text."""
        self._diagnosis = text
        self._refresh()

    def _go_to(self, mark: Mark) -> None:
        self.text.go_to(mark.line, mark.column)
        self.text.setFocus()


def module_of(file: str) -> str:
    """The module name of a file."""
    return file.rpartition("/")[2].removesuffix(".sv")


def copy_text(copy: Edited, outdated: bool) -> str:
    """State text of a copy relative to the built-in module."""
    library_lines = (built_in(copy.module) or copy.original).splitlines()
    steps = difflib.SequenceMatcher(None, library_lines, copy.text.splitlines(), autojunk=False).get_opcodes()
    different = sum(max(b - a, d - c) for kind, a, b, c, d in steps if kind != "equal")
    text = tr("{} changed", plural(different, "line")) if different else tr("unchanged")
    return tr("{} · built-in module has changed since", text) if outdated else text
