"""Settings stored between runs: recent files, theme, layout, plug-ins. The only user of QSettings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths

from espalier.model.files import explained
from espalier.model.private import private_folder, redacted
from espalier.model.trust import factory_of

RECENT = 10
LAYOUT_VERSION = 3
SIZES = (100, 125, 150, 200)  # percent
MODES = ("system", "light", "dark")


class Settings:
    """Typed access to the stored settings; a missing or invalid value reads as its default."""

    def __init__(self, store: QSettings | None = None) -> None:
        self._store = store or QSettings("Espalier", "Espalier")

    def _text(self, key: str, default: str = "") -> str:
        value = self._store.value(key, default)
        return value if isinstance(value, str) else default

    @property
    def mode(self) -> str:
        """light, dark or system."""
        value = self._text("theme", "system")
        return value if value in MODES else "system"

    @mode.setter
    def mode(self, value: str) -> None:
        """Store the mode."""
        self._store.setValue("theme", value)

    @property
    def language(self) -> str:
        """`system`, `en` or the code of a catalogue."""
        return self._text("language") or "system"

    @language.setter
    def language(self, value: str) -> None:
        """Store the language; the next start shows the window in it."""
        self._store.setValue("language", value)

    @property
    def size(self) -> int:
        """The size of everything in the window, in percent of the desktop's."""
        value = self._text("size", "100")
        return int(value) if value in map(str, SIZES) else 100

    @size.setter
    def size(self, value: int) -> None:
        """Store the size; the next start draws the window at it."""
        self._store.setValue("size", str(value))

    def take_first_start(self) -> bool:
        """Whether the tour was never offered; from now on it was."""
        is_first = not self._text("tour_offered")
        self._store.setValue("tour_offered", "yes")
        return is_first

    @property
    def keys(self) -> dict[str, str]:
        """Action id → the keys that the user chose for it; an empty text: none."""
        try:
            value = json.loads(self._text("keys", "{}"))
        except ValueError:
            return {}
        items = value.items() if isinstance(value, dict) else ()
        return {k: v for k, v in items if isinstance(v, str)}

    @keys.setter
    def keys(self, value: Mapping[str, str]) -> None:
        """Store the keys."""
        self._store.setValue("keys", json.dumps(dict(value)))

    @property
    def recent(self) -> list[str]:
        """Paths and other sources opened last, newest first."""
        value = self._store.value("recent", [])
        items = [value] if isinstance(value, str) else value
        return [str(v) for v in items if v] if isinstance(items, list) else []

    def add_recent(self, spec: str) -> None:
        """Put `spec` first, a file by its absolute path; keeps RECENT entries."""
        spec = redacted(absolute(spec))
        rest = [r for r in self.recent if r != spec]
        self._store.setValue("recent", [spec, *rest][:RECENT])

    def remove_recent(self, spec: str) -> None:
        """Remove `spec`."""
        self._store.setValue("recent", [r for r in self.recent if r != spec])

    @property
    def reopens(self) -> bool:
        """Whether a start without a source opens the last one."""
        return self._text("reopens") == "yes"

    @reopens.setter
    def reopens(self, value: bool) -> None:
        """Store the choice."""
        self._store.setValue("reopens", "yes" if value else "")

    @property
    def session(self) -> tuple[list[str], int]:
        """The sources that were open in tabs when the program ended, and which one was in front."""
        try:
            value = json.loads(self._text("session", "{}"))
            sources, current = [str(s) for s in value["sources"]], int(value["current"])
        except (ValueError, TypeError, LookupError):
            return [], 0
        return sources, current if 0 <= current < len(sources) else 0

    @session.setter
    def session(self, value: tuple[list[str], int]) -> None:
        """Store the sources."""
        sources, current = value
        self._store.setValue(
            "session", json.dumps({"sources": [redacted(absolute(s)) for s in sources], "current": current})
        )

    @property
    def plugins(self) -> tuple[str, ...]:
        """Files and folders with the user's own passes and formats."""
        return tuple(p for p in self._text("plugins").split(os.pathsep) if p)

    @plugins.setter
    def plugins(self, value: Iterable[str]) -> None:
        """Store the paths as one text, joined by os.pathsep."""
        self._store.setValue("plugins", os.pathsep.join(dict.fromkeys(value)))

    @property
    def last_folder(self) -> str:
        """The folder in which file dialogs start."""
        return self._text("last_folder")

    @last_folder.setter
    def last_folder(self, value: str) -> None:
        """Store the folder."""
        self._store.setValue("last_folder", value)

    def save_layout(self, geometry: QByteArray, state: Mapping[str, QByteArray]) -> None:
        """Store the window's geometry and the state of its workspaces and docks."""
        for name, value in {"geometry": geometry, **state}.items():
            self._store.setValue(f"layout/{LAYOUT_VERSION}/{name}", value)

    def layout(self) -> tuple[QByteArray, dict[str, QByteArray]] | None:
        """The stored (geometry, state), or None."""
        self._store.beginGroup(f"layout/{LAYOUT_VERSION}")
        values = {name: self._store.value(name) for name in self._store.childKeys()}
        self._store.endGroup()
        state = {name: value for name, value in values.items() if isinstance(value, QByteArray)}
        geometry = state.pop("geometry", None)
        return (geometry, state) if geometry is not None else None

    def sync(self) -> None:
        """Write to disk now."""
        self._store.sync()


def data_folder(name: str) -> Path:
    """The folder `name` for files of the program itself (crash reports, recovery), created if missing.

    Its parent is the environment variable ESPALIER_STATE, else the desktop's data folder. Raises FileError.
    """
    base = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericDataLocation)
    usual = Path(base or Path.home() / ".local" / "share") / "espalier"
    folder = Path(os.environ.get("ESPALIER_STATE") or usual) / name
    with explained(folder):
        return private_folder(folder)


def is_path(spec: str) -> bool:
    """Whether a source is a file or folder, rather than a demo, a name on the hub or a configuration."""
    head, colon, _ = spec.partition(":")
    return not (colon and head in ("demo", "hf", "config"))


def absolute(spec: str) -> str:
    """A source that is found again from any folder: a file or folder that exists by its absolute path."""
    factory = factory_of(spec)
    path, name = factory or (spec, "")
    if not is_path(spec) or is_missing(spec):
        return spec
    return f"{Path(path).expanduser().absolute()}{f':{name}' if name else ''}"


def is_missing(spec: str) -> bool:
    """Whether a recent entry is a file or folder that no longer exists."""
    factory = factory_of(spec)
    path = factory[0] if factory else spec
    return is_path(spec) and not Path(path).expanduser().exists()
