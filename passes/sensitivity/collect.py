"""The gradient pass: collects values and output gradients at every port as gradient statistics."""

from __future__ import annotations

import itertools
import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espalier.model.graph.graph import Graph, fixed_batch
from espalier.model.graph.views import view_at
from espalier.passes.base import Context
from espalier.passes.observed.tensor_statistics import rows_of
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.running.splits import compared_kind
from espalier.passes.sensitivity.gradient_hooks import HookedModel
from espalier.passes.sensitivity.gradient_statistics import (
    PASSES,
    GradientStatistics,
    LowRank,
    Piece,
    Rows,
    Tokens,
    Vectors,
)
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.sensitivity.ports import FormatPort
from espalier.passes.sensitivity.reservoir import Reservoir
from espalier.passes.tasks.base import Kind, task_of
from espalier.passes.tasks.scores import with_counted

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.passes.sensitivity.checkpoint import Arrays, GradientCheckpoint

RANK = 2  # of the low-rank part of a weight's gradient
SMALL = 2048  # elements up to which full gradients are stored
BYTES = 24 << 20  # of all sampled rows of activations together
ROWS = (8, 1024)  # minimum and maximum per tensor
ELEMENTS = (1 << 12, 1 << 16)  # minimum and maximum per tensor
MIN_PASSES = 4  # before a time limit ends the collection
_PLAIN = 32  # samples of a batch without gradients
_HALF = 256.0  # loss scale for float16


