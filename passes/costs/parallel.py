"""What hardware can compute of a node in a cycle, from shapes alone, and the least of it that keeps a pace.

The lowering knows this exactly, with weights at hand; here it is a closed form for costs, budgets and searches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Parallel
from espalier.passes.choices.parallelize import ParallelizeOptions, ParallelRule
from espalier.passes.score import one_sample
from espalier.passes.select import Select
from espalier.verilog.lowering.parallelism import at_most, divisors, product

LAYERS = ("linear", "conv1d", "conv2d", "matmul")
ROWS = ("softmax", "layer_norm", "rms_norm")  # a row by itself, some elements a cycle


@dataclass(frozen=True, slots=True)
class Product:
    """A node's work in one sample: `rows` (of all `matrices` together), inputs, outputs; `able`: rows at once."""

    rows: int
    inputs: int
    outputs: int
    matrices: int = 1
    able: int = 1
    window: int = 0  # cycles that a window takes with one channel a beat
    channels: int = field(default=1)  # of the window

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Inputs, outputs, rows that can be computed at once."""
        return self.inputs, self.outputs, self.able

    def cycles(self, at_once: Parallel) -> int:
        """Of a sample."""
        work = math.prod(
            math.ceil(size / n)
            for size, n in ((self.rows, at_once.tokens), (self.inputs, at_once.inputs),
                            (self.outputs, at_once.outputs))
        )  # fmt: skip
        return max(work, self.window // math.gcd(at_once.inputs, self.channels))


def product_of(node: Node, graph: Graph) -> Product | None:
    """None for what hardware does not compute in parts."""
    sizes = one_sample(graph)
    if node.op in ROWS and "data_in" in node.ports:
        x = node.ports["data_in"].sizes(sizes)
        return Product(math.prod(x[:-1]), x[-1], 1)
    if node.op not in LAYERS or not {"data_in", "weight"} <= set(node.ports):
        return None
    x, w = node.ports["data_in"].sizes(sizes), node.ports["weight"].sizes(sizes)
    if node.op == "linear":
        rows = math.prod(x[:-1])
        return Product(rows, w[1], w[0], able=rows)
    if node.op == "matmul":
        return Product(math.prod(x[:-1]), w[-2], w[-1], math.prod(w[:-2]), able=x[-2])
    groups, places = x[1] // w[1], math.prod(node.ports["data_out"].sizes(sizes)[2:])
    taps = math.prod(w[2:])
    if groups == w[0] and w[1] == 1:  # depthwise: some channels side by side, tap by tap
        return Product(places * taps, w[0], 1, window=places * taps * x[1], channels=x[1])
    return Product(places * groups, math.prod(w[1:]), w[0] // groups, groups, 1, places * taps * x[1], w[1])


def with_products(node: Node, graph: Graph, products: int) -> Node:
    """The node with at most so many products a cycle; as it is where it has none."""
    found = product_of(node, graph)
    return replace(node, parallel=at_most(found.sizes, products)) if found else node


def paced(
    graph: Graph, cycles: float, price: Callable[[Node, Graph], float] = lambda node, graph: 0.0
) -> dict[str, Parallel]:
    """The least parallelism of each node with which it takes at most so many cycles a sample.

    Of the ways to the fewest products the one of the lowest `price`. Raises OptionsError where a node cannot.
    """
    found: dict[str, Parallel] = {}
    for node in graph:
        work = product_of(node, graph)
        if work is None:
            continue
        ways = [p for p in _ways(work) if work.cycles(p) <= cycles]
        if not ways:
            least = min(work.cycles(p) for p in _ways(work))
            text = f"cycles<={cycles:g} cannot be held: {node.id} takes {least} with all at once."
            raise OptionsError(text, "Raise it.", node.id)
        fewest = min(map(product, ways))
        found[node.id] = min((p for p in ways if product(p) == fewest),
                             key=lambda p: (price(replace(node, parallel=p), graph), _lopsided(p)))  # fmt: skip
    return found


def _ways(work: Product) -> Iterable[Parallel]:
    """Inputs and outputs at once in every way; rows only when both are whole."""
    yield from (Parallel(i, o) for i in divisors(work.inputs) for o in divisors(work.outputs))
    yield from (Parallel(work.inputs, work.outputs, t) for t in divisors(work.able)[1:])


def _lopsided(parallel: Parallel) -> float:
    return max(parallel.inputs, parallel.outputs) / min(parallel.inputs, parallel.outputs)


def step_of(chosen: dict[str, Parallel]) -> Step:
    """The step that gives nodes their parallelism; equal ones share a rule."""
    names: dict[Parallel, list[str]] = {}
    for name, each in chosen.items():
        names.setdefault(each, []).append(name)
    rules = tuple(ParallelRule(Select("name", tuple(nodes)), p.inputs, p.outputs, p.tokens)
                  for p, nodes in names.items())  # fmt: skip
    return Step("parallelize", ParallelizeOptions(rules=rules))
