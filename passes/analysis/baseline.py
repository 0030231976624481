"""Divergence of a graph's outputs from the baseline's, computed during an evaluation on the same batches.

The baseline's outputs are cached, so that only the first evaluation runs it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.figure import OPENED
from espalier.passes.running.splits import EvaluateOptions, compared_kind
from espalier.passes.tasks.base import task_of
from espalier.passes.tasks.scores import with_counted
from espalier.passes.tasks.tally import Tally

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

MAX_BASELINES = 2  # in the cache
MAX_BYTES = 512 << 20  # of a baseline's outputs; scores of many tokens are computed again


@dataclass(frozen=True, slots=True)
class ComparedOptions(EvaluateOptions):
    """An evaluation with the divergence from the baseline and the change of the main metric."""

    baseline: str = field(default=OPENED, metadata={"help": "name of the graph that is compared with"})
    AGAINST_BASE: ClassVar[bool] = True


class BaselineComparison:
    """Accumulates the divergence from `base` over the batches of an evaluation, which always has the same order."""

    def __init__(self, base: Graph, options: ComparedOptions, split: Split, context: Context) -> None:
        from espalier.model.data.recent import signature
        from espalier.passes.sensitivity.outputs import Outputs

        self._base, self._context, self._name = base, context, options.baseline
        task = task_of(split)
        self._outputs = Outputs(self._base, compared_kind(split, context))
        plain = EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})
        self._key = fingerprint(self._base), plain, context.reading, signature(plain.data)
        self._cached = list(_CACHE.get(self._key, ()))
        self._bytes = sum(t.nbytes for t in self._cached)
        self._module: Any = None
        self._kl, self._batches, self._samples = 0.0, 0, 0
        self.tally = Tally(task)  # of the baseline; empty if its outputs are no scores of the labels
        self._same_shape = self._scored = True

    def add(self, inputs: Mapping[str, Tensor], result: Any, labels: Tensor) -> None:
        """Add a batch with the graph's result."""
        before, after = self._before(inputs), self._outputs.of(result)
        self._same_shape = self._same_shape and before.shape == after.shape
        if self._same_shape:
            self._kl += self._outputs.divergence(before, after, with_counted(inputs, labels))
        if self._scored:
            self._tally(before, labels)
        self._batches, self._samples = self._batches + 1, self._samples + len(before)

    def _tally(self, before: Tensor, labels: Tensor) -> None:
        try:
            scores = self.tally.task.scores(before, self._base)
            self.tally.task.fit(scores, labels)
        except EspalierError:  # a baseline with another head
            self._scored, self.tally = False, Tally(self.tally.task)
            return
        self.tally.add(scores, labels)

    def _before(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The baseline's outputs of the present batch; those of the first batches are cached, up to MAX_BYTES."""
        if self._batches < len(self._cached):
            return self._cached[self._batches]
        outputs = self._outputs.of(self._run(inputs))
        self._bytes += outputs.nbytes
        if self._bytes <= MAX_BYTES:
            self._cached.append(outputs)
        return outputs

    def _run(self, inputs: Mapping[str, Tensor]) -> Any:
        from espalier.model.torch.build import build

        if self._module is None:
            self._module = build(self._base, self._context.store, self._context.callables)
        return self._module(**inputs)

    def figures(self) -> dict[str, Any]:
        """After the last batch: the baseline's name and, if the outputs have equal shapes, the kl in nats a sample."""
        _CACHE[self._key] = tuple(self._cached)
        while len(_CACHE) > MAX_BASELINES:
            _CACHE.pop(next(iter(_CACHE)))
        kl = {"kl": self._kl / max(self._samples, 1)} if self._same_shape else {}
        return {"baseline": self._name, **kl}


_CACHE: dict[Hashable, tuple[Tensor, ...]] = {}
