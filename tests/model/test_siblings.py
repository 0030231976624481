"""A factory imports the files beside it, `model.py` too, and nothing of it reaches other loads or ourselves."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import espalier.model.graph.graph as ours
from espalier.model.errors import SourceError
from espalier.model.opening import open_source
from espalier.model.sources.source import load_source
from espalier.model.trust import Origin
from espalier.passes.export.script import script_of
from espalier.passes.verify import verify

ROOT = Path(__file__).parents[2]
FACTORY = """
import torch
from model import Net
import layers.act as act

def make():
    return Net(act.act), {"x": torch.randn(2, 4)}
"""
MODEL = """
from __future__ import annotations
from dataclasses import dataclass
from torch import nn

@dataclass
class Sizes:
    width: int = 4

class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.fc, self.act = nn.Linear(Sizes().width, 4), act

    def forward(self, x):
        from helper import shift
        return shift(self.act(self.fc(x)))
"""


def project(folder: Path, shift: str, factory: str = "net.py") -> str:
    """A project as people write it; `shift` is what its helper adds."""
    (folder / "layers").mkdir(parents=True)
    (folder / factory).write_text(FACTORY)
    (folder / "model.py").write_text(MODEL)
    (folder / "helper.py").write_text(f"def shift(x):\n    return x + {shift}\n")
    (folder / "layers" / "act.py").write_text("from .base import relu as act\n")
    (folder / "layers" / "base.py").write_text("import torch\n\ndef relu(x):\n    return torch.relu(x)\n")
    return f"{folder / factory}:make"


@pytest.mark.parametrize("factory", ["net.py", "main.py", "my net.v2.py"])
def test_a_factory_imports_what_lies_beside_it(factory: str, tmp_path: Path) -> None:
    opened = open_source(project(tmp_path / "a", "1.5", factory), tmp_path / "work", origin=Origin.TYPED)
    found = verify(opened)
    assert not found.faults and found.max_abs_diff == 0.0


def test_two_projects_with_a_model_of_their_own(tmp_path: Path) -> None:
    """Each keeps its files, at forward time too, in whatever order they are loaded and run; ours stay ours."""
    before, path = dict(sys.modules), list(sys.path)
    one, two = (load_source(project(tmp_path / n, n), origin=Origin.TYPED) for n in ("1", "2"))
    x = torch.zeros(1, 4)
    for loaded, least in ((two, 2), (one, 1), (two, 2), (copy.deepcopy(one), 1)):
        with torch.no_grad():
            assert least <= float(loaded.model(x).min()) < least + 1
    assert type(one.model) is not type(two.model)
    assert sys.path == path and sys.modules["espalier.model.graph.graph"] is ours
    known = {n for n in sys.modules if n not in before}
    assert not known & {"helper", "layers", "layers.act", "model"}


def test_an_edited_file_is_read_anew(tmp_path: Path) -> None:
    spec = project(tmp_path, "1")
    before, x = load_source(spec, origin=Origin.TYPED), torch.zeros(1, 4)
    with torch.no_grad():
        assert float(before.model(x).min()) < 3
    (tmp_path / "helper.py").write_text("def shift(x):\n    return x + 3\n")
    with torch.no_grad():
        assert float(load_source(spec, origin=Origin.TYPED).model(x).min()) >= 3 > float(before.model(x).min()) >= 1


def test_the_standard_library_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('a stranger')\n")
    (tmp_path / "torch.py").write_text(FACTORY.replace("from model import Net", "import random").replace(
        "Net(act.act)", "torch.nn.Linear(4, 2)").replace("import layers.act as act", ""))  # fmt: skip
    assert type(load_source(f"{tmp_path / 'torch.py'}:make", origin=Origin.TYPED).model) is torch.nn.Linear


@pytest.mark.parametrize(
    ("line", "told"),
    [("import nowhere", "No module named 'nowhere'"), ("import layers.nowhere", "No module named 'layers.nowhere'"),
     ("from model import Nothing", "Nothing")],
)  # fmt: skip
def test_what_cannot_be_imported_is_told_by_its_own_name(line: str, told: str, tmp_path: Path) -> None:
    spec, count = project(tmp_path, "1"), len(sys.modules)
    (tmp_path / "net.py").write_text(f"{line}\n{FACTORY}")
    with pytest.raises(SourceError) as caught:
        load_source(spec, origin=Origin.TYPED)
    assert told in caught.value.message and "(line 1)" in caught.value.message
    assert not [n for n in list(sys.modules)[count:] if n.startswith("espalier_files")]


@pytest.mark.slow
def test_an_exported_script_runs_beside_a_model_of_the_user(tmp_path: Path) -> None:
    """Its own folder is not where it looks for our packages."""
    opened = open_source(project(tmp_path, "1"), tmp_path / "work", origin=Origin.TYPED)
    (tmp_path / "again.py").write_text(script_of(opened.project, "again.py"))
    done = subprocess.run([sys.executable, "again.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT / "roots"), "PATH": ""}, check=False)  # fmt: skip
    assert done.returncode == 0 and "size_bytes" in done.stdout, done.stderr
