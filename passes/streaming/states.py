"""The tensors between two segments, a file on the disk with one tensor for each batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.errors import ProjectError
from espalier.model.files import explained
from espalier.model.store.open_files import OpenFile
from espalier.model.store.weights import Kind, Tensor, size_of
from espalier.model.torch.tensors import to_numpy, to_torch

if TYPE_CHECKING:
    import torch

Inputs = Mapping[str, "torch.Tensor"]


@dataclass(slots=True)
class States:
    """Tensors of batches one after the other in a file. `kinds`: dtype and shape of each."""

    path: Path
    kinds: list[Kind] = field(default_factory=list[Kind])

    def read(self, number: int) -> torch.Tensor:
        """The tensor of a batch, in new memory."""
        offset = sum(size_of(k) for k in self.kinds[:number])
        dtype, shape = self.kinds[number]
        values: Any = OpenFile(self.path).read(offset, size_of((dtype, shape))).view(Tensor.carrier(dtype))
        return to_torch(Tensor(values.reshape(shape), dtype))

    def write(self, values: Iterator[torch.Tensor]) -> None:
        """Write the tensors of all batches, and sync; raises ProjectError."""
        self.kinds = []
        with explained(self.path, ProjectError), self.path.open("wb") as file:
            for value in values:
                stored = to_numpy(value)
                file.write(stored.array.reshape(-1).view("uint8").data)
                self.kinds.append(stored.kind)
            file.flush()
            os.fsync(file.fileno())

    def to_json(self) -> dict[str, Any]:
        """As the record of a job holds it."""
        return {"file": self.path.name, "kinds": [[d, list(s)] for d, s in self.kinds]}

    @staticmethod
    def from_json(data: Mapping[str, Any], folder: Path) -> States:
        """The reverse; raises ProjectError where the file is missing or has another size."""
        kinds: list[Kind] = [(str(d), tuple(int(n) for n in s)) for d, s in data["kinds"]]
        path = folder / Path(str(data["file"])).name
        if not path.is_file() or path.stat().st_size != sum(map(size_of, kinds)):
            raise ProjectError(f"{path.name} in {folder} is damaged.", "Delete the folder and run the command again.")
        return States(path, kinds)


@dataclass(frozen=True, slots=True)
class Flow:
    """The inputs of a segment by batch: those of the model, and the result of the segment before.

    `samples`: inputs of the model by name; `name`: of the input with the states.
    """

    samples: Sequence[Inputs]
    name: str | None = None
    states: States | None = None

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for number, inputs in enumerate(self.samples):
            yield dict(inputs) | (
                {} if self.name is None or self.states is None else {self.name: self.states.read(number)}
            )
