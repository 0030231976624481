"""Our folders are packages of `espalier` alone: files and packages of others with the same names lie beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

# What a person has in their folder: each name is one of our folders' too.
USERS = {
    "model.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = nn.Linear(3, 2)\n\n    def forward(self, x):\n        return self.fc(x)\n",
    "kernels.py": "WIDTH = 3\n",
    "passes.py": "BATCH = 2\n",
    "verilog.py": "",
    "main.py": "raise SystemExit('the user\\'s main.py was run')\n",
    "app/__init__.py": "SEED = 0\n",
    "net.py": "import torch\nfrom app import SEED\nfrom kernels import WIDTH\nfrom model import Net\n"
    "from passes import BATCH\n"
    "\n\ndef make():\n    torch.manual_seed(SEED)\n    return Net(), {'x': torch.randn(BATCH, WIDTH)}\n",
}
# Hugging Face's `kernels`: transformers asks for its version and imports it.
THEIRS = {"kernels/__init__.py": "__version__ = '0.99.0'\ndef get_kernel(*a, **k):\n    raise RuntimeError\n"}
# Each of the names, as a program of the user's in the same interpreter gets it.
SEEN = """
import espalier.kernels, espalier.model.graph.graph
import app, kernels, model, passes
from model import Net
print("SEEN", *(m.__file__ for m in (app, kernels, model, passes)), espalier.kernels.__file__, sep="\\n")
"""


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installation from a wheel puts into site-packages."""
    into = tmp_path_factory.mktemp("wheel")
    copy = into / "source"
    tracked = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, capture_output=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, os.fsdecode(tracked.stdout).split("\0")):
        if not name.startswith("tests/") and (root / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--quiet",
               "--no-compile", "--target", str(into / "site"), str(copy)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return into / "site"


def run(command: list[str], folder: Path, path: list[Path]) -> str:
    """What it prints; `path` comes before site-packages, as an installation's folder would."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"QT_QPA_PLATFORM": "offscreen"}
    own |= {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ways(root: Path, wheel: Path) -> dict[str, tuple[list[str], Path]]:
    """How it is started: from the checkout, by the link that an editable install uses, and from the wheel."""
    return {
        "checkout": ([str(root / "main.py")], root / "roots"),
        "editable": (["-m", "espalier"], root / "roots"),
        "wheel": (["-m", "espalier"], wheel),
    }


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["checkout", "editable", "wheel"])
def test_files_of_the_user_with_our_names(way: str, root: Path, wheel: Path, tmp_path: Path) -> None:
    folder, (start, path) = written(tmp_path / "mine", USERS), ways(root, wheel)[way]
    told = run([sys.executable, *start, "report", "net.py:make", "--json"], folder, [path])
    assert '"fc"' in told and '"linear"' in told
    lines = run([sys.executable, "-c", SEEN], folder, [path]).rpartition("SEEN")[2].strip().splitlines()
    assert [Path(f).is_relative_to(folder) for f in lines] == [True, True, True, True, False]
    assert Path(lines[-1]) == path / "espalier" / "kernels" / "__init__.py"


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["checkout", "editable", "wheel"])
def test_kernels_of_hugging_face(way: str, root: Path, wheel: Path, tmp_path: Path) -> None:
    """Transformers finds theirs, and a BERT opens; ours is there as well."""
    site, (start, path) = written(tmp_path / "site", THEIRS), ways(root, wheel)[way]
    code = (
        "import kernels, espalier.kernels, torch\nfrom transformers import BertConfig, BertModel\n"
        "sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)\n"
        "print(kernels.__version__, BertModel(BertConfig(**sizes))(torch.ones(1, 4, dtype=torch.long))[0].shape)\n"
    )
    assert run([sys.executable, "-c", code], tmp_path, [path, site]).startswith("0.99.0 torch.Size([1, 4, 16])")
    told = run([sys.executable, *start, "report", "demo:reviews", "--json"], tmp_path, [path, site])
    assert '"embedding"' in told


@pytest.mark.slow
def test_the_wheel_holds_everything_and_only_the_namespace(root: Path, wheel: Path) -> None:
    there = {p.name for p in wheel.iterdir() if not p.name.endswith(".dist-info") and p.name != "bin"}
    assert there == {"espalier"}
    for folder in ("app", "model", "passes", "kernels", "verilog", "resources"):
        kept = {p.relative_to(root / folder) for p in (root / folder).rglob("*") if p.is_file() and not skipped(p)}
        packed = {p.relative_to(wheel / "espalier" / folder) for p in (wheel / "espalier" / folder).rglob("*")}
        assert kept - packed == set(), folder
    scripts = (wheel / "bin" / f"espalier{'.exe' if os.name == 'nt' else ''}").read_text()
    assert "espalier.__main__" in scripts


def skipped(path: Path) -> bool:
    """What is made by running."""
    return "__pycache__" in path.parts or path.suffix in {".pyc", ".nbi", ".nbc"}
