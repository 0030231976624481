"""Plug-ins: our own decorators and formats, and files that cannot be used."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from model.errors import PassError
from model.formats.base import parse_format
from model.registry import FORMATS, PASSES
from passes.plugins import load_plugin, load_plugins, plugin_folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


OWN = """
    from __future__ import annotations
    from dataclasses import dataclass
    from typing import ClassVar
    from model.formats.integer import Integer
    from model.registry import FORMATS
    from passes.base import Report, analysis

    @dataclass(frozen=True, slots=True)
    class GreetOptions:
        name: str = "you"

    @analysis("greet_plugin_test", "Greet", GreetOptions, instant=True)
    def greet(graph, options, context):
        return graph, Report("greet_plugin_test", (), {"hello": options.name})

    @FORMATS.register("plugin_test_format")
    @dataclass(frozen=True, slots=True)
    class Mine(Integer):
        name: ClassVar[str] = "plugin_test_format"
"""


def test_own_decorators_register(tmp_path: Path) -> None:
    path = write(tmp_path, "own.py", OWN)
    found = load_plugin(path)
    assert found.passes == ("greet_plugin_test",) and found.formats == ("plugin_test_format",)
    assert PASSES.get("greet_plugin_test").options().name == "you"
    assert parse_format("plugin_test_format(width=4)").bits == 4
    assert load_plugin(path) is found  # a second time runs nothing
    assert "plugin_test_format" in FORMATS


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.py", "x = 1", "registers neither"),
        ("raises.py", "x = 1\nraise RuntimeError('no luck')", r"raised RuntimeError: no luck \(line 2 of raises.py\)"),
        ("exits.py", "import sys\nsys.exit(3)", r"raised SystemExit: 3 \(line 2"),
        ("syntax.py", "def f(:\n  pass", "raised SyntaxError"),
        ("taken.py", "def prune(mg, pass_args={}):\n    return mg, {}", "already registered"),
        ("notes.txt", "hello", "not a Python file"),
    ],
)
def test_bad_files_give_one_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        load_plugin(write(tmp_path, name, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PassError, match="There is no plug-in"):
        load_plugin(tmp_path / "gone.py")


def test_the_folder_only_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_PLUGINS", str(tmp_path))
    assert plugin_folder() == tmp_path
    write(tmp_path, "a_bad.py", "1 / 0")
    write(tmp_path, "good.py", "def folder_plugin_test_pass(mg, pass_args={}):\n    return mg, {}")
    told: list[str] = []
    found = load_plugins([], told.append)
    assert [p.passes for p in found] == [("folder_plugin_test_pass",)]
    assert len(told) == 1 and "ZeroDivisionError" in told[0] and "line 1" in told[0]


def test_the_folder_of_the_windows_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PySide6.QtCore import QSettings

    from app.settings import Settings

    monkeypatch.delenv("ESPALIER_PLUGINS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert plugin_folder() == tmp_path / "espalier" / "plugins"
    settings = Settings(QSettings(str(tmp_path / "Espalier" / "Espalier.conf"), QSettings.Format.IniFormat))
    settings.plugin_folder = str(tmp_path / "my plug-ins, mine")
    settings.sync()
    assert plugin_folder() == tmp_path / "my plug-ins, mine"