def collect(
    graph: Graph, places: tuple[FormatPort, ...], split: Split, context: Context,
    kept: GradientCheckpoint | None = None, seconds: float = 0.0, batch: int = 0,
) -> GradientStatistics:  # fmt: skip
    """Gradient statistics of `places` from a run of `graph` (float, attentions decomposed) on `split`.

    Gradients are of samples of the outputs' own distribution, with a random sign for each sample, so that samples of a
    batch do not mix in expectation. Labels are not used. It resumes from the checkpoint `kept` with the same result;
    after `seconds` it ends with fewer samples. Outputs that depend on the other samples of a `batch` are collected in
    batches of that size, several times with other draws. A graph with a fixed batch size has batches of it.
    """
    work, passes = _resumed(graph, places, compared_kind(split, context), context, kept)
    size, repeats = max(1, -(-len(split) // PASSES)), 1
    if task_of(split).batched and batch:
        size = min(batch, len(split))
        repeats = max(1, PASSES // -(-len(split) // size))
    size = fixed_batch(graph) or size
    if work.outputs.kind == "values" and not passes:
        work.outputs.learn(work.outputs_of(split))
    begun = time.monotonic()
    every = itertools.chain.from_iterable(batches(split, graph, size) for _ in range(repeats))
    for number, (inputs, labels) in enumerate(every):
        if number < passes:
            continue
        if seconds and number >= MIN_PASSES and time.monotonic() - begun > seconds:
            work.keep(kept, number)
            return work.statistics(number * size)
        with fit_error(inputs, graph):
            work.step(inputs, labels)
        if kept is not None and kept.due:
            work.keep(kept, number + 1)
        begun += _report(work, kept, context, number + 1, size, repeats * len(split))
    return work.statistics(repeats * len(split))


def _resumed(
    graph: Graph, places: tuple[FormatPort, ...], kind: Kind, context: Context, kept: GradientCheckpoint | None
) -> tuple[_Collection, int]:
    """(collection, number of passes) of the checkpoint; a new one if there is none or its layout differs."""
    work = _Collection(graph, places, kind, context)
    state = kept.read() if kept is not None else None
    if state is None:
        return work, 0
    try:
        return work, work.restore(*state)
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError):
        return _Collection(graph, places, kind, context), 0


def _report(
    work: _Collection, kept: GradientCheckpoint | None, context: Context, passes: int, size: int, count: int
) -> float:
    """Report progress and return the seconds spent, since a paused job waits in it; if it raises, save a checkpoint."""
    begun = time.monotonic()
    try:
        context.progress(min(passes * size, count), count, "gradients of the outputs")
    except BaseException:
        work.keep(kept, passes)
        raise
    return time.monotonic() - begun


class _Collection:
    def __init__(self, graph: Graph, places: tuple[FormatPort, ...], kind: Kind, context: Context) -> None:
        self.graph, self.places, self.outputs = graph, places, Outputs(graph, kind)
        self._of = {tensor: place for place in places for tensor in place.tensors}
        wanted: dict[str, list[str]] = {}
        for node, port in self._of:
            wanted.setdefault(node, []).append(port)
        self._run = HookedModel(graph, wanted, self._add, context)
        self._scale = _HALF if any(w.dtype == "float16" for w in graph.weights.values()) else 1.0
        self._random = torch.Generator().manual_seed(context.seed % 2**63)
        self._seed = context.seed
        flowing = sum(p.weight is None for p in places)
        self._elements = int(np.clip(BYTES // (6 * max(flowing, 1)), *ELEMENTS))
        self._rows: dict[tuple[str, str], Reservoir] = {}
        self._weights: dict[tuple[str, str], _WeightGradients] = {}
        self._through: dict[tuple[str, str], str] = {}
        self._samples_before = self._batch = 0  # samples before this batch, and in it

    def outputs_of(self, split: Split) -> Iterator[Tensor]:
        """The model's outputs, without gradients."""
        for inputs, _ in batches(split, self.graph, fixed_batch(self.graph) or _PLAIN):
            with fit_error(inputs, self.graph), torch.no_grad():
                yield self.outputs.of(self._run.module(**inputs))

    def step(self, inputs: dict[str, Tensor], labels: Tensor) -> None:
        """One batch forward and backward."""
        self._samples_before += self._batch
        self._batch = max(1, len(next(iter(inputs.values()))))
        after = self.outputs.of(self._run(inputs))
        pull = self.outputs.pull(after.detach(), with_counted(inputs, labels), self._random) * self._scale
        torch.autograd.backward(after, pull)
        self._run.release()

    def _add(self, node: str, port: str, value: Tensor, gradient: Tensor, through: str) -> None:
        key = (node, port)
        if through == "embedding":
            ids = value.detach().reshape(-1).numpy().astype(np.int64)
            g = (gradient.float() / self._scale).reshape(len(ids), -1).numpy()
            self._reservoir(key, g.shape[1]).add(g, ids, self._groups(value, len(ids)))
        elif self._of[key].weight is not None:
            self._weight(key, gradient)
        else:
            view = None if through else view_at(self.graph[node], port)
            x, g = rows_of(value, view), rows_of(gradient, view) / np.float32(self._scale)
            self._through[key] = through
            rows = self._reservoir(key, x.shape[1])
            rows.add(g.astype(np.float32, copy=False), x.astype(np.float32, copy=False), self._groups(value, len(x)))
            peak = x[np.abs(np.where(np.isfinite(x), x, 0)).max(1, initial=0).argmax()] if len(x) else rows.peak
            if not rows.peak.size or np.abs(peak).max(initial=0) > np.abs(rows.peak).max(initial=0):
                rows.peak = peak.astype(np.float32)

    def _groups(self, value: Tensor, rows: int) -> NDArray[np.int64]:
        """Sample index of each row; the first of the batch if the tensor has no batch axis."""
        count = self._batch if value.dim() and value.shape[0] % self._batch == 0 and rows % self._batch == 0 else 1
        return np.repeat(np.arange(count) + self._samples_before, rows // count)

    def _reservoir(self, key: tuple[str, str], row: int) -> Reservoir:
        if key not in self._rows:
            count = int(np.clip(self._elements // max(row, 1), *ROWS))
            self._rows[key] = Reservoir(count, self._seed + zlib.crc32(":".join(key).encode()))
        return self._rows[key]

    def _weight(self, key: tuple[str, str], gradient: Tensor) -> None:
        view = view_at(self.graph[key[0]], key[1]) if gradient.dim() > 1 else None
        seen = gradient.float() if self._scale == 1 else gradient.float() / self._scale
        seen = seen if view is None else view.of(seen)
        seen = seen.reshape(-1, seen.shape[-1] if seen.dim() else 1)
        if key not in self._weights:
            self._weights[key] = _WeightGradients(seen.numel() <= SMALL or gradient.dim() < 2)
        self._weights[key].add(seen, self._random)

    # -- checkpoints

    def keep(self, kept: GradientCheckpoint | None, passes: int) -> None:
        """Write a checkpoint after `passes`."""
        if kept is None:
            return
        arrays: Arrays = {"random": self._random.get_state().numpy()}
        rows: list[Any] = []
        weights: list[Any] = []
        for number, (key, reservoir) in enumerate(self._rows.items()):
            parts, facts = reservoir.state()
            arrays |= {f"rows{number}/{name}": part for name, part in parts.items()}
            rows.append([*key, reservoir.count, self._through.get(key, ""), facts])
        for number, (key, weight) in enumerate(self._weights.items()):
            arrays |= {f"weight{number}/{name}": part for name, part in weight.state().items()}
            weights.append([*key, weight.whole])
        kept.write(arrays, {"passes": passes, "begun": self._samples_before, "batch": self._batch, "rows": rows,
                            "weights": weights, "spread": self.outputs.spread})  # fmt: skip

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> int:
        """Restore a checkpoint; returns its number of passes."""
        self._random.set_state(torch.from_numpy(arrays["random"]))
        self._samples_before, self._batch, self.outputs.spread = facts["begun"], facts["batch"], facts["spread"]
        for number, (node, port, count, through, state) in enumerate(facts["rows"]):
            reservoir = self._rows[node, port] = Reservoir(count, 0)
            reservoir.restore(_below(arrays, f"rows{number}/"), state)
            self._through[node, port] = through
        for number, (node, port, whole) in enumerate(facts["weights"]):
            weight = self._weights[node, port] = _WeightGradients(whole)
            weight.restore(_below(arrays, f"weight{number}/"))
        return int(facts["passes"])

    def statistics(self, samples: int) -> GradientStatistics:
        """The statistics so far, as means over the samples."""
        statistics: dict[str, tuple[Piece, ...]] = {}
        for place in self.places:
            pieces = [p for t in place.tensors if (p := self._piece(t, place, samples)) is not None]
            if pieces:
                statistics[place.key] = tuple(pieces)
        return GradientStatistics(statistics, self.outputs.words, samples)

    def _piece(self, key: tuple[str, str], place: FormatPort, samples: int) -> Piece | None:
        if key in self._weights:
            return self._weights[key].piece(samples)
        if key not in self._rows:
            return None
        shares, parts = self._rows[key].sample()
        if not parts:
            return None
        if place.weight is not None:
            return Tokens(parts[1], parts[0], shares, parts[2], samples)
        return Rows(parts[1], parts[0], shares, parts[2], self._rows[key].peak, samples, self._through[key])


def _below(arrays: Arrays, name: str) -> Arrays:
    return {k.removeprefix(name): v for k, v in arrays.items() if k.startswith(name)}


class _WeightGradients:
    """The gradients of one use of a weight, by pass."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self._left: list[Any] = []
        self._right: list[Any] = []
        self._rows: Any = 0.0
        self._columns: Any = 0.0

    def add(self, gradient: Tensor, random: torch.Generator) -> None:
        """Add the gradient of a batch, [outputs, inputs]; a non-finite one counts as zeros."""
        if self.whole:
            finite = bool(torch.isfinite(gradient).all())
            self._left.append(gradient.reshape(-1).clone() if finite else torch.zeros(gradient.numel()))
            return
        rank = min(RANK, *gradient.shape)
        start = torch.randn(gradient.shape[1], rank + 2, generator=random)
        sketch = (start.T @ gradient.T).T  # few rows × matrix: several times as fast as matrix × few columns
        if not bool(torch.isfinite(sketch).all()):  # a random projection of a non-finite matrix is non-finite
            gradient, sketch = torch.zeros_like(gradient), torch.zeros_like(sketch)
        basis, _ = torch.linalg.qr(((sketch.T @ gradient) @ gradient.T).T)
        inner, strengths, right = torch.linalg.svd(basis.T @ gradient, full_matrices=False)
        left, right = basis @ inner[:, :rank], strengths[:rank, None] * right[:rank]
        rest = torch.addmm(gradient, left, right, alpha=-1).square_()
        self._left.append(left)
        self._right.append(right)
        # As matrix products: a sum in float64 would copy the tensor first.
        self._rows = self._rows + (rest @ torch.ones(rest.shape[1])).double()
        self._columns = self._columns + (torch.ones(rest.shape[0]) @ rest).double()

    def state(self) -> Arrays:
        """State for `restore`."""
        arrays = {"left": torch.stack(self._left).numpy()}
        if self._right:
            arrays |= {"right": torch.stack(self._right).numpy(), "rows": self._rows.numpy(),
                       "columns": self._columns.numpy()}  # fmt: skip
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Restore the result of `state`."""
        self._left = list(torch.from_numpy(arrays["left"]))
        if "right" in arrays:
            self._right = list(torch.from_numpy(arrays["right"]))
            self._rows, self._columns = torch.from_numpy(arrays["rows"]), torch.from_numpy(arrays["columns"])

    def piece(self, samples: int) -> Piece | None:
        """As gradient statistics, whose sums over passes are means over samples."""
        if not self._left:
            return None
        factor = (len(self._left) / max(samples, 1)) ** 0.5
        if self.whole:
            return Vectors((torch.stack(self._left) * factor).numpy())
        rows, columns = self._rows.numpy() / max(samples, 1), self._columns.numpy()
        shares = columns / max(columns.sum(), 1e-300)
        return LowRank((torch.stack(self._left) * factor).numpy(), torch.stack(self._right).numpy(),
                   rows.astype(np.float32), shares.astype(np.float32))  # fmt: skip
