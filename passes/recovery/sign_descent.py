"""AutoRound on the units of a graph: sign descent on rounding offsets and ranges, and the weights that result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, fx, nn

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import NODE, PORT, parameters_of
from espalier.model.torch.layers import Compressed, Effective
from espalier.model.torch.low_rank import Adapted
from espalier.model.torch.tensors import to_numpy
from espalier.passes.base import Row
from espalier.passes.choices.autoround import AutoroundOptions
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.recovery.layers import Layer
from espalier.passes.recovery.learned_rounding import LearnedRounding
from espalier.passes.recovery.unit_runs import UnitRun, Values
from espalier.passes.recovery.units import Unit

if TYPE_CHECKING:
    from espalier.passes.observed.layerwise import Inputs

_FACTOR = 1000.0  # of the loss, so that gradients of 16-bit results do not vanish; signs stay the same
Report = Callable[[int, float], None]


@dataclass(slots=True)
class _Tuned:
    """A layer's learned rounding. `paths`: of the modules that quantise its weight; `old`: those modules."""

    layer: Layer
    learned: LearnedRounding
    paths: list[str]
    old: list[Effective]
    rates: tuple[float, float]
    best: list[Tensor] = field(default_factory=list[Tensor])

    def install(self, module: nn.Module, learned: LearnedRounding | None = None) -> None:
        """Let `learned` quantise the weight in a built module; None: the former modules."""
        for path, old in zip(self.paths, self.old, strict=True):
            module.set_submodule(path, learned or old)

    def keep(self) -> None:
        """Keep the present values as the best."""
        self.best = [p.detach().clone() for p in self.learned.parts]

    def take_best(self) -> None:
        """Return to the best values."""
        for part, value in zip(self.learned.parts, self.best, strict=False):
            part.data.copy_(value)


