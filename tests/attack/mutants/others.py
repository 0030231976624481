"""Results of kernels, tables of data, plug-ins, and the texts of formats."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from random import Random

from tests.attack.mutants.calling import command
from tests.attack.mutants.mutate import DEEP, NUMBERS, of_bytes

# -- results, tables, plug-ins, formats


def results(folder: Path) -> None:
    from espalier.kernels.bench.ceilings import Ceilings
    from espalier.kernels.bench.results import Results, Row, save

    rows = tuple(Row("softmax", v, "cpu", "float32", {"m": 64 * n, "n": 128}, 1e-3 * n, 9e-4, 8e-4, 0.02, 0.5, 20,
                     1000, 2000, 1500, 1.5, "torch", 1e-7, 1e-8, True, 0.4)
                 for v in ("torch", "triton") for n in (1, 2))  # fmt: skip
    none = Row("softmax", "triton", "cpu", "float32", {"m": 1, "n": 1}, problem="no device", others=0.2)
    for name in ("a", "b"):
        machine = {"name": f"machine {name}", "device": "cpu", "cores": 2}
        results = Results(machine, "2026-11-25", Ceilings("cpu", 20.0, {"float32": 0.5}), (*rows, none), {"seed": 0})
        save(results, folder / f"{name}.json")


def compare(path: Path, rng: Random) -> None:
    other = path.with_name("other.json")
    seeds: list[Path] = []
    if not other.exists():
        with tempfile.TemporaryDirectory() as folder:
            results(Path(folder))
            shutil.copyfile(Path(folder) / "b.json", other)
        seeds.append(other)
    command("kernels", "--compare", path)
    command("kernels", "--compare", path, other)


ROWS = [(f"the film number {n} was {w}", c) for n, (w, c) in enumerate([("good", "yes"), ("bad", "no")] * 8)]


def tables(folder: Path) -> None:
    import pandas

    lines = [("text", "label"), *ROWS]
    (folder / "a.csv").write_text("".join(f'"{t}",{c}\n' for t, c in lines))
    (folder / "b.tsv").write_text("".join(f"{t}\t{c}\n" for t, c in lines))
    (folder / "c.json").write_text(json.dumps([{"text": t, "label": c} for t, c in ROWS]))
    (folder / "d.jsonl").write_text("".join(json.dumps({"text": t, "label": c}) + "\n" for t, c in ROWS))
    pandas.DataFrame(ROWS, columns=["text", "label"]).to_parquet(folder / "e.parquet")
    (folder / "f.csv").write_text("".join(f"{t};{c}\n" for t, c in lines))


def read_table(path: Path, rng: Random) -> None:
    from espalier.model.data.base import LoadOptions
    from espalier.model.data.local import find
    from espalier.model.data.preview import preview
    from espalier.model.data.tables import read_rows
    from espalier.model.errors import EspalierError

    with contextlib.suppress(EspalierError):
        preview(str(path))
    find(path)
    read_rows(path, LoadOptions())


PLUGIN = '''
"""A plug-in: a pass, a labs' pass and a format."""
from dataclasses import dataclass
from espalier.model.formats.base import Format
from espalier.model.registry import FORMATS
from espalier.passes.base import Report, transform


@dataclass(frozen=True, slots=True)
class Options:
    level: float = 0.5


@transform("halves", "Halves.", Options)
def halves(graph, options, context):
    return graph, Report("halves")


def mine_pass(mg, pass_args={}):
    return mg, {}
'''


def plugins(folder: Path) -> None:
    from tests.passes import test_plugins

    (folder / "plain.py").write_text("def mine_pass(mg, pass_args={}):\n    return mg, {}\n")
    (folder / "typed.py").write_text(PLUGIN)
    _ = test_plugins


def load_plugin(path: Path, rng: Random) -> None:
    from espalier.passes.plugins.plugins import load_plugin, unload_plugins

    try:
        load_plugin(path)
    finally:
        unload_plugins()


def formats(folder: Path) -> None:
    from espalier.model.registry import FORMATS

    texts = [str(cls()) for _, cls in FORMATS.items()]
    (folder / "formats.txt").write_text("\n".join(texts))


def parse_format(path: Path, rng: Random) -> None:
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    text = _spoiled(rng.choice(lines), rng).replace("\0", "")
    command("formats", f" {text}" if text.startswith("-") else text)


def _spoiled(text: str, rng: Random) -> str:
    import re

    numbers = list(re.finditer(r"-?\d+", text))
    match rng.randrange(6):
        case 0 | 1 if numbers:
            place = rng.choice(numbers)
            value = rng.choice((*NUMBERS, "1000", "65", "-3", "1000000", "None", "true", "2.5", "33"))
            return text[: place.start()] + value + text[place.end() :]
        case 2:
            return text.replace(")", f", {rng.choice(('x=1', 'width=4', 'scale=(', '=', '1'))})")
        case 3:
            return text + "(" * rng.choice(DEEP)
        case 4:
            return of_bytes(text.encode(), rng).decode("utf-8", "replace")
        case _:
            return text
