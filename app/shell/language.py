"""The language of the window: finds catalogues, and installs the chosen one before any text is imported."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QLibraryInfo, QLocale, Qt, QTranslator
from PySide6.QtGui import QGuiApplication

from espalier.app import translation
from espalier.app.catalogue import read_catalogue
from espalier.app.settings import data_folder
from espalier.model.errors import EspalierError, FileError, OptionsError

SYSTEM, ENGLISH = "system", "en"
CONTEXT = "Espalier"  # of all texts in a catalogue
FOLDER = "languages"
FILE = re.compile(r"espalier_([A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,8}){0,2})\.qm")


class Language:
    """The installed language: `code` as in the names of files, `problem`: why it is English in place of the chosen."""

    def __init__(self) -> None:
        self.code = ENGLISH
        self.problem: EspalierError | None = None
        self._texts = QTranslator()

    def start(self, choice: str) -> None:
        """Install a language: SYSTEM, ENGLISH or a code. An error leaves English, and is kept as `problem`."""
        try:
            self.install(choice)
        except EspalierError as error:
            self.problem = error

    def install(self, choice: str) -> None:
        """Install a language. Raises OptionsError if there is none of that code, FileError for a damaged file."""
        translation.install(None)
        self.code = ENGLISH
        if choice == ENGLISH or (choice == SYSTEM and not system_language()):
            return
        code, found = choice if choice != SYSTEM else system_language(), languages()
        if code not in found:
            hint = f"Languages: {', '.join((ENGLISH, *found))}. Others belong into {data_folder(FOLDER)}."
            raise OptionsError(f"There is no language {code!r}.", hint)
        texts = read_catalogue(found[code], CONTEXT)
        if not self._texts.load(str(found[code])):
            raise FileError(f"{found[code].name} cannot be read by Qt.", "Compile it again with lrelease.")
        self.code = code
        translation.install(self._text, texts)

    def _text(self, text: str, number: int) -> str:
        return self._texts.translate(CONTEXT, text, None, number) or ""

    def translate_qt(self, app: QGuiApplication) -> None:
        """Translate Qt's own dialogs and menus, if its catalogue of the language is there."""
        if self.code == ENGLISH:
            return
        app.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # else that of the language, for which no panel is made
        own = QTranslator(app)
        if own.load(f"qtbase_{self.code}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
            app.installTranslator(own)


LANGUAGE = Language()


def languages() -> dict[str, Path]:
    """Code → file of the catalogues in the user's folder, sorted; none if the folder cannot be read."""
    try:
        files = sorted(data_folder(FOLDER).iterdir())
    except (OSError, EspalierError):
        return {}
    return {match.group(1): f for f in files if (match := FILE.fullmatch(f.name))}


def system_language() -> str:
    """The first language of the desktop that has a catalogue; empty if that is English or there is none."""
    found = languages()
    for name in QLocale.system().uiLanguages():
        parts = name.split("-")
        if parts[0] == ENGLISH:
            return ""
        for size in range(len(parts), 0, -1):
            if (code := "_".join(parts[:size])) in found:
                return code
    return ""


def language_title(code: str) -> str:
    """The name of a language in itself: `Deutsch`; the code of one that Qt does not know."""
    locale = QLocale(code)
    return locale.nativeLanguageName() if locale.language() != QLocale.Language.C else code
