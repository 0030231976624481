"""The window in a pseudo language: every text that it shows was looked up, and can be translated."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from espalier.app.translation import is_pattern, places, values_of
from tests.patience import PATIENCE
from tests.test_architecture import module_name, sources
from tests.texts.extract import name_of, texts
from tests.texts.untranslated import untranslated, words
from tests.texts.walk import Shown

ROOT = Path(__file__).resolve().parents[2]
PATH = re.compile(r"[\w-]+(?:\.[\w-]+)+")  # of a tensor

pytestmark = pytest.mark.gui


@cache
def window() -> dict[str, Any]:
    """What the window shows of the demo in the pseudo language, in a process of its own."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": f"{ROOT / 'roots'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.texts.pseudo", "demo:reviews"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=6 * PATIENCE, check=False
    )
    assert done.returncode == 0 and "RESULT" in done.stdout, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.rpartition("RESULT")[2])
    return result


@pytest.mark.slow
def test_every_text_of_the_window_is_looked_up() -> None:
    """But for names, units and keys; what is composed of translated parts holds no other word."""
    found = window()
    shown = {Shown(*t) for there in found["shown"].values() for t in there}
    assert len(shown) > 2500 and len(found["shown"]) > 100
    assert sum("⟦" in t.text for t in shown) > 2000
    cells = {t.text for t in shown if t.part.startswith("cell of ")}
    assert cells >= {"⟦codes⟧", "⟦parameter⟧", "⟦held⟧"}
    wrong = {f"{t.widget} {t.part}: {t.text[:100]!r} {left}" for t, left in untranslated(shown, found["names"])}
    assert not wrong, "\n".join(["", *sorted(wrong)])


@pytest.mark.slow
def test_every_text_that_is_looked_up_is_extracted() -> None:
    """So that it is in the file that translators get; names are looked up too, where a list may hold either."""
    found = window()
    extracted = {t for t, _ in texts()}
    patterns = [p for p in extracted if is_pattern(p)]
    names = {w for n in found["names"] for w in words(n)}

    def is_extracted(text: str) -> bool:
        rest = text.partition(": ")[2]  # `weight width 4: evaluating`
        return text in extracted or any(values_of(p, text) is not None for p in patterns) or rest in extracted

    missing = [
        text for text in found["asked"]
        if "⟦" not in text and not set(words(text.replace(" ", "_"))) <= names
        and not PATH.fullmatch(text) and not is_extracted(text)
    ]  # fmt: skip
    assert len(found["asked"]) > 1800
    assert not missing, "\n".join(["", *missing])


def test_the_search_for_untranslated_texts_finds_them() -> None:
    """The test of the tests: words outside brackets, but no names, units and keys."""

    def left(text: str) -> list[str]:
        return [w for _, words_left in untranslated([Shown(text, "text", "QLabel")], ["fc1"]) for w in words_left]

    assert left("⟦Remove ⟧fc1") == [] == left("2.5 MiB  Ctrl+R") == left("⟦a ⟦b⟧ c⟧")
    assert left("Remove ⟦it⟧") == ["Remove"] and left("⟦size⟧ of fc1") == ["of"]


@pytest.mark.slow
def test_the_extracted_texts_have_valid_places() -> None:
    """A text with values is one of str.format: a translator can keep its places."""
    for (text, plural), found in texts().items():
        if found.place.startswith("app/") and "{}" in text:
            assert places(text) is not None or not plural, f"{found.place}: {text}"
    assert len(texts()) > 5000
    assert any(plural for _, plural in texts())


def test_nouns_with_numbers_are_literals() -> None:
    """A noun that is composed at run time has no forms in a catalogue."""
    calls = [
        (path, node, name_of(node)) for path, tree in sources().items()
        if path.startswith("app/") and "/commands/" not in path and path != "app/number_text.py"
        for node in ast.walk(tree) if isinstance(node, ast.Call)
    ]  # fmt: skip
    found = [(path, node) for path, node, name in calls if name in ("plural", "counted")]
    composed = [f"{path}:{node.lineno}" for path, node in found if not _is_literal(node.args[1])]
    assert len(found) > 100 and not composed, "\n".join(["", *composed])


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_literal(node.body) and _is_literal(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


CHECK = """
import json, sys
import espalier.__main__, espalier.app.shell.starting
from espalier.app.cli import main

class Window:
    def render(self, *_):
        print("RESULT" + json.dumps(sorted(sys.modules)), file=sys.__stdout__)

main(["demo:digits", "--screenshot", "a.png", "--theme", "dark"], Window())
"""


@pytest.mark.slow
def test_no_module_with_translated_constants_is_imported_before_the_language() -> None:
    """Constants are translated as their module is imported."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "roots")}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "RESULT" in done.stdout, done.stderr
    before = set(json.loads(done.stdout.rpartition("RESULT")[2]))
    holding = {module_name(path) for path, tree in sources().items() if _is_translated_at_import(tree)}
    assert len(holding) > 80 and not holding & before


def _is_translated_at_import(tree: Any) -> bool:

    def calls(node: ast.AST) -> bool:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("tr", "translated"):
            return True
        return any(calls(child) for child in ast.iter_child_nodes(node))

    return calls(tree)
