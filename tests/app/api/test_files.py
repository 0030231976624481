"""Files, trust and the window from the Python interface."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import espalier as es
from espalier.app.api import showing
from espalier.model.errors import ChangedError, ExportError, SourceError
from espalier.model.trust import TrustError


def test_what_is_saved_opens_without_its_code(m: es.Model, xy: Any, tmp_path: Path) -> None:
    m.quantize("linear", weight="mxint4")
    assert m.save(tmp_path / "net.espalier") == tmp_path / "net.espalier"
    again = es.open(tmp_path / "net.espalier")
    assert again.project.graph == m.project.graph and again.evaluate(xy).loss == m.evaluate(xy).loss
    assert len(again.recipe) == 1 and es.diff(m, again).rows == []
    with pytest.raises(SourceError, match="traced from a Python object"):
        es.open(again.project.source.spec)
    with pytest.raises(ExportError, match="which a script cannot make"):
        m.export("script", tmp_path / "a.py")


def test_a_file_that_another_program_changed_is_not_replaced(m: es.Model, tmp_path: Path) -> None:
    path, theirs = tmp_path / "net.espalier", tmp_path / "theirs.espalier"
    m.copy().prune("linear", sparsity=0.5).save(theirs)
    m.save(path)
    m.quantize("linear", weight="int8").save(path)  # its own file
    m.copy().save(path)
    again = es.open(path)
    os.replace(theirs, path)
    changed = path.read_bytes()
    for model in (m, again):
        with pytest.raises(ChangedError, match=r"net\.espalier was changed by another program") as error:
            model.save(path)
        assert "replace=True" in error.value.hint and path.read_bytes() == changed
        assert not [p for p in tmp_path.iterdir() if p != path], "nothing is left beside it"
    assert m.save(path, replace=True) == path and len(es.open(path).recipe) == 1
    m.undo().save(path)  # known again
    assert len(es.open(path).recipe) == 0
    path.unlink()
    m.save(path)  # nothing is lost where the file is gone
    m.save(tmp_path / "other.espalier")
    assert path.exists()


def test_code_that_a_file_names_does_not_run(tmp_path: Path) -> None:
    code = tmp_path / "net.py"
    code.write_text(
        f"import torch\nfrom pathlib import Path\n\nPath({str(tmp_path / 'ran')!r}).touch()\n\n\ndef make():\n"
        "    return torch.nn.Linear(3, 2), torch.randn(2, 3)\n"
    )
    with pytest.raises(TrustError):
        es.open(f"{code}:make", origin="file")
    assert not (tmp_path / "ran").exists()
    es.open(f"{code}:make")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("module", [7, "net.py", nn.Linear])
def test_what_is_no_module_is_not_traced(module: Any) -> None:
    with pytest.raises(SourceError):
        es.trace(module, torch.zeros(2, 3))


def test_an_example_has_to_be_tensors() -> None:
    with pytest.raises(SourceError, match="The example is int"):
        es.trace(nn.Linear(3, 2), 4)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The commands of processes that would begin."""
    commands: list[list[str]] = []
    monkeypatch.setattr(showing.subprocess, "Popen", lambda words, **_: commands.append(words))
    monkeypatch.setattr(showing, "has_display", lambda: True)
    yield commands
    for words in commands:
        folder = Path(words[-1]).parent
        if folder.name.startswith(showing.PREFIX):
            Path(words[-1]).unlink()
            folder.rmdir()


def test_the_window_opens_on_the_model_as_it_is(m: es.Model, tmp_path: Path, started: list[list[str]]) -> None:
    m.save(tmp_path / "net.espalier")
    m.show()
    assert started[0][1:] == ["-P", "-m", "espalier", str(tmp_path / "net.espalier")]
    m.quantize("linear", weight="int8").show()
    assert started[1][3] == "espalier.app.shell.temporary_project"
    assert es.open(started[1][-1]).project.graph == m.project.graph


def test_no_window_without_a_display(m: es.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    with pytest.raises(es.EspalierError, match="no display"):
        m.show()


@pytest.mark.parametrize("saved", [False, True])
def test_a_copy_goes_with_its_window_unless_it_was_saved(tmp_path: Path, monkeypatch: Any, saved: bool) -> None:
    from espalier.app.shell import temporary_project

    path = tmp_path / "espalier-shown-x" / "net.espalier"
    path.parent.mkdir()
    path.write_bytes(b"a")
    monkeypatch.setattr(temporary_project, "open_window", lambda file: int(saved and Path(file).write_bytes(b"ab")))
    assert temporary_project.show(path) == (2 if saved else 0)
    assert path.exists() is saved


@pytest.mark.slow
def test_a_traced_object_is_written_as_safetensors(m: es.Model, xy: Any, tmp_path: Path) -> None:
    """Without its class: the folder has the graph."""
    from espalier.passes.export.loading import load_folder

    m.quantize("linear", weight="int8")
    m.export("safetensors", tmp_path / "folder")
    assert {f.name for f in (tmp_path / "folder").iterdir()} >= {"model.safetensors", "load.py"}
    x = xy[0][:4]
    names = [n.target for n in m.graph.placeholders]
    with torch.no_grad():
        got, want = (f(**{names[0]: x}) for f in (load_folder(tmp_path / "folder"), m.to_torch()))
    assert torch.equal(*(next(iter(v.values())) if isinstance(v, dict) else v for v in (got, want)))
    with pytest.raises(SourceError, match=r"file\.py:factory"):
        es.open("python:Net")
