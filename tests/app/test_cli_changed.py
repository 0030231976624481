"""A project that another program has changed since a command opened it is not replaced by that command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.app.commands import opening
from espalier.model.document.project import Project
from espalier.model.opening import Opened, open_any
from espalier.model.trust import Origin

RECIPE = '[[steps]]\npass = "prune"\noptions = {sparsity = 0.5}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "two.espalier"
    assert main(["trace", "demo:digits-mlp", "-o", str(path)]) == 0
    (tmp_path / "r.toml").write_text(RECIPE)
    return path


def steps(path: Path, folder: Path) -> int:
    found: Project = open_any(str(path), folder, origin=Origin.TYPED).project
    return len(found.recipe.steps)


def test_what_another_program_saved_meanwhile_stays(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs on one file: the later would undo the earlier without a word."""
    recipe, theirs = str(tmp_path / "r.toml"), tmp_path / "theirs.espalier"
    assert main(["run", str(project), recipe, "-o", str(theirs)]) == 0
    monkeypatch.chdir(tmp_path)
    real = opening.open_any

    def beside(spec: str, *args: object, **more: object) -> Opened:
        found = real(spec, *args, **more)  # type: ignore[arg-type]
        shutil.copyfile(theirs, tmp_path / "part")
        (tmp_path / "part").replace(project)
        return found

    monkeypatch.setattr(opening, "open_any", beside)
    saved = project.read_bytes()
    capsys.readouterr()
    assert main(["run", str(project), recipe, "-o", "two.espalier"]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-2:]
    assert "two.espalier was changed by another program" in told[0] and "two-2.espalier" in told[1]
    assert project.read_bytes() == theirs.read_bytes() != saved
    assert main(["run", str(project), recipe, "-o", "other.espalier"]) == 0
    monkeypatch.undo()
    files = (project, tmp_path / "other.espalier", tmp_path / "two-2.espalier")
    assert [steps(file, tmp_path / file.stem) for file in files] == [1, 2, 1]


def test_a_command_replaces_the_project_that_it_opened(project: Path, tmp_path: Path) -> None:
    words = ["run", str(project), str(tmp_path / "r.toml"), "-o", str(project)]
    assert main(words) == main(words) == 0
    assert steps(project, tmp_path / "work") == 2


def test_a_result_whose_folder_is_gone_is_kept_elsewhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A training may have taken hours: what it made is not thrown away, and the error says where it is."""
    state, out, real = tmp_path / "state", tmp_path / "out", opening.open_any
    monkeypatch.setenv("ESPALIER_STATE", str(state))

    def meanwhile(spec: str, *args: object, **more: object) -> Opened:
        shutil.rmtree(out)
        return real(spec, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "open_any", meanwhile)
    names = []
    for state_works in (True, True, False):
        out.mkdir()
        if not state_works:
            shutil.rmtree(state)
            state.write_text("no folder")
        capsys.readouterr()
        assert main(["run", str(project), str(tmp_path / "r.toml"), "-o", str(out / "two.espalier")]) == 2
        told = capsys.readouterr().err
        assert f"{out / 'two.espalier'} could not be written" in told
        names.append(told.partition("The result is in ")[2].strip().removesuffix("."))
    monkeypatch.undo()
    assert [Path(n).name for n in names] == ["two.espalier", "two-2.espalier", ""] and not out.exists()


def test_the_result_that_is_kept_elsewhere_opens(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    assert main(["run", str(project), str(tmp_path / "r.toml"), "-o", str(tmp_path / ("x" * 250 + ".espalier"))]) == 2
    told = capsys.readouterr().err
    assert "The result is in" not in told, "the name is too long there as well"
    (tmp_path / "file").write_text("no folder")
    assert main(["run", str(project), str(tmp_path / "r.toml"), "-o", str(tmp_path / "file" / "two.espalier")]) == 2
    kept = Path(capsys.readouterr().err.partition("The result is in ")[2].strip().removesuffix("."))
    assert steps(kept, tmp_path / "work") == 1
