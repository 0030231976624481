"""kill -9 at random moments of an export onto an earlier one: its target is the old or the new one, whole.

python -m tests.attack.kills --kinds compressed-tensors,torchao,gguf,openvino,executorch,pruned
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from espalier.model.filled import INTERRUPTED
from tests.attack.kills import Kind, Run, begin
from tests.passes.export.models import made

MLP, GROUP = "demo:digits-mlp", "scaled_integer(width={}, granularity=group, group=32{})"
HALF = ", scale_dtype=float16"
QUANTISE = """
[[steps]]
pass = "quantize"
[[steps.options.rules]]
select = {{by = "type", values = ["linear"]}}
formats = {{weight = "{}"}}
"""
PRUNE = """
[[steps]]
pass = "prune_structured"
options = {{what = "neurons", ratio = {}, select = {{by = "regex", values = ["layers[._]0[._]"]}}}}
[[steps]]
pass = "remove_pruned"
"""
# Form: (source, recipes of the old and the new export, package that it needs).
FORMS: dict[str, tuple[str, tuple[str, str], str]] = {
    "compressed-tensors": ("llama", (QUANTISE.format("scaled_integer(width=8)"), QUANTISE.format(GROUP.format(4, ""))),
                           "compressed_tensors"),
    "torchao": ("llama", (QUANTISE.format("scaled_integer(width=8)"), QUANTISE.format(GROUP.format(4, ""))), "torchao"),
    "gguf": ("llama", (QUANTISE.format(GROUP.format(8, HALF)), QUANTISE.format(GROUP.format(4, HALF))), "gguf"),
    "openvino": (MLP, (QUANTISE.format("scaled_integer(width=8)"), QUANTISE.format("scaled_integer(width=4)")),
                 "openvino"),
    "executorch": (MLP, (QUANTISE.format("scaled_integer(width=8)"), QUANTISE.format(GROUP.format(4, ""))),
                   "executorch"),
    "pruned": ("llama", (PRUNE.format(0.25), PRUNE.format(0.5)), ""),
}  # fmt: skip
FILES = {"gguf": "m.gguf", "openvino": "m.xml", "executorch": "m.pte"}  # of the forms that are no folder


class Export(Kind):
    """`export` of a second project to the place of a first one, where a file of somebody else lies, too."""

    def __init__(self, folder: Path, form: str) -> None:
        super().__init__(folder)
        self.name, self.form = form, "safetensors" if form == "pruned" else form
        self.made = folder.with_name(f"{folder.name}-made")
        self.out, self.digests = folder / "out", dict[str, str]()

    @property
    def target(self) -> Path:
        """The folder, or the file."""
        return self.out / FILES.get(self.name, "")

    def words(self) -> list[str]:
        return self._export("b")

    def _export(self, name: str) -> list[str]:
        return ["export", str(self.made / f"{name}.espalier"), "--as", self.form, "-o", str(self.target)]

    def renew(self) -> None:
        super().renew()
        if not self.made.exists():
            self._make()
        shutil.copytree(self.made / "a", self.out)

    def _make(self) -> None:
        """Both projects, and what an unbroken export makes of each."""
        self.made.mkdir(parents=True)
        source, recipes, _ = FORMS[self.name]
        spec = source if ":" in source else str(made(source, self.made / "source", num_hidden_layers=2))
        for name, recipe in zip("ab", recipes, strict=True):
            (self.made / f"{name}.toml").write_text(recipe)
            self._run(["run", spec, str(self.made / f"{name}.toml"), "-o", str(self.made / f"{name}.espalier")])
            self.out.mkdir()
            (self.out / "notes.txt").write_text("mine")
            self._run(self._export(name))
            self.digests[name] = digest(self.out)
            self.out.rename(self.made / name)
        assert self.digests["a"] != self.digests["b"]

    def _run(self, words: list[str]) -> None:
        run = begin(words, self.folder)
        finish(run)
        assert run.code == 0, run.said()[-2000:]

    def stored(self) -> int:
        """1 where the new export is in place. Raises where it is neither that nor the old one."""
        state, names = digest(self.out), {digest_: name for name, digest_ in self.digests.items()}
        if self.target.is_file() and self.target.read_bytes() == INTERRUPTED:
            return self.known
        assert state in names, f"a mixture: {sorted(p.name for p in self.out.iterdir())}"
        return int(names[state] == "b")

    def at_once(self) -> list[str]:
        """Both exports begin together: the target is one of them, whole."""
        self.renew()
        places = [self.folder / f"at-once-{name}" for name in "ab"]
        for place in places:
            place.mkdir()
        runs = [begin(self._export(name), place) for name, place in zip("ab", places, strict=True)]
        for run in runs:
            finish(run)
        self.known = 0
        (self.folder / "tmp").mkdir(exist_ok=True)
        found = [f"at once: exit {run.code}: {run.said()[-300:]}" for run in runs if run.code]
        if digest(self.out) not in self.digests.values():
            found.append(f"at once: a mixture: {sorted(p.name for p in self.out.iterdir())}")
        return found + self.left()

    def told(self, said: str) -> int:
        return 0

    def result(self) -> str:
        return digest(self.out)


def finish(run: Run) -> None:
    """Wait until a command has come to its end."""
    while not run.ended():
        time.sleep(0.01)


def digest(folder: Path) -> str:
    """Of the names and contents of all files, but those of a write that was ended."""
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and ".espalier-" not in str(p)):
        found.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _kind(form: str) -> Callable[[Path], Kind]:
    return lambda folder: Export(folder, form)


def available(form: str) -> bool:
    """Whether the package of a form is installed."""
    package = FORMS[form][2]
    return not package or importlib.util.find_spec(package) is not None


EXPORTS: dict[str, Any] = {form: _kind(form) for form in FORMS if available(form)}
