"""The keys of actions: those of their rows, unless the user chose others, which the settings store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QKeyCombination, Qt
from PySide6.QtGui import QKeySequence

from espalier.app.translation import tr, translated

if TYPE_CHECKING:
    from espalier.app.menu import Action
    from espalier.app.settings import Settings
    from espalier.app.shell.menus import Menus

FIXED = translated(
    {"Ctrl+C": "Copy", "Ctrl+V": "Paste", "Ctrl+X": "Cut", "Ctrl+D": "Duplicate", "F2": "Rename"}
)  # on the graph
MODIFIERS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
FUNCTION_KEYS = range(Qt.Key.Key_F1, Qt.Key.Key_F35 + 1)


def normal(text: str) -> str:
    """A key sequence as it is stored; empty for one that is none."""
    sequence = QKeySequence(text)
    unknown = any(_combination(sequence, i).key() == Qt.Key.Key_unknown for i in range(sequence.count()))
    return "" if unknown else sequence.toString(QKeySequence.SequenceFormat.PortableText)


def _combination(sequence: QKeySequence, index: int) -> QKeyCombination:
    return sequence[index]  # type: ignore[index]  # the stubs of PySide lack it


def shown(keys: tuple[str, ...]) -> str:
    """Keys as the desktop writes them."""
    return ", ".join(QKeySequence(k).toString(QKeySequence.SequenceFormat.NativeText) for k in keys)


def overlap(a: str, b: str) -> bool:
    """Whether one sequence begins with the other: Qt would then run neither action."""
    first, second = a.split(", "), b.split(", ")
    length = min(len(first), len(second))
    return bool(a and b) and first[:length] == second[:length]


def refusal(text: str) -> str:
    """Why a sequence cannot be a key of an action; empty if it can."""
    sequence = QKeySequence(text)
    if not normal(text):
        return tr("This is no key that can be stored.")
    combination = _combination(sequence, 0)
    if not (combination.keyboardModifiers() & MODIFIERS or combination.key() in FUNCTION_KEYS):
        return tr("Keys without Ctrl or Alt belong to texts and to the graph. Add Ctrl or Alt, or take a function key.")
    fixed = next((name for key, name in FIXED.items() if overlap(normal(text), key)), "")
    return tr("{} is “{}” on the graph and in lists. Choose other keys.", shown((text,)), fixed) if fixed else ""


class KeyBindings:
    """The keys of all actions of the menus. `follow`: called with action id → keys after each change."""

    def __init__(
        self, menus: Menus, settings: Settings, follow: Callable[[Mapping[str, tuple[str, ...]]], object]
    ) -> None:
        self._menus, self._settings, self._follow = menus, settings, follow
        self._mnemonics = {normal(f"Alt+{tr(m)[0]}"): tr("the menu {}", tr(m)) for m in menus.menus if "/" not in m}
        self._chosen: dict[str, str] = {}
        for name, text in settings.keys.items():  # a file that was edited by hand may hold anything
            if name in self.defaults and (not text or self._can_take(name, text)):
                self._chosen[name] = normal(text)
        self._apply()

    @property
    def defaults(self) -> dict[str, tuple[str, ...]]:
        """Action id → the keys of its row."""
        return {row.id: tuple(filter(None, map(normal, row.keys))) for row in self._menus.rows}

    @property
    def rows(self) -> list[Action]:
        """The actions."""
        return self._menus.rows

    def _can_take(self, name: str, text: str) -> bool:
        taken = (t for other, t in self._chosen.items() if other != name)
        return not refusal(text) and not any(overlap(normal(text), t) for t in taken)

    @property
    def present(self) -> dict[str, tuple[str, ...]]:
        """Action id → its keys now. A key that the user chose for one action is no other's default."""
        chosen = [t for t in self._chosen.values() if t]
        keys = {i: tuple(k for k in d if not any(overlap(k, t) for t in chosen)) for i, d in self.defaults.items()}
        return keys | {i: (t,) if t else () for i, t in self._chosen.items()}

    def is_changed(self, name: str) -> bool:
        """Whether an action has other keys than its row says."""
        return self.present[name] != self.defaults[name]

    def holder(self, text: str, besides: str) -> str:
        """The id of another action that has these keys; empty if there is none."""
        wanted = normal(text)
        return next(
            (i for i, keys in self.present.items() if i != besides and any(overlap(wanted, k) for k in keys)), ""
        )

    def mnemonic(self, text: str) -> str:
        """The menu that these keys open; empty for others."""
        return self._mnemonics.get(normal(text), "")

    def assign(self, name: str, text: str) -> None:
        """Give an action these keys, which any other action loses; an empty text leaves it without keys."""
        wanted = normal(text)
        while wanted and (other := self.holder(wanted, name)):
            self._set(other, "")
        self._set(name, wanted)
        self._store()

    def _set(self, name: str, text: str) -> None:
        """Store only what differs from the row."""
        if (text,) == self.defaults[name] or (not text and not self.defaults[name]):
            self._chosen.pop(name, None)
        else:
            self._chosen[name] = text

    def reset(self, name: str) -> None:
        """Give an action the keys of its row, which any other action loses."""
        self._chosen.pop(name, None)
        for key in self.defaults[name]:
            for other in [i for i, t in self._chosen.items() if overlap(t, key)]:
                self._set(other, "")
        self._store()

    def reset_all(self) -> None:
        """Give every action the keys of its row."""
        self._chosen.clear()
        self._store()

    def _store(self) -> None:
        self._settings.keys = self._chosen
        self._settings.sync()
        self._apply()

    def _apply(self) -> None:
        present = self.present
        for name, keys in present.items():
            self._menus.show_keys(name, keys)
        self._follow(present)
