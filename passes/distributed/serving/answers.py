"""The answered batches of a served model, in a file that a killed process leaves readable, so that none is lost."""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from torch import Tensor

ANSWERS = "answers.jsonl"
KEPT = 64 << 20  # bytes of results that each start keeps for the comparison, at least those of one batch
TAIL = 400  # bytes that hold the last line


@dataclass(frozen=True, slots=True)
class Answer:
    """A batch: requests `first` … `first` + `count`, the times at which it was begun and answered."""

    first: int
    count: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Start:
    """A start of the ranks. `ready`: the time from which they answer; `answered`: requests before it."""

    restart: int
    ready: float
    answered: int


class Batches(Sequence[Answer]):
    """Answered batches in order, in 32 bytes each, since there can be a million."""

    def __init__(self) -> None:
        self.firsts, self.counts, self.begins, self.ends = array("q"), array("q"), array("d"), array("d")

    def append(self, batch: Answer) -> None:
        """Add a batch."""
        for column, value in zip((self.firsts, self.counts), (batch.first, batch.count), strict=True):
            column.append(value)
        self.begins.append(batch.begin)
        self.ends.append(batch.end)

    def __len__(self) -> int:
        return len(self.firsts)

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...

    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Answer(self.firsts[index], self.counts[index], self.begins[index], self.ends[index])


class Answers:
    """What was answered so far, and in which starts. Times are those of the machine's monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.starts = list[Start]()
        self.batches = Batches()
        self._kept, self._size = 0, 0
        for line in _complete(folder / ANSWERS):
            data = json.loads(line)
            if "ready" in data:
                self.starts.append(Start(**data, answered=self.answered))
            else:
                self.batches.append(Answer(**data))
            self._size += len(line)

    @property
    def answered(self) -> int:
        """Number of answered requests; they are the first ones."""
        return self.batches[-1].first + self.batches[-1].count if self.batches else 0

    @property
    def begin(self) -> float:
        """The time from which requests arrive."""
        return self.starts[0].ready

    @property
    def last(self) -> float:
        """The time of the last answer, before it that of the begin."""
        return self.batches[-1].end if self.batches else self.begin

    def start(self, restart: int = 0) -> None:
        """Begin, or go on, to answer."""
        self.folder.mkdir(exist_ok=True)
        if (path := self.folder / ANSWERS).exists():
            os.truncate(path, self._size)  # a line that was being written when a process was killed
        self.starts.append(Start(restart, time.monotonic(), self.answered))
        self._write({"restart": restart, "ready": self.starts[-1].ready})

    def add(self, count: int, begin: float, results: Sequence[Tensor]) -> None:
        """Answer the next requests now. Some results are kept for a comparison."""
        from safetensors.torch import save_file

        batch = Answer(self.answered, count, begin, time.monotonic())
        if self._kept < KEPT:
            self._kept += sum(t.nbytes for t in results)
            save_file({str(i): t.contiguous().clone() for i, t in enumerate(results)}, self._results(batch.first))
        self._write(asdict(batch))
        self.batches.append(batch)

    def results(self, batch: Answer) -> dict[str, Tensor] | None:
        """The results of a batch if they were kept."""
        from safetensors.torch import load_file

        path = self._results(batch.first)
        return load_file(path) if path.exists() else None

    def _results(self, first: int) -> Path:
        return self.folder / f"results-{first}.safetensors"

    def _write(self, data: dict[str, Any]) -> None:
        with (self.folder / ANSWERS).open("ab", buffering=0) as file:
            file.write(json.dumps(data).encode() + b"\n")


def _complete(path: Path) -> Iterator[bytes]:
    """The lines of a file but for an unfinished last one."""
    if path.exists():
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))


def answered(folder: Path) -> int:
    """Number of answered requests, from the end of the file alone."""
    path = folder / ANSWERS
    if not path.exists():
        return 0
    size, tail = path.stat().st_size, TAIL
    while True:
        with path.open("rb") as file:
            file.seek(max(0, size - tail))
            lines = file.read().splitlines(keepends=True)[int(size > tail) :]
        rows = [json.loads(x) for x in lines if x.endswith(b"}\n")]
        found = next((r["first"] + r["count"] for r in reversed(rows) if "count" in r), None)
        if found is not None or tail >= size:
            return found or 0
        tail *= 8  # many starts without an answer
