"""Measures what each row of a difference costs by itself: the divergence of A with that row alone taken from B."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import xxhash

from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import EspalierError, JobError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.divergence import against
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.comparison.alone import changes_in, with_changes
from espalier.passes.comparison.diff import compare_graphs
from espalier.passes.comparison.groups import Group
from espalier.passes.figure import OPENED
from espalier.passes.running.splits import EvaluateOptions, load_task, measured_split

if TYPE_CHECKING:
    from espalier.passes.sensitivity.candidate_cache import CandidateCache
    from espalier.passes.sensitivity.measure import Baseline

UNFIT = (RuntimeError, TypeError, ValueError, IndexError)


@dataclass(frozen=True, slots=True)
class ChangeDivergenceOptions(EvaluateOptions):
    """The data; `baseline`: how reports call the graph that the differences are taken over to."""

    baseline: str = field(default=OPENED, metadata={"help": "name of the baseline graph"})
    AGAINST_BASE: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RowDivergence:
    """What one row of a difference costs alone. `index`: of the row among the groups of the difference.

    `kl`: divergence of the outputs with it from A's, in nats a sample (see `Outputs.words`); None where it cannot be
    taken over alone, with the reason in `note`.
    """

    index: int
    kl: float | None
    note: str = ""


@analysis("change_divergence", "Divergence by change", ChangeDivergenceOptions)
def change_divergence(graph: Graph, options: ChangeDivergenceOptions, context: Context) -> tuple[Graph, Report]:
    """KL divergence of the outputs that each change since the opened model causes by itself, on the same samples.

    For each row of the difference (equal changes of twins are one): KL(P ‖ Q), averaged over the samples, where P are
    the outputs of the model as opened and Q its outputs with that row's changes alone. The sum of the rows need not be
    the divergence of all together, `together`. Results are cached on disk, so that an interrupted run resumes.
    """
    base = graph if context.base is None else context.base
    baseline = against(base, options, context)
    # One of an earlier job may have been measured: an equal graph of other objects, and with other notes.
    a = base.sharing([baseline.graph])
    b = graph.sharing([a])
    diff = compare_graphs(a, b)
    groups = diff.groups(a, b)
    measuring = _Measuring(a, baseline, options, context)
    found: dict[int, RowDivergence] = {}
    graphs: list[tuple[int, Graph]] = []
    for index, group in enumerate(groups):
        try:
            after = with_changes(a, b, changes_in(group, diff.changes), diff.pairing.pairs)
        except EspalierError as error:
            found[index] = RowDivergence(index, None, error.message)
        else:
            graphs.append((index, after))
    for row in found.values():
        context.found(row)
    for row in measuring.rows(graphs, groups):
        context.found(row)
        found[row.index] = row
    rows = tuple(_row(groups[i], found[i]) for i in sorted(found))
    summary: Row = {"changes": len(rows), "n": baseline.samples, "baseline": options.baseline,
                    "what": baseline.outputs.words, "together": measuring.together(b)}  # fmt: skip
    return graph, Report("change_divergence", rows, summary)


def _row(group: Group, found: RowDivergence) -> Row:
    return {"row": group.label, "what": group.what, "nodes": len(group.nodes), "kl": found.kl, "note": found.note}


class _Measuring:
    """The measured graphs of one baseline, on disk and by their differences from it.

    `base`: the graph whose nodes they share where they are unchanged; it computes what the baseline does.
    """

    def __init__(self, base: Graph, baseline: Baseline, options: EvaluateOptions, context: Context) -> None:
        self._base, self._baseline, self._context = base, baseline, context
        self._order = {name: i for i, name in enumerate(base.nodes)}
        self._cache = _cache(base, options, context)

    def rows(self, graphs: Sequence[tuple[int, Graph]], groups: Sequence[Group]) -> Iterator[RowDivergence]:
        """Known rows first, then the others by their first node, so that those of one node share the run before it."""
        waiting: list[tuple[int, Graph]] = []
        for index, graph in graphs:
            kept = self._cache.known(self._name(graph))
            if graph is self._base:
                yield RowDivergence(index, 0.0)
            elif kept is not None:
                yield RowDivergence(index, kept.kl)
            else:
                waiting.append((index, graph))
        waiting.sort(key=lambda pair: self._first(pair[1]))
        while waiting:
            yield from self._walked(waiting, groups)

    def _walked(self, waiting: list[tuple[int, Graph]], groups: Sequence[Group]) -> Iterator[RowDivergence]:
        """Measure from the front of `waiting`, up to a graph that cannot run."""
        total = len(waiting)
        walk = self._baseline.walk(graph for _, graph in tuple(waiting))
        while waiting:
            index, graph = waiting[0]
            self._context.progress(total - len(waiting), total, groups[index].label)
            try:
                measured = next(walk)
            except JobError:
                raise
            except EspalierError as error:
                yield self._failed(waiting, error.message)
                return
            except UNFIT as error:  # torch's own, of operations that do not take these shapes
                yield self._failed(waiting, f"It needs other changes: {str(error).splitlines()[0][:120]}")
                return
            del waiting[0]
            self._cache.keep(self._name(graph), measured)
            yield RowDivergence(index, measured.kl)

    @staticmethod
    def _failed(waiting: list[tuple[int, Graph]], note: str) -> RowDivergence:
        return RowDivergence(waiting.pop(0)[0], None, note)

    def together(self, graph: Graph) -> float | None:
        """The divergence of all changes together; None where the outputs cannot be compared."""
        try:
            return self._baseline.measure(graph).kl
        except JobError:
            raise
        except (EspalierError, *UNFIT):
            return None

    def _first(self, graph: Graph) -> int:
        """The position of the first node that differs."""
        base = self._base
        changed = {k for k, w in graph.weights.items() if base.weights.get(k) != w}
        differ = (i for i in self._order if graph.nodes.get(i) is not base.nodes[i]
                  or changed & set(base.nodes[i].tensors))  # fmt: skip
        return min((self._order[i] for i in differ), default=0)

    def _name(self, graph: Graph) -> str:
        """A hash of how a graph differs from the baseline."""
        base = self._base
        nodes = [repr(n) for n in graph if base.nodes.get(n.id) is not n]
        weights = sorted((k, repr(w)) for k, w in graph.weights.items() if base.weights.get(k) != w)
        return xxhash.xxh3_128_hexdigest(repr((nodes, weights)).encode("utf-8", "surrogatepass"))


def _cache(graph: Graph, options: EvaluateOptions, context: Context) -> CandidateCache:
    """By the contents of the graph and of the samples."""
    from espalier.passes.sensitivity.candidate_cache import CandidateCache
    from espalier.passes.sensitivity.gradient_statistics import key_of

    task = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(task, options.split, options.limit)
    inputs = (v for pair in sorted(split.inputs.items()) for v in pair)
    return CandidateCache(key_of("changes", fingerprint(graph), split.labels, split.task, split.table, *inputs))
