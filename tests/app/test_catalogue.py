"""Catalogues compiled by Qt's own lrelease: read, chosen, refused where they are damaged or of another program."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import PySide6
import pytest
from PySide6.QtCore import QLocale, QSettings, Qt, QTranslator
from PySide6.QtWidgets import QApplication

from espalier.app import number_text, translation
from espalier.app.catalogue import MAGIC, read_catalogue
from espalier.app.settings import Settings
from espalier.app.shell import language
from espalier.app.shell.language import CONTEXT, ENGLISH, SYSTEM, Language, language_title, languages, system_language
from espalier.app.translation import tr
from espalier.model.errors import FileError, OptionsError
from tests.texts.extract import Text
from tests.texts.linguist import translations, write_ts

LRELEASE = Path(PySide6.__file__).parent / "lrelease"
GERMAN = {"Graph": ["Graph-Ansicht"], "{} of {}": ["{0} von {1}"], "%n node": ["%n Knoten", "%n Knoten!"]}

pytestmark = pytest.mark.skipif(not LRELEASE.exists(), reason="PySide6 has no lrelease here")


def compiled(folder: Path, texts: dict[str, list[str]] = GERMAN, name: str = "espalier_de") -> Path:
    """A catalogue compiled by lrelease from a file of Qt Linguist."""
    source, target = folder / f"{name}.ts", folder / f"{name}.qm"
    entries = [Text(t, "here.py", t.startswith("%n")) for t in texts]
    write_ts(source, entries, name.partition("_")[2], lambda t: texts[t.text])
    subprocess.run([LRELEASE, str(source), "-qm", str(target)], check=True, capture_output=True)
    return target


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of catalogues, empty."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path))
    (tmp_path / "languages").mkdir(mode=0o700)
    return tmp_path / "languages"


@pytest.fixture(autouse=True)
def back_to_english() -> object:
    yield
    translation.install(None)


def test_a_catalogue_of_lrelease_is_read(tmp_path: Path) -> None:
    """The same texts as Qt's own reader gives."""
    found = read_catalogue(compiled(tmp_path), CONTEXT)
    assert found == {t: tuple(forms) for t, forms in GERMAN.items()}


def test_its_texts_and_plural_forms_are_shown(folder: Path) -> None:
    compiled(folder)
    Language().install("de")
    assert tr("Graph") == "Graph-Ansicht" and tr("{} of {}", 1, 2) == "1 von 2" and tr("Data") == "Data"
    assert number_text.plural(1, "node") == "1 Knoten" and number_text.plural(3, "node") == "3 Knoten!"


def test_the_desktop_s_language_is_taken_where_there_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Desktop:
        names = ("de-AT", "en-GB")

        def uiLanguages(self) -> tuple[str, ...]:
            return self.names

    monkeypatch.setattr(QLocale, "system", staticmethod(Desktop))
    assert system_language() == ""
    compiled(folder)
    compiled(folder, name="espalier_fr")
    (folder / "notes.txt").touch()
    assert [*languages()] == ["de", "fr"] and system_language() == "de" and language_title("de") == "Deutsch"
    chosen = Language()
    chosen.install(SYSTEM)
    assert chosen.code == "de"
    Desktop.names = ("en-GB", "de")
    chosen.install(SYSTEM)
    assert chosen.code == ENGLISH and tr("Graph") == "Graph"


def test_an_unknown_language_names_the_others(folder: Path) -> None:
    compiled(folder)
    with pytest.raises(OptionsError, match="'xx'") as error:
        Language().install("xx")
    assert "en, de" in error.value.hint and str(folder) in error.value.hint


def test_a_bad_catalogue_leaves_english_and_one_message(folder: Path) -> None:
    file = compiled(folder)
    for content in (b"", b"no catalogue", file.read_bytes()[:-20], MAGIC + b"\x69\xff\xff\xff\xff"):
        file.write_bytes(content)
        chosen = Language()
        chosen.start("de")
        assert chosen.code == ENGLISH and isinstance(chosen.problem, FileError) and tr("Graph") == "Graph"
        assert chosen.problem.hint and "\n" not in str(chosen.problem)


def test_a_catalogue_of_another_program_is_refused(folder: Path) -> None:
    """Qt's own, renamed."""
    qt = Path(PySide6.__file__).parent / "Qt" / "translations" / "qtbase_de.qm"
    if not qt.exists():
        pytest.skip("PySide6 has no translations here")
    (folder / "espalier_de.qm").write_bytes(qt.read_bytes())
    with pytest.raises(FileError, match="no text of Espalier"):
        Language().install("de")


def test_qt_s_own_texts_follow(folder: Path, qapp: QApplication) -> None:
    chosen = Language()
    chosen.translate_qt(qapp)
    assert not qapp.findChildren(QTranslator)
    compiled(folder)
    chosen.install("de")
    chosen.translate_qt(qapp)
    (own,) = qapp.findChildren(QTranslator)
    try:
        assert qapp.translate("QPlatformTheme", "Cancel") == "Abbrechen"
        assert qapp.layoutDirection() == Qt.LayoutDirection.LeftToRight
    finally:
        qapp.removeTranslator(own)
        own.setParent(None)
        own.deleteLater()


def test_mutants_of_a_catalogue_are_refused_or_read(tmp_path: Path) -> None:
    """No other exception, no endless loop; what is read consists of texts."""
    whole, rng = compiled(tmp_path).read_bytes(), random.Random(5)
    mutant = tmp_path / "espalier_de.qm"
    refused = 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        mutant.write_bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)
        try:
            assert all(isinstance(t, str) for forms in read_catalogue(mutant, CONTEXT).values() for t in forms)
        except FileError:
            refused += 1
    assert 500 < refused < 2000


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "espalier_de.qm"
    with file.open("wb") as opened:
        opened.truncate(1 << 34)  # sparse
    with pytest.raises(FileError, match="too large"):
        read_catalogue(file, CONTEXT)


def test_a_file_of_linguist_keeps_its_translations(tmp_path: Path) -> None:
    compiled(tmp_path)
    kept = translations(tmp_path / "espalier_de.ts")
    assert kept == {(t, t.startswith("%n")): forms for t, forms in GERMAN.items()}


def test_the_setting_survives_and_defaults_to_the_desktop_s(tmp_path: Path) -> None:
    settings = Settings(QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat))
    assert settings.language == language.SYSTEM
    settings.language = "de"
    assert settings.language == "de"
