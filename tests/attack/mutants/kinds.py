"""The kinds of files that come from others: sound ones to begin with, and what opens them."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.attack.mutants import journals, models, others, written
from tests.attack.mutants.mutate import damaged

Act = Callable[[Path, Random], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """`sound` writes files, or folders of them, to damage; `act` opens one and uses what it holds.

    `parts`: endings of the files of a folder that are damaged.
    """

    name: str
    sound: Callable[[Path], None]
    act: Act
    parts: tuple[str, ...] = ()

    def mutant(self, seeds: list[Path], folder: Path, rng: Random) -> Path:
        """One damaged copy of a seed, in `folder`."""
        seed = rng.choice(seeds)
        target = folder / seed.name
        if seed.is_file():
            target.write_bytes(damaged(seed.read_bytes(), seed.suffix, rng))
            return target
        shutil.copytree(seed, target)
        files = sorted(p for p in target.rglob("*") if p.is_file() and (not self.parts or p.suffix in self.parts))
        file = rng.choice(files)
        if rng.random() < 0.03:
            file.unlink()
        else:
            file.write_bytes(damaged(file.read_bytes(), file.suffix, rng))
        return target


KINDS: dict[str, Kind] = {k.name: k for k in (
    Kind("projects", models.projects, models.open_project),
    Kind("packed", models.packed, models.open_model),
    Kind("folders", models.folders, models.open_folder, (".json", ".safetensors")),
    Kind("adapters", models.adapters, models.load_adapter, (".json", ".safetensors")),
    Kind("pt2", models.programs, models.open_program),
    Kind("recipes", written.recipes, written.run_recipe),
    Kind("searches", written.searches, written.prepare),
    Kind("sweeps", written.sweeps, written.points),
    Kind("study-records", journals.records, journals.read_record),
    Kind("study-journals", journals.journals, journals.read_journal),
    Kind("sweep-journals", journals.sweep_journals, journals.read_sweep),
    Kind("kernel-results", others.results, others.compare),
    Kind("tables", others.tables, others.read_table),
    Kind("plug-ins", others.plugins, others.load_plugin),
    Kind("formats", others.formats, others.parse_format),
)}  # fmt: skip


def prepared(kind: Kind, folder: Path) -> list[Path]:
    """Sound files of a kind; each opens."""
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.sound(folder)
    return sorted(folder.iterdir())


def known(names: Iterable[str]) -> list[Kind]:
    """Kinds by name; all where none is named."""
    return [KINDS[n] for n in names] or list(KINDS.values())
