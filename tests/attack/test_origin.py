"""Code that a file names does not run before the user allows that very code; data of the same file opens."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from espalier.app.cli import main
from espalier.model.document.project import save_project
from espalier.model.errors import EspalierError
from espalier.model.opening import open_any
from espalier.model.trust import NAMED, SESSION, Origin, TrustError, decide, digest, refused, wanted_code

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., int]
MODEL = """
import torch
from pathlib import Path
Path({marker!r}).write_text("ran")

class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 1e9:  # no graph has this: the model is recorded, and runs only with its code
            return x
        return self.fc(x).relu()

def odd():
    return Odd(), {{"x": torch.randn(2, 4)}}

def plain():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), {{"input": torch.randn(2, 4)}}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own; nothing allowed yet, as in a new process."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ESPALIER_NO_CACHE", "1")
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr("espalier.model.trust._typed", set())
    return tmp_path / "state"


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What the code writes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def code(tmp_path: Path, marker: Path) -> Path:
    """A stranger's file."""
    (tmp_path / "far").mkdir()
    file = tmp_path / "far" / "net.py"
    file.write_text(MODEL.format(marker=str(marker)))
    return file


def mailed(code: Path, name: str, folder: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose source is a function of that file, as another person's process wrote it."""
    opened = open_any(f"{code}:{name}", folder / "work", origin=Origin.TYPED)
    path = folder / f"{name}.espalier"
    save_project(opened.project, opened.store, path, everything=True)
    marker.unlink()
    monkeypatch.setattr("espalier.model.trust._typed", set())
    return path


@pytest.mark.parametrize("words", [["report"], ["run", "{recipe}"], ["export", "--as", "script", "-o", "{out}"],
                                   ["export", "--as", "safetensors", "-o", "{out}"], ["emit", "-o", "{out}"],
                                   ["evaluate", "--data", "{data}"], ["trace"]])  # fmt: skip
@pytest.mark.parametrize("name", ["odd", "plain"])
def test_no_command_runs_what_a_project_names(
    name: str, words: list[str], code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mailed(code, name, tmp_path, marker, monkeypatch)
    recipe, data = tmp_path / "r.toml", tmp_path / "d.csv"
    recipe.write_text('[[steps]]\npass = "quantize"\n')
    data.write_text("text,label\na,0\nb,1\n")
    places = {"recipe": recipe, "out": tmp_path / "out", "data": data}
    main([words[0], str(path), *(w.format(**places) for w in words[1:])])
    assert not marker.exists()


def test_a_project_that_needs_its_code_says_how_to_allow_it(
    code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = mailed(code, "odd", tmp_path, marker, monkeypatch), tmp_path / "d.csv"
    data.write_text("x,label\n")
    recipe = tmp_path / "r.toml"
    recipe.write_text('[[steps]]\npass = "calibrate"\noptions = {data = "demo:digits"}\n')
    words = ["report", str(path), "--what", "profile"]
    assert main(words) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 2 and "names code: odd" in told[0] and told[1].endswith(f"--trust {code}.")
    assert not marker.exists()
    moved = code.rename(code.with_name("elsewhere.py"))
    assert main([*words, "--trust", str(moved)]) == 2
    assert f"There is no file '{code}'" in capsys.readouterr().err
    moved.rename(code)
    assert main([*words, "--trust", str(code)]) == 0 and marker.exists()


def test_a_recipe_takes_no_weights_from_code(
    code: Path, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'[[steps]]\npass = "take_weights"\noptions = {{source = "{code}:plain"}}\n')
    assert main(["run", "demo:digits-mlp", str(recipe)]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 2 and "names code" in told[0] and f"--trust {code}" in told[1]
    assert not marker.exists()
    main(["run", "demo:digits-mlp", str(recipe), "--trust", str(code)])
    assert marker.exists()


def test_typed_code_runs_and_its_project_asks(
    code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mailed(code, "odd", tmp_path, marker, monkeypatch)
    opened = open_any(str(path), tmp_path / "again")  # with its stored graph
    assert opened.project.graph and wanted_code(opened.project.source.spec) == code
    with pytest.raises(TrustError, match="names code"):
        open_any(opened.project.source.spec, tmp_path / "third")
    assert not marker.exists()
    monkeypatch.setenv(NAMED, os.pathsep.join(["/nowhere.py", str(code)]))
    assert open_any(opened.project.source.spec, tmp_path / "fourth").callables
    assert marker.exists()


def test_decisions_are_of_the_content(code: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"{code}:plain"
    decide(code, "always")
    assert wanted_code(spec) is None
    assert stat.S_IMODE((state / "trusted.json").stat().st_mode) == 0o600
    for name in ("helper.py", "more/inner.py", "helper.pyc", "native.so"):  # what it may import counts too
        (code.parent / name).parent.mkdir(exist_ok=True)
        (code.parent / name).write_text("x = 1\n")
        assert wanted_code(spec) == code
        decide(code, "always")
    (state.parent / "outside").mkdir()
    (state.parent / "outside" / "mod.py").write_text("")
    (code.parent / "linked").symlink_to(state.parent / "outside")
    decide(code, "always")
    (state.parent / "outside" / "mod.py").write_text("y = 1\n")
    assert wanted_code(spec) == code
    decide(code, "never")
    assert wanted_code(spec) == code and refused(code)
    monkeypatch.setenv(SESSION, "window-1")
    decide(code, "once")
    assert wanted_code(spec) is None
    code.write_text(code.read_text() + "\n# edited in the same session\n")
    assert wanted_code(spec) is None
    monkeypatch.setenv(SESSION, "window-2")
    assert wanted_code(spec) == code
    decide(code, "never")
    monkeypatch.setenv(SESSION, "window-1")  # what another window was told stays
    assert wanted_code(spec) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', "null", "[" * 100_000, '{"": "always"}'])
def test_a_damaged_file_of_decisions_allows_nothing(text: str, code: Path, state: Path) -> None:
    state.mkdir()
    (state / "trusted.json").write_text(text)
    assert wanted_code(f"{code}:plain") == code


def test_a_file_that_others_may_write_allows_nothing(code: Path, state: Path) -> None:
    decide(code, "always")
    assert wanted_code(f"{code}:plain") is None
    (state / "trusted.json").chmod(0o666)
    assert wanted_code(f"{code}:plain") == code


def test_too_much_code_is_not_remembered(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.model.trust.MOST_FILES", 1)
    (code.parent / "more.py").write_text("")
    assert digest(code) == ""
    monkeypatch.setenv(SESSION, "w")
    decide(code, "always")
    assert wanted_code(f"{code}:plain") is None
    monkeypatch.setenv(SESSION, "v")
    assert wanted_code(f"{code}:plain") == code


def test_a_script_of_a_strangers_project_does_not_trust_it(
    code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = mailed(code, "plain", tmp_path, marker, monkeypatch)
    script = tmp_path / "s.py"
    words = ["export", str(path), "--as", "script", "-o", str(script)]
    assert main(words) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note:")]
    assert len(told) == 1 and told[0].endswith(f"--trust {code}.")
    assert 'origin="file"' in script.read_text() and not marker.exists()
    assert main([*words, "--trust", str(code)]) == 0
    assert 'origin="typed"' in script.read_text() and not marker.exists()
    assert "note:" not in capsys.readouterr().out


@pytest.mark.slow
def test_an_exported_script_runs_a_projects_code_only_if_it_is_named(
    code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = mailed(code, "plain", tmp_path, marker, monkeypatch)
    assert main(["export", str(path), "--as", "script", "-o", str(tmp_path / "s.py")]) == 0

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        paths = {"PYTHONPATH": str(ROOT / "roots"), "PATH": "", "ESPALIER_STATE": str(tmp_path / "state")}
        return subprocess.run([sys.executable, "s.py", *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**paths, "ESPALIER_NO_CACHE": "1"}, check=False)  # fmt: skip

    refused_ = run()
    assert refused_.returncode == 1 and not marker.exists()
    assert "Traceback" not in refused_.stderr
    assert refused_.stderr.splitlines()[-1].endswith(f"--trust {code}.")
    allowed = run("--trust", str(code))
    assert allowed.returncode == 0 and marker.exists() and "size_bytes" in allowed.stdout, allowed.stderr


def test_a_project_is_no_archive_of_code(
    code: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that the format does not know are bytes."""
    path = mailed(code, "plain", tmp_path, marker, monkeypatch)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("model.py", code.read_text())
        archive.writestr("sitecustomize.py", code.read_text())
    open_any(str(path), tmp_path / "again")
    assert not marker.exists()


def test_what_lies_there_is_no_function_of_the_file_beside_it(code: Path, marker: Path) -> None:
    """A folder whose name reads as code; that code was never named."""
    folder = code.with_name("net.py:plain")
    folder.mkdir()
    with pytest.raises(EspalierError):
        open_any(str(folder), folder / "work", origin=Origin.TYPED)
    assert not marker.exists() and wanted_code(str(folder)) is None