class SignDescent:
    """Learns the rounding of units in order. `rounded`: the run with formats; `exact`: that of the float model.

    `graph`: with the results so far. Sources: arXiv:2309.05516, algorithm 1; auto-round 0.16,
    https://github.com/intel/auto-round.
    """

    def __init__(
        self, graph: Graph, options: AutoroundOptions, store: WeightStore, exact: UnitRun, rounded: UnitRun, seed: int
    ) -> None:
        self.graph, self.options, self.store = graph, options, store
        self.exact, self.rounded, self.seed = exact, rounded, seed
        self.tensors = parameters_of(rounded.module)
        self.rows: list[Row] = []
        for value in rounded.module.parameters():
            value.requires_grad_(False)

    def learn(self, number: int, report: Report) -> None:
        """Learn the rounding of a unit on the inputs that units before it give; `report` is called with (step, loss).

        The unit keeps plain rounding unless its error over all batches falls. Raises PassError for results of the float
        model that are not finite.
        """
        unit = self.rounded.units[number]
        self.exact.prepare(number)
        self.rounded.prepare(number)
        inputs = self.rounded.values
        if not self.options.quantised_inputs:
            pairs = zip(inputs, self.exact.values, strict=True)
            inputs = [self.rounded.replaced(mine, self.exact, theirs) for mine, theirs in pairs]
        targets = [_Target(r, m) for r, m in zip(self.exact.finish(number), _masks(self.rounded.samples), strict=True)]
        if not all(t.is_finite for t in targets):
            raise PassError(f"The float model's results of {unit.title} are not finite on this data.",
                            "Check the model's weights and the data.", unit.layers[0].nodes[0].id)  # fmt: skip
        data = _Data(number, inputs, targets)
        before = self._error(data)
        tuned = [self._tuned(layer) for layer in unit.layers]
        step = self._descend(data, tuned, report)
        old = self._keep(tuned)
        after = self._error(data)
        changed = after < before
        if changed:
            self._store(tuned)
        else:
            self._restore(tuned, old)
        self._tell(unit, tuned, changed, before, after, step)
        self.rounded.finish(number)

    # -- descent

    def _descend(self, data: _Data, tuned: list[_Tuned], report: Report) -> int:
        """Learn; the step with the least loss, whose values are then those of `tuned`."""
        for each in tuned:
            each.install(self.rounded.module, each.learned)
        parts = [(p, rate) for t in tuned for p, rate in zip(t.learned.parts, t.rates, strict=True) if p.requires_grad]
        least, best, steps = float("inf"), 0, self.options.steps
        for step, index in zip(range(steps), self._batches(len(data.inputs)), strict=False):
            loss = self._loss(data, index)
            value = float(loss.detach())
            report(step, value)
            if value < least:
                least, best = value, step
                for each in tuned:
                    each.keep()
            _descend(loss, parts, 1 - step / steps)
            for each in tuned:
                each.learned.restrict()
        for each in tuned:
            each.install(self.rounded.module)
            each.take_best()
        return best

    def _batches(self, count: int) -> Iterator[int]:
        """All batches in a random order, again and again; the same for each unit."""
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            yield from torch.randperm(count, generator=generator).tolist()

    def _loss(self, data: _Data, index: int) -> Tensor:
        values = self.rounded.run_unit(data.number, data.inputs[index])
        total, count = data.targets[index].error(self.rounded.results(self.rounded.units[data.number], values))
        return total / max(count, 1)

    def _error(self, data: _Data) -> float:
        """Mean squared error of the unit's results over all batches."""
        total, count = 0.0, 0
        unit = self.rounded.units[data.number]
        with torch.no_grad():
            for inputs, target in zip(data.inputs, data.targets, strict=True):
                part, elements = target.error(self.rounded.results(unit, self.rounded.run_unit(data.number, inputs)))
                total, count = total + float(part), count + elements
        return total / max(count, 1)

    # -- weights and scales

    def _tuned(self, layer: Layer) -> _Tuned:
        paths = list(_paths(self.rounded.module, layer))
        old = [self.rounded.module.get_submodule(p) for p in paths]
        effective = [m for m in old if isinstance(m, Effective)]
        learned = LearnedRounding(effective[0], self.tensors[layer.name], self.options.minmax)
        return _Tuned(layer, learned, paths, effective, self.options.rates(learned.format.element_bits))

    def _keep(self, tuned: list[_Tuned]) -> list[tuple[Tensor, Tensor | None]]:
        """Write learned values and scales into the built module; the former ones."""
        former: list[tuple[Tensor, Tensor | None]] = []
        with torch.no_grad():
            for each in tuned:
                live, effective = self.tensors[each.layer.name], each.old[0]
                former.append((live.detach().clone(), None if effective.scale is None else effective.scale.clone()))
                seen = effective.seen(live.detach()).float()
                value, scale = each.learned.value(seen)
                value = value if effective.view is None else effective.view.back(value, live.shape)
                new = value.to(live.dtype)
                if (
                    effective.mask is not None
                ):  # pruned weights keep their values, so that a lower sparsity restores them
                    new = torch.where(effective.mask.bool(), new, live)
                live.copy_(new)
                _set_scale(each, scale)
        return former

    def _restore(self, tuned: list[_Tuned], former: list[tuple[Tensor, Tensor | None]]) -> None:
        with torch.no_grad():
            for each, (weight, scale) in zip(tuned, former, strict=True):
                self.tensors[each.layer.name].copy_(weight)
                _set_scale(each, scale)

    def _store(self, tuned: list[_Tuned]) -> None:
        """Take the module's weights and scales into the graph."""
        for each in tuned:
            layer, first = each.layer, self.graph.nodes[each.layer.nodes[0].id]
            chosen, scale = first.precision["weight"], each.old[0].scale
            assert scale is not None
            name = chosen.scale or scale_name(first, "weight", self.graph.weights)
            old, value = self.graph.weights.get(name), to_numpy(scale.detach().clone())
            plain = Weight("", value.shape, value.dtype, "buffer", False) if old is None else old
            live = to_numpy(self.tensors[layer.name].detach().clone())
            learned = replace(self.graph.weights[layer.name], key=self.store.hold(live))
            new = {name: replace(plain, key=self.store.hold(value)), layer.name: learned}
            choice = {"weight": replace(chosen, scale=name)}
            nodes = (self.graph.nodes[n.id] for n in layer.nodes)
            nodes = [replace(n, precision={**n.precision, **choice}) for n in nodes]
            self.graph = self.graph.replace(*nodes).with_weights(new)

    def _tell(self, unit: Unit, tuned: list[_Tuned], changed: bool, before: float, after: float, step: int) -> None:
        for each in tuned:
            label = each.learned.format.label
            offsets, shares = each.learned.parts
            self.rows.append({
                "node": each.layer.nodes[0].id, "unit": unit.title, "format": label, "changed": changed,
                "error_rounded": before, "error": min(before, after), "best_step": step,
                "mean_offset": float(offsets.detach().abs().mean()), "mean_range": float(shares.detach().mean()),
            })  # fmt: skip


