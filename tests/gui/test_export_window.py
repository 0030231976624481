"""File → Export: what is offered, what is said of what was written, and how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QPushButton

from espalier.app.shell.exports import EXPORTS
from espalier.app.shell.window import Window
from espalier.passes.export import FORMS, Exported


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
