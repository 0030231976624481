"""File → Export: what is offered, what is said of what was written, and how it is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QPushButton

from espalier.app.shell.exports import EXPORTS, checked_text
from espalier.app.shell.onnx_window import OnnxWindow
from espalier.app.shell.window import Window
from espalier.passes.export import FORMS, Exported
from espalier.passes.export.checking.check import Check
from espalier.passes.export.checking.row import CheckRow
from espalier.passes.export.checking.target import CheckOptions
from espalier.passes.export.settings import OnnxOptions


def test_every_form_is_in_the_menu(window: Window) -> None:
    assert set(EXPORTS) == set(FORMS) <= {a.id.removeprefix("export_") for a in window.actions_table.rows}


def test_what_was_written_is_told_and_can_be_shown(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()))
    done = Exported((str(tmp_path / "m.onnx"),), 3_000_000, max_abs_diff=2e-6)
    window.services.exports._exported(tmp_path / "m.onnx", done)
    texts = [b.text() for b in window.banner.findChildren(QPushButton) if b.isVisibleTo(window.banner)]
    assert texts == ["Show in folder", "Dismiss"]
    assert "differ from the model's by at most 2e-06" in window.banner._message.text()
    next(b for b in window.banner.findChildren(QPushButton) if b.text() == "Show in folder").click()
    assert shown == [str(tmp_path)]


def test_options_of_onnx_are_asked_before_the_path(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(window.services.exports, "_ask_path", lambda form, **options: asked.append(options))
    window.services.exports.export("onnx")
    dialog = next(w for w in window.findChildren(OnnxWindow) if w.isVisible())
    assert set(dialog.form.editors) == {"exact", "clip", "dynamic", "accuracy_level", "standard"}
    dialog.form.editors["clip"].put("code")
    dialog.check.setChecked(True)
    dialog._accept()
    assert asked[0]["onnx"] == OnnxOptions(clip="code") and isinstance(asked[0]["check"], CheckOptions)
    assert asked[0]["leave_float"] is False


def test_a_check_names_times_and_accuracies_beside_baselines() -> None:
    own = CheckRow("this file", accuracy=0.905, n=200, milliseconds=1.234)
    refused = CheckRow("quantize_static", reason="no such operator")
    rows = (CheckRow("Espalier", accuracy=0.91, n=200), own, CheckRow("float", milliseconds=2.5), refused)
    text = checked_text(Check("onnxruntime 1.32.0", rows, 1000, 32, 1, 30))
    assert text.startswith("onnxruntime 1.32.0, a batch of 32: Espalier accuracy 91.00% (n = 200); this file 1.23 ms")
    assert text.endswith(", accuracy 90.50% (n = 200); float 2.5 ms.")