def _descend(loss: Tensor, parts: list[tuple[Tensor, float]], share: float) -> None:
    """Move each part against the sign of its gradient, by `share` of its rate."""
    tensors = [p for p, _ in parts]
    gradients = torch.autograd.grad(loss * _FACTOR, tensors, allow_unused=True, materialize_grads=True)
    for (part, rate), gradient in zip(parts, gradients, strict=True):
        part.data -= rate * share * gradient.sign()


@dataclass(frozen=True, slots=True)
class _Target:
    """Results of the float model for a batch. `mask`: [samples, positions] where inputs are no padding."""

    values: list[Tensor]
    mask: Tensor | None

    def _of(self, x: Tensor) -> Tensor:
        fits = self.mask is not None and x.dim() > 2 and x.shape[:2] == self.mask.shape
        return x[self.mask] if fits else x

    @property
    def is_finite(self) -> bool:
        return all(bool(self._of(v).isfinite().all()) for v in self.values)

    def error(self, results: Sequence[Tensor]) -> tuple[Tensor, int]:
        """(sum of squared differences in float32, number of elements)."""
        pairs = [(self._of(a).float(), self._of(b).float()) for a, b in zip(results, self.values, strict=True)]
        return torch.stack([(a - b).square().sum() for a, b in pairs]).sum(), sum(b.numel() for _, b in pairs)


@dataclass(frozen=True, slots=True)
class _Data:
    """A unit's `inputs` and `targets` by batch; `number`: of the unit."""

    number: int
    inputs: list[Values]
    targets: list[_Target]


def _masks(samples: Sequence[Inputs]) -> list[Tensor | None]:
    """Of each batch where its inputs are no padding; None where all are."""
    masks = [inputs.get("attention_mask") for inputs in samples]
    return [None if m is None or m.dim() != 2 or bool(m.all()) else m.bool() for m in masks]


def _set_scale(tuned: _Tuned, scale: Tensor | None) -> None:
    for effective in tuned.old:
        if isinstance(effective.scale, nn.Parameter) and scale is not None:
            effective.scale.data.copy_(scale)
        else:
            kind = torch.float32 if effective.scale is None else effective.scale.dtype
            effective.scale = None if scale is None else scale.detach().to(kind, copy=True)


def _paths(module: nn.Module, layer: Layer) -> Iterator[str]:
    """Paths of the modules that quantise the layer's weight."""
    ids, found = {n.id for n in layer.nodes}, set[str]()
    for n in cast("fx.GraphModule", module).graph.nodes:
        if n.op != "call_module":
            continue
        path = str(n.target)
        if any(i in ids and port == "weight" for i, port in n.meta.get(PORT, ())):
            found.add(path)
        elif n.meta.get(NODE) in ids:
            leaf, path = module.get_submodule(path), path
            leaf, path = (leaf.base, f"{path}.base") if isinstance(leaf, Adapted) else (leaf, path)
            if isinstance(leaf, Compressed):
                found.add(f"{path}.effective.weight")
    yield from sorted(found)
