"""Plans of one graph over one mesh: the one of least time that fits, and baselines under the same cost model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Sharding
from espalier.model.graph.node import Ref, in_port
from espalier.model.graph.ops import macs
from espalier.passes.sharding.baselines import BASELINES, Mask, divisors, heads_of, masks, widths_of
from espalier.passes.sharding.collectives import Placements
from espalier.passes.sharding.costs_of_nodes import Sizing
from espalier.passes.sharding.factors import REPLICATED
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.network import Network, State
from espalier.passes.sharding.options import ShardPlanOptions, sizes_of
from espalier.passes.sharding.planned import Move, Plan, amount
from espalier.passes.sharding.programme import Programme, Solution, restricted, solve
from espalier.passes.sharding.strategies import Strategy

THRESHOLDS = 8  # limits of transient activations that are tried
SPREAD = 0.02  # of the memory: within it, one limit is tried
MOST_DEVICES = 4096


class Planner:
    """Plans of one graph over one mesh."""

    def __init__(
        self, graph: Graph, mesh: Mesh, device: Device, options: ShardPlanOptions, folded: bool = True,
        accumulated: int = 1, alive: int = 1,
    ) -> None:  # fmt: skip
        self.start = time.perf_counter()
        self.sizing = Sizing(graph, mesh, device, options, sizes_of(options, graph), accumulated, alive)
        self.network = Network(self.sizing, folded)

    @cached_property
    def programme(self) -> Programme:
        """The decisions with their costs."""
        return self.network.programme

    def plan(self, memory: float | None = None) -> Plan:
        """The plan of least time that fits into `memory`, by default a device's; raises OptionsError."""
        limit = self.sizing.device.memory if memory is None else memory
        found = self._solved([np.ones(len(u.states), bool) for u in self.network.units], limit)
        if found is None:
            raise self._too_large()
        return self.as_plan("planned", found)

    def baseline(self, name: str) -> Plan:
        """The plan of a baseline: the least time that its restrictions allow, within the memory where that is possible.

        Raises OptionsError.
        """
        self.start = time.perf_counter()
        allowed = masks(name, self.network)
        found = self._solved(allowed, self.sizing.device.memory) or self._solved(allowed, math.inf)
        if found is None:
            raise OptionsError(f"{name} is not possible here.", "Choose another baseline.")
        return self.as_plan(name, found)

    def baselines(self) -> dict[str, Plan | str]:
        """All of them; for one that is not possible, the reason."""
        found: dict[str, Plan | str] = {}
        for name in BASELINES:
            try:
                found[name] = self.baseline(name)
            except OptionsError as error:
                found[name] = error.message
        return found

    # -- solving

    def _solved(self, allowed: Sequence[Mask], limit: float) -> Solution | None:
        """The least time within a limit of memory, for every limit of transient activations that matters."""
        peaks = [u.peak for u in self.network.units]
        highest = max((float(p[m].max()) for p, m in zip(peaks, allowed, strict=True) if len(p)), default=0.0)
        lowest = max((float(p[m].min()) for p, m in zip(peaks, allowed, strict=True) if len(p)), default=0.0)
        if math.isinf(limit):
            return self.solved_within(allowed, limit)
        free = self.solved_within(allowed, limit - lowest)
        if free is None or self._peak(free.choice) + free.bytes <= limit:
            return free
        values = sorted({float(x) for p in peaks for x in p if lowest <= x <= highest})
        reached = self._peak(free.choice)
        if reached - lowest <= SPREAD * limit:
            values = [reached]
        elif len(values) > THRESHOLDS:
            values = [values[round(i * (len(values) - 1) / (THRESHOLDS - 1))] for i in range(THRESHOLDS)]
        best: Solution | None = None
        for most in values:
            within = [m & (p <= most) for m, p in zip(allowed, peaks, strict=True)]
            found = self.solved_within(within, limit - most)
            if found is not None and (best is None or found.seconds < best.seconds):
                best = found
        return best and replace(best, bound=min(best.seconds, free.bound))

    def solved_within(self, allowed: Sequence[Mask], limit: float) -> Solution | None:
        """The least time with only the allowed states, whose memory is at most `limit`; None if there is none."""
        kept = [np.flatnonzero(m) for m in allowed]
        if any(not len(k) for k in kept):
            return None
        part = restricted(self.programme, kept)
        found = solve(part, limit)
        return found and replace(found, choice=tuple(int(k[c]) for k, c in zip(kept, found.choice, strict=True)))

    def _peak(self, choice: Sequence[int]) -> float:
        return max((float(u.peak[c]) for u, c in zip(self.network.units, choice, strict=True)), default=0.0)

    # -- results

    def as_plan(self, name: str, found: Solution) -> Plan:
        """A solution as a plan."""
        network, sizing = self.network, self.sizing
        states = [u.states[c] for u, c in zip(network.units, found.choice, strict=True)]
        moves = tuple(self._moves(states))
        compute = sum(float(u.seconds[c]) * u.count for u, c in zip(network.units, found.choice, strict=True))
        held = sum(float(u.memory[c]) * u.count for u, c in zip(network.units, found.choice, strict=True)
                   if u.key[0] == "weight")  # fmt: skip
        activations = self._peak(found.choice) + found.bytes - held
        communication = sum(m.seconds(sizing.device, sizing.accumulated) for m in moves)
        names = {n: s.name for n, i in self._numbers() if isinstance(s := states[i], Strategy)}
        weights = {w: float(network.units[network.of[key]].memory[found.choice[network.of[key]]])
                   for w, key in network.weights.items()}  # fmt: skip
        return Plan(
            name, sizing.mesh, sizing.device, sizing.options, self._shardings(states, moves), names,
            tuple(m for m in moves if m.before != m.after or m.collectives), compute, communication, held, activations,
            found.bound, time.perf_counter() - self.start, len(network.units), tuple(self.notes()),
            {n: float(network.units[i].seconds[found.choice[i]]) for n, i in self._numbers()},
            {n: float(network.units[i].memory[found.choice[i]]) for n, i in self._numbers()}, weights,
        )  # fmt: skip

    def _numbers(self) -> Iterable[tuple[str, int]]:
        """(node, number of its unit) of the nodes that decide."""
        for node in self.sizing.graph:
            number = self.network.of.get(("node", self.network.class_of[node.id]))
            if number is not None and node.id in self.network.calls:
                yield node.id, number

    def _moves(self, states: Sequence[State]) -> Iterable[Move]:
        for link, source, reader in self.network.instances:
            given, wanted = self.network.units[link.source].gives(states[link.source], link.out)
            taken, arising = self.network.units[link.user].takes(states[link.user], link.port)
            forward = self.network.forward(link, given, taken)
            backward = self.network.backward(link, arising, wanted)
            name = "" if not reader else f"result {reader[1]}" if reader[0] == "result" else reader[1]
            yield Move(source[-1], link.out, name, link.port, given, taken, forward, backward, link.times,
                       source[0] == "weight")  # fmt: skip

    def _shardings(self, states: Sequence[State], moves: Sequence[Move]) -> dict[str, Sharding]:
        mesh = self.sizing.mesh.shape
        whole, numbers = ("R",) * len(mesh), dict(self._numbers())
        weights = self._weight_placements(states)
        results = {m.reader: m.after for m in moves if m.reader.startswith("result ")}
        found: dict[str, Sharding] = {}
        for node in self.sizing.graph:
            number = numbers.get(node.id)
            if node.call == "output":
                ports = {in_port(i): results.get(f"result {i}", whole) for i in range(len(node.inputs))}
            elif number is not None:
                state = states[number]
                assert isinstance(state, Strategy)
                ports = state.ports | {p: weights[w] for p, w in node.weights.items() if w in weights}
            elif node.call == "get_attr" and node.weights.get("value") in weights:
                ports = {"data_out": weights[node.weights["value"]]}
            else:
                ports = dict.fromkeys(node.ports, whole)
            found[node.id] = Sharding(mesh, ports)
        return found | dict(self._inputs(found))

    def _weight_placements(self, states: Sequence[State]) -> dict[str, Placements]:
        found: dict[str, Placements] = {}
        for name, key in self.network.weights.items():
            state = states[self.network.of[key]]
            assert not isinstance(state, Strategy)
            found[name] = state.placements
        return found

    def _inputs(self, found: dict[str, Sharding]) -> Iterable[tuple[str, Sharding]]:
        """Inputs of the model in the placement that all their readers need, since each rank can be given its part."""
        needs: dict[str, set[Placements]] = {}
        for node in self.sizing.graph:
            call = self.network.calls.get(node.id)
            inputs = call.inputs if call else tuple(_tensors(node))
            for port, ref in inputs:
                needs.setdefault(ref.node, set()).add(found[node.id].ports.get(port, ()))
        for node in self.sizing.graph.placeholders:
            if len(readers := needs.get(node.id, set())) == 1 and () not in readers:
                yield node.id, Sharding(self.sizing.mesh.shape, {"data_out": readers.pop()})

    # -- what does not divide or fit

    def check_mesh(self) -> None:
        """Raise OptionsError if no layer can be split along an axis."""
        for axis, n in enumerate(self.network.mesh):
            if n == 1 or any(self._splits(axis)):
                continue
            sizes = heads_of(self.network) + widths_of(self.network)
            fitting = ", ".join(map(str, divisors(math.gcd(*sizes))[:12])) if sizes else ""
            hint = f"Axes of {fitting} devices would divide its layers" if fitting else "Use one device"
            raise OptionsError(f"An axis of {n} devices divides no width, no heads and no batch of this model.",
                               f"{hint}, or give a batch_size that {n} divides.")  # fmt: skip

    def _splits(self, axis: int) -> Iterable[bool]:
        units = [u for u in self.network.units if u.call]
        for unit in [u for u in units if u.call and macs(u.call.node, self.sizing.sizes)] or units:
            yield any(isinstance(s, Strategy) and s.names[axis] not in (REPLICATED, "partial") for s in unit.states)

    def notes(self) -> Iterable[str]:
        """What an axis does not divide, with the sizes that would."""
        for n in dict.fromkeys(self.network.mesh):
            for what, sizes in (("heads", heads_of(self.network)), ("width", widths_of(self.network))):
                odd = [s for s in sizes if s % n]
                if n > 1 and odd:
                    text = ", ".join(map(str, divisors(odd[0])[:12])) or "no number of"
                    many = f"a {what} of {odd[0]}" if what == "width" else f"{odd[0]} {what}"
                    yield f"{n} devices do not divide {many}; {text} devices would."

    def _too_large(self) -> OptionsError:
        sizing, need = self.sizing, self._least()
        mesh = sizing.mesh.shape
        each = f"each of {math.prod(mesh)} devices" if math.prod(mesh) > 1 else "the device"
        text = (f"The model needs at least {amount(need)} of {each}; "
                f"a device has {amount(sizing.device.memory)}.")  # fmt: skip
        while math.prod(mesh) < MOST_DEVICES:
            mesh = (*mesh[:-1], mesh[-1] * 2)
            larger = Planner(sizing.graph, Mesh(mesh), sizing.device, sizing.options)
            if larger._least() <= sizing.device.memory:
                return OptionsError(text, f"A mesh of {Mesh(mesh)} ({math.prod(mesh)} devices) would do.")
        return OptionsError(text, "Choose devices with more memory, or a smaller batch.")

    def _least(self) -> float:
        """The least memory of any plan."""
        peak = max((float(u.peak.min()) for u in self.network.units), default=0.0)
        return peak + sum(float(u.memory.min()) * u.count for u in self.network.units)


def _tensors(node: Node) -> Iterable[tuple[str, Ref]]:
    """(port, source) of the tensors that a node which decides nothing reads; the size of a tensor is no read."""
    if node.op != "sym_size":
        for i, ref in enumerate(node.inputs):
            yield in_port(i), ref
