"""The module of a graph as a torch.export program: sizes that the graph leaves free stay free. `pt2` is its file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from espalier.model.document.project import Project
from espalier.model.errors import ExportError
from espalier.model.files import make_folder, replacing
from espalier.model.graph.graph import Graph
from espalier.model.graph.limits import bounds
from espalier.model.store.weights import WeightStore
from espalier.passes.export.settings import Settings
from espalier.passes.running.example import batch_sizes, example_inputs

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

    from espalier.passes.export.compare import Compared


PLACES = {"transformers::grouped_mm_fallback": "transformers.integrations.moe"}  # operator → module that registers it


def program_of(module: nn.Module, graph: Graph, largest: Mapping[str, int] | None = None) -> ExportedProgram:
    """Export a module that takes the graph's inputs; raises ExportError. `largest`: free size → its upper bound."""
    import torch

    from espalier.model.trace.capture import quiet

    # torch's convolutions choose a way by the size of the batch, which bounds that size from above for small examples
    sizes = {s: (largest or {})[s] for s in batch_sizes(graph, 0) if s in (largest or {})}
    values = example_inputs(graph, sizes)
    free: dict[str, Any] = {}
    ends = bounds(graph)
    for node in graph.placeholders:
        shape = node.out.shape if node.out else ()
        free[node.target] = {
            i: _free(size, largest or {}, ends.get(size)) for i, size in enumerate(shape) if isinstance(size, str)
        } or None
    shapes = {name: free[name] for name in values}
    try:
        with quiet():
            return torch.export.export(module, (), values, strict=False, dynamic_shapes=shapes)
    # torch.export raises dozens of types.
    except Exception as error:
        text = f"torch.export cannot take the model as it is ({first_line(error)})."
        raise ExportError(text, "Take back the step after which it happens, or export it as packed.") from error


def _free(size: str, largest: Mapping[str, int], ends: tuple[int | None, int | None] | None) -> Any:
    from torch.export import Dim

    low, high = ends or (None, None)
    high = min(high, largest[size]) if high is not None and size in largest else largest.get(size, high)
    given = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
    return Dim.AUTO(**given) if given else Dim.AUTO  # type: ignore[operator]


def first_line(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def write_program(project: Project, store: WeightStore, path: Path, settings: Settings) -> tuple[list[Path], list[str]]:
    """Write a .pt2 file, which torch.export.load opens without Espalier; (its file, notes). Raises ExportError."""
    from espalier.passes.export.standalone import standalone

    path = path if path.suffix == ".pt2" else path.with_name(f"{path.name}.pt2")
    settings.progress(0, 3, "exporting the graph")
    program = program_of(standalone(project.graph, store), project.graph)
    settings.progress(1, 3, "writing the file")
    make_folder(path.parent, ExportError)
    with replacing(path, ExportError) as file:
        save_program(program, file)
    return [path], _foreign(program)


def _foreign(program: ExportedProgram) -> list[str]:
    """A note on operators that a package other than torch registers."""
    called = {n.target for n in program.graph.nodes if hasattr(n.target, "namespace")}
    names = sorted({o.name().removesuffix(".default") for o in called if o.namespace not in ("aten", "prims")})
    if not names:
        return []
    places = [PLACES[name] for name in names if name in PLACES]
    what = f"import {', '.join(dict.fromkeys(places))}" if len(places) == len(names) else "import what registers them"
    return [f"The program calls {', '.join(names)}: {what} before torch.export.load."]


def save_program(program: ExportedProgram, file: IO[bytes]) -> None:
    """Write a program; raises OSError."""
    import torch

    calm = _Calm(file)
    torch.export.save(program, cast("IO[bytes]", calm))
    if calm.error is not None:
        raise calm.error


class _Calm(io.RawIOBase):
    """A file whose errors come out later: one within torch's own writer would end the whole process."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Torch goes back to the beginning when all is written."""
        return self._file.seek(offset, whence)

    def write(self, data: Any, /) -> int:
        if self.error is None:
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
        return len(data)


def compare_program(graph: Graph, store: WeightStore, path: Path) -> Compared | None:
    """Run a .pt2 file as torch opens it."""
    import torch
    import torch.utils._pytree as pytree

    from espalier.passes.export.compare import compare

    opened = torch.export.load(path).module()

    def run(values: dict[str, Any]) -> list[torch.Tensor]:
        with torch.no_grad():
            return [v for v in pytree.tree_leaves(opened(**values)) if isinstance(v, torch.Tensor)]

    return compare(graph, store, run, "torch.export.load")
