"""Without torchao, or with an old one, the export says what to install."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import espalier as es
from espalier.model.errors import ExportError, SourceError
from espalier.model.sources.torchao import check_settings
from espalier.passes.export.checking.check import ready
from espalier.passes.export.torchao import folder


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = es.open("demo:digits-mlp")
    m.quantize("linear", weight="int8")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExportError, match="torchao, which is not installed") as found:
        m.export("torchao", tmp_path / "out")
    assert "espalier[torchao]" in found.value.hint and not list(tmp_path.iterdir())
    with pytest.raises(ExportError, match="needs torchao, which is not installed"):
        ready("torchao")
    with pytest.raises(SourceError, match="torchao, which is not installed"):
        check_settings({"quant_method": "torchao", "quant_type": {}})


def test_an_old_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(folder, "version", lambda name: "0.9.0+cpu")
    with pytest.raises(ExportError, match=r"needs torchao 0\.18, and 0\.9\.0\+cpu is installed"):
        folder.check_package()
    monkeypatch.setattr(folder, "version", lambda name: "0.18.0")
    folder.check_package()
