"""The one pass with gradients: what flows through every port and what the outputs feel of it, gathered as evidence."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from espalier.model.graph.graph import Graph
from espalier.model.graph.views import view_at
from espalier.passes.base import Context
from espalier.passes.observed.stream import rows_of
from espalier.passes.running.batches import batches, fit_error
from espalier.passes.sensitivity.evidence import PASSES, Evidence, Low, Piece, Rows, Tokens, Vectors
from espalier.passes.sensitivity.outputs import Outputs
from espalier.passes.sensitivity.places import Place
from espalier.passes.sensitivity.reservoir import Reservoir
from espalier.passes.sensitivity.taps import Tapped

if TYPE_CHECKING:
    from espalier.model.data.base import Split
    from espalier.passes.sensitivity.checkpoint import Arrays, Unfinished

RANK = 2  # of the part of a weight's gradient that is kept as it is
SMALL = 2048  # elements up to which gradients are kept whole
BYTES = 24 << 20  # that rows of activations may take together
ROWS = (8, 1024)  # fewest and most of a tensor
ELEMENTS = (1 << 12, 1 << 16)
FEWEST = 4  # passes, before a limit of time ends it
_PLAIN = 32  # samples of a batch without gradients
_HALF = 256.0  # gradients of float16 are so many times larger on their way


def collect(
    graph: Graph, places: tuple[Place, ...], split: Split, context: Context, kept: Unfinished | None = None,
    seconds: float = 0.0,
) -> Evidence:  # fmt: skip
    """Evidence of `places` from the samples of `split`, on which `graph` (float, attentions written out) is run.

    Gradients are of the outputs' own distribution, drawn anew for each sample with a random sign, so that samples of
    one batch do not mix in the mean. No label is looked at. It goes on from what is `kept` of a run that ended early,
    and comes to the same; after `seconds` it ends with fewer samples.
    """
    work, passes = _begun(graph, places, context, kept)
    size = max(1, -(-len(split) // PASSES))
    if work.outputs.kind == "values" and not passes:
        work.outputs.learn(work.outputs_of(split))
    begun = time.monotonic()
    for number, (inputs, _) in enumerate(batches(split, graph, size)):
        if number < passes:
            continue
        if seconds and number >= FEWEST and time.monotonic() - begun > seconds:
            work.keep(kept, number)
            return work.evidence(number * size)
        with fit_error(inputs):
            work.step(inputs)
        if kept is not None and kept.due:
            work.keep(kept, number + 1)
        begun += _tell(work, kept, context, number + 1, size, len(split))
    return work.evidence(len(split))


def _begun(
    graph: Graph, places: tuple[Place, ...], context: Context, kept: Unfinished | None
) -> tuple[_Collection, int]:
    """What is kept, and of how many passes that is; anew where there is nothing, or it is laid out in another way."""
    work = _Collection(graph, places, context)
    found = kept.read() if kept is not None else None
    if found is None:
        return work, 0
    try:
        return work, work.go_on(*found)
    except (LookupError, ValueError, TypeError, AttributeError, RuntimeError):
        return _Collection(graph, places, context), 0


def _tell(work: _Collection, kept: Unfinished | None, context: Context, passes: int, size: int, count: int) -> float:
    """Progress, and the seconds that it took: a pause is waited for there. Who stops it there loses nothing."""
    begun = time.monotonic()
    try:
        context.progress(min(passes * size, count), count, "gradients of the outputs")
    except BaseException:
        work.keep(kept, passes)
        raise
    return time.monotonic() - begun


class _Collection:
    def __init__(self, graph: Graph, places: tuple[Place, ...], context: Context) -> None:
        self.graph, self.places, self.outputs = graph, places, Outputs(graph)
        self._of = {tensor: place for place in places for tensor in place.tensors}
        wanted: dict[str, list[str]] = {}
        for node, port in self._of:
            wanted.setdefault(node, []).append(port)
        self._run = Tapped(graph, wanted, self._heard, context)
        self._scale = _HALF if any(w.dtype == "float16" for w in graph.weights.values()) else 1.0
        self._random = torch.Generator().manual_seed(context.seed % 2**63)
        self._seed = context.seed
        flowing = sum(p.weight is None for p in places)
        self._elements = int(np.clip(BYTES // (6 * max(flowing, 1)), *ELEMENTS))
        self._rows: dict[tuple[str, str], Reservoir] = {}
        self._weights: dict[tuple[str, str], _Weight] = {}
        self._through: dict[tuple[str, str], str] = {}
        self._begun = self._batch = 0  # samples before this batch, and in it

    def outputs_of(self, split: Split) -> Iterator[Tensor]:
        """What the model gives, without gradients."""
        for inputs, _ in batches(split, self.graph, _PLAIN):
            with fit_error(inputs), torch.no_grad():
                yield self.outputs.of(self._run.module(**inputs))

    def step(self, inputs: dict[str, Tensor]) -> None:
        """One batch forward and backward."""
        self._begun += self._batch
        self._batch = max(1, len(next(iter(inputs.values()))))
        after = self.outputs.of(self._run(inputs))
        pull = self.outputs.pull(after.detach(), inputs, self._random) * self._scale
        torch.autograd.backward(after, pull)
        self._run.release()

    def _heard(self, node: str, port: str, value: Tensor, gradient: Tensor, through: str) -> None:
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
            held = self._reservoir(key, x.shape[1])
            held.add(g.astype(np.float32, copy=False), x.astype(np.float32, copy=False), self._groups(value, len(x)))
            peak = x[np.abs(np.where(np.isfinite(x), x, 0)).max(1, initial=0).argmax()] if len(x) else held.peak
            if not held.peak.size or np.abs(peak).max(initial=0) > np.abs(held.peak).max(initial=0):
                held.peak = peak.astype(np.float32)

    def _groups(self, value: Tensor, rows: int) -> NDArray[np.int64]:
        """The sample that each row belongs to; the first of the batch where the tensor does not go by samples."""
        count = self._batch if value.dim() and value.shape[0] % self._batch == 0 and rows % self._batch == 0 else 1
        return np.repeat(np.arange(count) + self._begun, rows // count)

    def _reservoir(self, key: tuple[str, str], row: int) -> Reservoir:
        if key not in self._rows:
            count = int(np.clip(self._elements // max(row, 1), *ROWS))
            self._rows[key] = Reservoir(count, self._seed + zlib.crc32(":".join(key).encode()))
        return self._rows[key]

    def _weight(self, key: tuple[str, str], gradient: Tensor) -> None:
        view = view_at(self.graph[key[0]], key[1]) if gradient.dim() > 1 else None
        seen = gradient.float() if self._scale == 1 else gradient.float() / self._scale
        seen = (seen if view is None else view.of(seen)).reshape(
            -1, seen.shape[-1] if view is None else view.of(seen).shape[-1]
        )
        if key not in self._weights:
            self._weights[key] = _Weight(seen.numel() <= SMALL or gradient.dim() < 2)
        self._weights[key].add(seen, self._random)

    # -- a run that goes on

    def keep(self, kept: Unfinished | None, passes: int) -> None:
        """Write what came of so many passes."""
        if kept is None:
            return
        arrays: Arrays = {"random": self._random.get_state().numpy()}
        rows: list[Any] = []
        weights: list[Any] = []
        for number, (key, held) in enumerate(self._rows.items()):
            parts, facts = held.state()
            arrays |= {f"rows{number}/{name}": part for name, part in parts.items()}
            rows.append([*key, held.count, self._through.get(key, ""), facts])
        for number, (key, weight) in enumerate(self._weights.items()):
            arrays |= {f"weight{number}/{name}": part for name, part in weight.state().items()}
            weights.append([*key, weight.whole])
        kept.write(arrays, {"passes": passes, "begun": self._begun, "batch": self._batch, "rows": rows,
                            "weights": weights, "spread": self.outputs.spread})  # fmt: skip

    def go_on(self, arrays: Arrays, facts: dict[str, Any]) -> int:
        """Take up what was kept: how many passes that was of."""
        self._random.set_state(torch.from_numpy(arrays["random"]))
        self._begun, self._batch, self.outputs.spread = facts["begun"], facts["batch"], facts["spread"]
        for number, (node, port, count, through, held) in enumerate(facts["rows"]):
            reservoir = self._rows[node, port] = Reservoir(count, 0)
            reservoir.go_on(_below(arrays, f"rows{number}/"), held)
            self._through[node, port] = through
        for number, (node, port, whole) in enumerate(facts["weights"]):
            weight = self._weights[node, port] = _Weight(whole)
            weight.go_on(_below(arrays, f"weight{number}/"))
        return int(facts["passes"])

    def evidence(self, samples: int) -> Evidence:
        """All that was gathered, as means over the samples."""
        found: dict[str, tuple[Piece, ...]] = {}
        for place in self.places:
            pieces = [p for t in place.tensors if (p := self._piece(t, place, samples)) is not None]
            if pieces:
                found[place.key] = tuple(pieces)
        return Evidence(found, self.outputs.words, samples)

    def _piece(self, key: tuple[str, str], place: Place, samples: int) -> Piece | None:
        if key in self._weights:
            return self._weights[key].piece(samples)
        if key not in self._rows:
            return None
        shares, parts = self._rows[key].taken()
        if not parts:
            return None
        if place.weight is not None:
            return Tokens(parts[1], parts[0], shares, parts[2], samples)
        return Rows(parts[1], parts[0], shares, parts[2], self._rows[key].peak, samples, self._through[key])


def _below(arrays: Arrays, name: str) -> Arrays:
    return {k.removeprefix(name): v for k, v in arrays.items() if k.startswith(name)}


class _Weight:
    """The gradients of one use of a weight, pass by pass."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self._left: list[Any] = []
        self._right: list[Any] = []
        self._rows: Any = 0.0
        self._columns: Any = 0.0

    def add(self, gradient: Tensor, random: torch.Generator) -> None:
        """The gradient of a batch, [outputs, inputs]; one that is not finite tells nothing and counts as zeros."""
        if self.whole:
            known = bool(torch.isfinite(gradient).all())
            self._left.append(gradient.reshape(-1).clone() if known else torch.zeros(gradient.numel()))
            return
        rank = min(RANK, *gradient.shape)
        start = torch.randn(gradient.shape[1], rank + 2, generator=random)
        seen = (start.T @ gradient.T).T  # a few rows times a matrix: several times as fast as it times a few columns
        if not bool(torch.isfinite(seen).all()):  # nothing is hidden by directions drawn by chance, and they are few
            gradient, seen = torch.zeros_like(gradient), torch.zeros_like(seen)
        basis, _ = torch.linalg.qr(((seen.T @ gradient) @ gradient.T).T)
        inner, strengths, right = torch.linalg.svd(basis.T @ gradient, full_matrices=False)
        left, right = basis @ inner[:, :rank], strengths[:rank, None] * right[:rank]
        rest = torch.addmm(gradient, left, right, alpha=-1).square_()
        self._left.append(left)
        self._right.append(right)
        # As products: a sum in float64 copies all of it first.
        self._rows = self._rows + (rest @ torch.ones(rest.shape[1])).double()
        self._columns = self._columns + (torch.ones(rest.shape[0]) @ rest).double()

    def state(self) -> Arrays:
        """What `go_on` takes."""
        found = {"left": torch.stack(self._left).numpy()}
        if self._right:
            found |= {"right": torch.stack(self._right).numpy(), "rows": self._rows.numpy(),
                      "columns": self._columns.numpy()}  # fmt: skip
        return found

    def go_on(self, held: Arrays) -> None:
        """As it was when `state` was asked."""
        self._left = list(torch.from_numpy(held["left"]))
        if "right" in held:
            self._right = list(torch.from_numpy(held["right"]))
            self._rows, self._columns = torch.from_numpy(held["rows"]), torch.from_numpy(held["columns"])

    def piece(self, samples: int) -> Piece | None:
        """As evidence: sums over passes are means over samples."""
        if not self._left:
            return None
        factor = (len(self._left) / max(samples, 1)) ** 0.5
        if self.whole:
            return Vectors((torch.stack(self._left) * factor).numpy())
        rows, columns = self._rows.numpy() / max(samples, 1), self._columns.numpy()
        shares = columns / max(columns.sum(), 1e-300)
        return Low((torch.stack(self._left) * factor).numpy(), torch.stack(self._right).numpy(),
                   rows.astype(np.float32), shares.astype(np.float32))  # fmt: skip
