"""The menu of languages, and what a start with a damaged catalogue shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from espalier.app.shell.actions import view
from espalier.app.shell.window import Window
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.gui


def test_a_choice_holds_from_the_next_start_and_says_so(opened: Window) -> None:
    assert opened.settings.language == "system" and opened.actions_table.actions["language_system"].isChecked()
    opened.actions_table.run("language_en")
    assert opened.settings.language == "en" and opened.actions_table.actions["language_en"].isChecked()
    assert opened.banner.text == "From the next start, the language is: English. Save and start it again."


def test_catalogues_of_the_user_s_folder_are_listed(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path))
    (tmp_path / "languages").mkdir(mode=0o700)
    for name in ("espalier_de.qm", "espalier_pt_BR.qm", "espalier_xx.qm", "espalier_de.ts", "other_fr.qm"):
        (tmp_path / "languages" / name).touch()
    rows = {r.id: r for r in view.language_rows(window.settings, window.host)}
    titles = {i.removeprefix("language_"): r.title for i, r in rows.items() if i != "language_folder"}
    assert titles["de"] == "Deutsch" and titles["xx"] == "xx" and titles["en"] == "English"
    assert list(titles) == ["system", "en", "de", "pt_BR", "xx"]
    opened: list[object] = []
    monkeypatch.setattr(view, "open_file", opened.append)
    rows["language_folder"].run()
    rows["language_de"].run()
    assert opened == [tmp_path / "languages"] and window.settings.language == "de"


START = """
from PySide6.QtCore import QTimer
from espalier.app.settings import Settings
from espalier.app.shell.starting import open_window
settings = Settings()
settings.language = "de"
settings.take_first_start()
settings.sync()
from espalier.app.shell import application
show = application.show_within

def shown(tabs, size):
    show(tabs, size)

    def look():
        print("SHOWN", tabs.current.banner.text, tabs.windowTitle(), flush=True)
        tabs.close()

    QTimer.singleShot(500, look)

application.show_within = shown
open_window(None)
"""


@pytest.mark.slow
def test_a_damaged_catalogue_is_one_message_and_an_english_window(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "languages"
    folder.mkdir(parents=True)
    (folder / "espalier_de.qm").write_bytes(b"damaged")
    environment = os.environ | {
        "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT / "roots"), "ESPALIER_STATE": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", START], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "SHOWN espalier_de.qm is damaged, so that the window is in English." in done.stdout, done.stderr
