"""What a malicious file is, and the sound seeds that the malicious ones begin as."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from tests.attack.pt2_files import Touch

Json = dict[str, Any]
Role = Literal["model", "recipe", "data", "other"]


@dataclass(frozen=True, slots=True)
class Stranger:
    """A malicious file or folder; `role`: what the window and a worker take it for; `words`: a command that reads it.

    `cwd`: the folder to open it from, where that matters.
    """

    path: Path
    role: Role = "model"
    words: tuple[str, ...] = ()
    cwd: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a malicious file is made: its own folder, the marker of its payload, the folder of sound seeds."""

    folder: Path
    marker: Path
    seeds: Path

    @property
    def payload(self) -> str:
        """Python that writes the marker."""
        return f"open({str(self.marker)!r}, 'w').close()"

    @property
    def system(self) -> str:
        """The same as an expression."""
        return f"__import__('os').system('touch {self.marker}')"

    def code(self, name: str = "evil.py") -> Path:
        """A Python file that is a model, a pass and a data set in one."""
        file = self.folder / name
        body = ("import torch\n\ndef make():\n    return torch.nn.Linear(4, 4), {'input': torch.randn(2, 4)}\n"
                "def evil_pass(mg, pass_args={}):\n    return mg, {}\n")  # fmt: skip
        file.write_text(f"{self.payload}\n{body}")
        return file

    def touch(self) -> Touch:
        """An object that writes the marker when it is unpickled."""
        return Touch(self.marker)

    def pickled(self, name: str, value: Any = None) -> Path:
        """A file of torch's with a pickle that runs."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        torch.save({"bert.pooler.dense.weight": self.touch()} if value is None else value, self.folder / name)
        return self.folder / name

    def raw_pickle(self) -> bytes:
        """Bare bytes of such a pickle."""
        return pickle.dumps(self.touch())

    def write(self, name: str, content: str | bytes | Json) -> Path:
        """A file of the attack; tables as JSON."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content) if isinstance(content, dict) else content
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def copied(self, seed: str, name: str = "") -> Path:
        """A sound seed, to be changed."""
        target = self.folder / (name or seed)
        (shutil.copytree if (self.seeds / seed).is_dir() else shutil.copyfile)(self.seeds / seed, target)
        return target

    def project(self, change: Callable[[dict[str, Any]], None], name: str = "p.espalier") -> Path:
        """The sound project with other JSON in its members; `change` gets {member: JSON}, or bytes of new ones."""
        target = self.folder / name
        with zipfile.ZipFile(self.seeds / "sound.espalier") as archive:
            held = {n: archive.read(n) for n in archive.namelist()}
        told: dict[str, Any] = {n: json.loads(d) for n, d in held.items() if n.endswith(".json")}
        change(told)
        with zipfile.ZipFile(target, "w") as archive:
            for member, data in {**held, **told}.items():
                archive.writestr(member, data if isinstance(data, str | bytes) else json.dumps(data))
        return target


def node(told: dict[str, Any], name: str = "act") -> Json:
    """A node of the project's base graph, where the present one is the same."""
    told["graph.json"].pop("graph", None)
    return told["graph.json"]["base"]["nodes"][name]


def hugging(place: Place, **entries: Any) -> Path:
    """A sound folder with other entries in its configuration."""
    folder = place.copied("bert", "model")
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))
    return folder


def seeds(folder: Path) -> None:
    """A small project, a Hugging Face folder with a tokenizer, an adapter, a torch program, a packed file."""
    from dataclasses import replace

    from espalier.model.document.project import save_project
    from espalier.model.document.recipe import Recipe
    from espalier.model.sources.demos import RESOURCES
    from tests.attack.mutants import journals, models, others
    from tests.model.project_cases import make

    folder.mkdir(parents=True, exist_ok=True)
    project, store = make("mlp")
    project = replace(
        project, recipe=Recipe(project.recipe.steps[:2]), source=replace(project.source, spec="/no/x.pt2")
    )
    save_project(project, store, folder / "sound.espalier")
    for make_seed in (models.folders, models.adapters, models.programs, models.packed, journals.journals,
                      journals.sweep_journals, journals.records, others.results):  # fmt: skip
        (folder / "some").mkdir(exist_ok=True)
        make_seed(folder / "some")
        for made in (folder / "some").iterdir():
            if made.is_dir() and (folder / made.name).exists():
                made = made.rename(made.with_name(f"adapter-{made.name}"))
            made.rename(folder / made.name)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (RESOURCES / "reviews" / name).exists():
            shutil.copyfile(RESOURCES / "reviews" / name, folder / "bert" / name)


def buffer(value: Any) -> bytes:
    """As torch saves it."""
    held = io.BytesIO()
    torch.save(value, held)
    return held.getvalue()
