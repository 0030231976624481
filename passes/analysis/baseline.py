"""How far a graph's outputs are from the baseline's, told by the evaluation itself: it runs the same batches anyway.

The baseline's outputs stay between evaluations, so from the second on this costs no run.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.document.graph_json import fingerprint
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.figure import OPENED
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 2  # baselines whose outputs stay


@dataclass(frozen=True, slots=True)
class BesideOptions(EvaluateOptions):
    """An evaluation that tells the divergence from the baseline as well, and the change of the accuracy."""

    baseline: str = field(default=OPENED, metadata={"help": "name of the graph that is compared with"})
    AGAINST_BASE: ClassVar[bool] = True


class Beside:
    """Hears the batches of an evaluation, always in the same order, and adds up the divergence from `base`."""

    def __init__(self, base: Graph, options: BesideOptions, context: Context) -> None:
        from espalier.model.data.recent import signature
        from espalier.passes.sensitivity.outputs import Outputs

        self._base, self._context, self._name = base, context, options.baseline
        self._outputs = Outputs(self._base)
        plain = EvaluateOptions(**{n: getattr(options, n) for n in EvaluateOptions.__dataclass_fields__})
        self._key = fingerprint(self._base), plain, context.reading, signature(plain.data)
        self._known = list(_HELD.get(self._key, ()))
        self._module: Any = None
        self._lost, self._batches, self._samples = 0.0, 0, 0
        self._right: list[bool] = []
        self._alike = True

    def hear(self, inputs: Mapping[str, Tensor], result: Any, labels: Tensor) -> None:
        """A batch and what the graph makes of it."""
        if self._batches == len(self._known):
            self._known.append(self._outputs.of(self._run(inputs)))
        before, after = self._known[self._batches], self._outputs.of(result)
        self._alike = self._alike and before.shape == after.shape
        if self._alike:
            self._lost += self._outputs.divergence(before, after, inputs)
        if self._outputs.classes:
            self._right += (before.argmax(-1) == labels).tolist()
        self._batches, self._samples = self._batches + 1, self._samples + len(before)

    def _run(self, inputs: Mapping[str, Tensor]) -> Any:
        from espalier.model.torch.build import build

        if self._module is None:
            self._module = build(self._base, self._context.store, self._context.callables)
        return self._module(**inputs)

    @property
    def right(self) -> list[bool]:
        """Of each sample whether the baseline has its class right; empty where its outputs are no classes."""
        return self._right

    def figures(self) -> dict[str, Any]:
        """After the last batch: the baseline's name; the divergence from it, nats a sample, where heads are alike."""
        _HELD[self._key] = tuple(self._known)
        while len(_HELD) > KEPT:
            _HELD.pop(next(iter(_HELD)))
        kl = {"kl": self._lost / max(self._samples, 1)} if self._alike else {}
        return {"baseline": self._name, **kl}


_HELD: dict[Hashable, tuple[Tensor, ...]] = {}
