"""Files that would fill the memory or never end are refused at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from espalier.model.borders import MOST_DIRECTORY, parse_json, parse_toml
from espalier.model.document.project import load_project, save_project
from espalier.model.errors import Damage, ProjectError
from espalier.model.store.weights import WeightStore
from tests.model.project_cases import make
from tests.patience import PATIENCE, budget

ZEROS = bytes(1 << 20)
DEEP, DIGITS = 100_000, "1" * 100_000
TEXTS = {
    "lists": "[" * DEEP, "closed lists": "[" * DEEP + "]" * DEEP, "tables": '{"a":' * DEEP, "digits": DIGITS,
    "lists of no depth that counts": "[" * 900 + "]" * 900, "values": f"[{'[],' * 3_000_000}1]",
}  # fmt: skip
TOMLS = {
    "lists": "a=" + "[" * DEEP, "tables": "a=" + "{a=" * DEEP, "digits": f"a={DIGITS}", "a key": ".".join("a" * DEEP),
    "a header": f"[{'.'.join('a' * DEEP)}]", "an inner key": f"a={{{'.'.join('a' * DEEP)}=1}}",
    "spaced": f"{' . '.join('a' * DEEP)}=1", "one long word": "a" * DEEP, "quoted": '"' + "a" * DEEP,
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A sound one."""
    save_project(*make("mlp"), tmp_path / "p.espalier")
    return tmp_path / "p.espalier"


def _grown(path: Path, name: str, megabytes: int) -> None:
    """Another member, or the same a second time, of zeros."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w", force_zip64=True) as held:
        for _ in range(megabytes):
            held.write(ZEROS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["graph.json", "reports.json", "studies/a.journal", "sweeps/a.jsonl", "kernels.json"])
def test_a_member_that_unpacks_to_gigabytes_is_refused(name: str, project: Path) -> None:
    _grown(project, name, 600)
    begin = time.process_time()
    with pytest.raises(ProjectError, match=r"decompresses to|unpacks to|more than the project") as caught:
        load_project(project, WeightStore(project.parent))
    assert time.process_time() - begin < budget(1) and caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "text"), [(200_000_000, ""), (2_000_000, "x" * 1_000_000)])
def test_a_small_table_of_many_rows_takes_no_memory(rows: int, text: str, tmp_path: Path) -> None:
    """Of equal values, and of a text that is held once."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, part = tmp_path / "rows.parquet", 1_000_000
    codes = pyarrow.array(np.zeros(part, np.int32))
    column = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array([text])) if text else codes
    with parquet.ParquetWriter(path, pyarrow.schema([("label", column.type)]), compression="zstd") as file:
        for _ in range(rows // part):
            file.write_table(pyarrow.table({"label": column}))
    assert path.stat().st_size < 1 << 20
    words = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    told, seconds, megabytes = done.stdout.split("|")
    assert "unpacks to more than" in told and float(seconds) < budget(2) and float(megabytes) < 200, (
        done.stdout + done.stderr
    )


READ = """
import resource, sys, time
from pathlib import Path
import pandas, pyarrow.parquet
from espalier.model.data.base import LoadOptions
from espalier.model.data.tables import read_table
from espalier.model.errors import DataError
before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    told = len(read_table(Path(sys.argv[1]), LoadOptions()))
except DataError as error:
    told = error
print(told, time.process_time() - begun, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, sep="|")
"""


@pytest.mark.slow
def test_three_gigabytes_of_zeros_take_no_memory(project: Path) -> None:
    _grown(project, "unknown.bin", 1500)
    _grown(project, "studies/a.journal", 1500)
    assert project.stat().st_size < 4 << 20
    code = (
        "import resource, sys, pathlib\n"
        "from espalier.model.document.project import load_project\n"
        "from espalier.model.store.weights import WeightStore\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    load_project(pathlib.Path(sys.argv[1]), WeightStore(pathlib.Path('.')))\n"
        "except Exception as error:\n    print(type(error).__name__, end=' ')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", code, project], cwd=root, capture_output=True, text=True, check=True)
    kind, grown = told.stdout.split()
    assert kind == "ProjectError" and int(grown) < 100 << 10  # kilobytes


@pytest.mark.slow
def test_what_is_unknown_is_copied_packed(project: Path) -> None:
    _grown(project, "later/zeros", 600)
    tracemalloc.start()
    opened = load_project(project, store := WeightStore(project.parent))
    save_project(opened, store, project)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50 << 20
    assert project.stat().st_size < 2 << 20
    with zipfile.ZipFile(project) as archive, archive.open("later/zeros") as held:
        assert archive.getinfo("later/zeros").file_size == 600 << 20 and held.read(1 << 20) == ZEROS
    assert load_project(project, WeightStore(project.parent)).sealed == opened.sealed


def test_a_long_list_of_members_is_not_read(project: Path) -> None:
    with zipfile.ZipFile(project, "a") as archive:
        for number in range(MOST_DIRECTORY // 100):
            archive.writestr(f"{number}/{'x' * 50}", b"")
    begin = time.process_time()
    with pytest.raises(ProjectError, match="too many members"):
        load_project(project, WeightStore(project.parent))
    assert time.process_time() - begin < budget(1)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_without_a_bound_is_refused(method: int, project: Path) -> None:
    with zipfile.ZipFile(project, "a") as archive:
        archive.writestr("studies/a.journal", ZEROS, method)
    with pytest.raises(ProjectError, match="never writes"):
        load_project(project, WeightStore(project.parent))


@pytest.mark.parametrize(("parse", "text"), [*((parse_json, t) for t in TEXTS.values()),
                                             *((parse_toml, t) for t in TOMLS.values())],
                         ids=[*(f"json-{n}" for n in TEXTS), *(f"toml-{n}" for n in TOMLS)])  # fmt: skip
def test_texts_without_end_are_refused_at_once(parse: Callable[[str], object], text: str) -> None:
    begin = time.process_time()
    with pytest.raises((Damage, ValueError, RecursionError)):
        parse(text)
    assert time.process_time() - begin < budget(1)


def test_what_people_write_is_within_the_limits() -> None:
    nested: object = 1
    for _ in range(90):
        nested = [nested]
    assert parse_json(json.dumps(nested)) == nested
    assert parse_toml('a = "1.2.3"\n[b.c.d]\ne.f = [[1.5, 2]]\n') == {
        "a": "1.2.3",
        "b": {"c": {"d": {"e": {"f": [[1.5, 2]]}}}},
    }
