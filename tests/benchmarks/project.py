"""Save and open a project with all of BERT-base's weights, against writing and mapping the same bytes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.document.project import load_project, save_project
from espalier.model.opening import open_source
from espalier.model.store.weights import WeightStore
from tests.benchmarks.record import ratio, report


def write_plain(path: Path, arrays: list[np.ndarray[Any, Any]]) -> float:
    """Seconds to write the arrays beside an old file, with fsync, and to put them in its place, as a save must."""
    start = time.perf_counter()
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for array in arrays:
            file.write(array.data if array.ndim else array.tobytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    return time.perf_counter() - start


def main() -> None:
    """Nine rounds in turn; the fastest of each is reported, for others use the disk too."""
    folder = Path(tempfile.mkdtemp())
    opened = open_source("config:bert?task=sequence-classification", folder)
    store = opened.store
    keys = {w.key for w in opened.project.base.weights.values() if w.key}
    arrays = [store.get(k).array for k in sorted(keys)]
    size, rounds = sum(a.nbytes for a in arrays), []
    for _ in range(9):
        reference = write_plain(folder / "plain.bin", arrays)
        start = time.perf_counter()
        save_project(opened.project, store, folder / "p.espalier", everything=True)
        saved = time.perf_counter() - start
        start = time.perf_counter()
        load_project(folder / "p.espalier", WeightStore(folder))
        rounds.append((saved, reference, time.perf_counter() - start))
    saved, reference, opening = (min(r[i] for r in rounds) for i in range(3))
    file = (folder / "p.espalier").stat().st_size
    report("project", {"weights_bytes": size, "file_ratio": round(file / size, 4), "target_file": 1.02,
                       "save": ratio(saved, reference, 1.5), "open_lazily_seconds": round(opening, 3),
                       "target_open": 0.3})  # fmt: skip


if __name__ == "__main__":
    main()
