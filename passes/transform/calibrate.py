"""Calibrates formats on data: fraction widths, exponent biases, static scales."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import OptionsError, PassError, nearest
from espalier.model.formats.base import Format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.caches import OP
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.ports import weight_at
from espalier.model.graph.views import SCALES, STATIC
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.quantize import PORTS
from espalier.passes.choices.scale_names import scale_name
from espalier.passes.observed.difference import Difference, compare
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.observed.row_scales import RowValues, row_values
from espalier.passes.observed.scales import activation_scale, one_scale, weight_scale
from espalier.passes.observed.shift_selection import Method, chosen_shift, ends, shift_of
from espalier.passes.observed.stored_tensors import stored_scale, weight_in_view
from espalier.passes.observed.tensor_statistics import PortRef, TensorStatistics, operands, rows_of, stream
from espalier.passes.select import Select, chosen

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CalibrateOptions(ObserveOptions):
    """Selected formats, data and method."""

    split: str = field(default="train", metadata={"help": "must not be the split that is scored", "edit": "split"})
    select: Select = field(default=Select(), metadata={"help": "nodes whose formats are calibrated"})
    ports: tuple[str, ...] = field(default=(), metadata={"help": "ports, such as weight, data_in; empty: all"})
    method: Method = field(
        default="mse",
        metadata={"help": "minmax: cover all values; percentile: so many of them; mse: least squared error; "
                          "entropy: least divergence of the distribution"},
    )  # fmt: skip
    percentile: float = field(default=99.9, metadata={"min": 50.0, "max": 100.0, "help": "for percentile, in %"})

    def __post_init__(self) -> None:
        for port in self.ports:
            if port.rstrip("0123456789_") not in PORTS:
                raise OptionsError(f"ports: {port!r} is not a port.", nearest(port, PORTS))
        if not 50 <= self.percentile <= 100:
            raise OptionsError(f"percentile is {self.percentile:g}.", "It must be from 50 to 100.")


@transform("calibrate", "Calibrate formats", CalibrateOptions)
def calibrate(graph: Graph, options: CalibrateOptions, context: Context) -> tuple[Graph, Report]:
    """Fit the formats of the selected nodes to weights and data: fraction widths, exponent biases and static scales.

    Integers get a new frac_width, minifloats and log a new exponent_bias. Formats with a scale get a static one:
    weights one per row, group or tensor, activations one per tensor, caches also one per head or channel. Activations
    are those of the float model with masks, so formats do not influence one another. Without data, only weights are
    fitted.
    """
    ports = _ports(graph, options)
    streams = _streamed(graph, ports, options, context)
    work = _Calibration(graph, options, context, streams, _rows(graph, ports, options, context))
    for i, (node, port) in enumerate(ports):
        context.progress(i, len(ports), node.id)
        work.fit(node, port)
    after = graph.replace(*work.nodes.values()).with_weights(work.weights)
    return after, Report("calibrate", tuple(work.rows), _summary(work.rows, len(ports)))


def _summary(rows: list[Row], ports: int) -> Row:
    """The number of fitted ports, of others (no data, or one scale per row), and mean SQNRs."""
    both = [r for r in rows if r["sqnr_before_db"] is not None and r["sqnr_db"] is not None]
    mean = {k: sum(r[k] for r in both) / len(both) if both else None for k in ("sqnr_before_db", "sqnr_db")}
    changed = sum(r["before"] != r["after"] for r in rows)
    return {"ports": len(rows), "changed": changed, "left": ports - len(rows),
            "mean_sqnr_before_db": mean["sqnr_before_db"], "mean_sqnr_db": mean["sqnr_db"]}  # fmt: skip


# -- which ports


def _ports(graph: Graph, options: CalibrateOptions) -> list[tuple[Node, str]]:
    nodes = chosen(graph, options.select, lambda n: n.call not in ("placeholder", "output"), "calibrated")
    ports = [(n, p) for n in nodes for p, c in n.precision.items()
             if _is_calibratable(c.format) and (not options.ports or p in options.ports)]  # fmt: skip
    if not ports:
        formats = {c.format.name for n in nodes for c in n.precision.values()}
        where = " on these ports" if options.ports else ""
        note = f" (their formats: {', '.join(sorted(formats))})" if formats else ", since they have no formats"
        raise PassError(f"The {len(nodes)} selected nodes have nothing to calibrate{where}{note}.",
                        "Choose formats first: integer, a minifloat, log, or one with a scale.")  # fmt: skip
    return ports


def _is_calibratable(fmt: Format) -> bool:
    return fmt.shift is not None or isinstance(fmt, ScaledFormat)


def _streamed(
    graph: Graph, ports: list[tuple[Node, str]], options: CalibrateOptions, context: Context
) -> dict[PortRef, TensorStatistics]:
    """Statistics of the activations among the ports; empty without data."""
    computed = [(n, p) for n, p in ports if weight_at(n, p, graph) is None]
    observed = {
        (n.id, p): operands(n, p)
        for n, p in computed
        if _fits_activations(n.precision[p].format) and not _has_static_rows(n)
    }
    if not options.data:
        if len(computed) == len(ports):
            raise PassError("Activations cannot be calibrated without data.", "Name some data, such as demo:reviews.")
        return {}
    if not observed:
        return {}
    from espalier.passes.running.splits import calibration_split

    split = calibration_split(options, context)
    return stream(_plain(graph), split, options.batch_size, observed, context, _needs_histogram(options))


def _rows(
    graph: Graph, ports: list[tuple[Node, str]], options: CalibrateOptions, context: Context
) -> dict[PortRef, RowValues]:
    """Values of cached keys and values that have a static scale for each head or channel; empty without data."""
    wanted = [(n.id, p) for n, p in ports if _has_static_rows(n)]
    if not options.data or not wanted:
        return {}
    from espalier.passes.running.splits import calibration_split

    return row_values(_plain(graph), calibration_split(options, context), options.batch_size, wanted, context)


def _has_static_rows(node: Node) -> bool:
    """Whether the rows of a node's format are heads or channels of a cache."""
    return node.op == OP and node.attrs.get(SCALES) in STATIC


def _plain(graph: Graph) -> Graph:
    return graph.replace(*(replace(n, precision={}) for n in graph))


def _needs_histogram(options: CalibrateOptions) -> bool:
    return options.method in ("percentile", "entropy")


def _fits_activations(fmt: Format) -> bool:
    return not isinstance(fmt, ScaledFormat) or one_scale(fmt)


# -- the work


class _Calibration:
    """Fits ports one by one; collects changed nodes and new weights."""

    def __init__(
        self,
        graph: Graph,
        options: CalibrateOptions,
        context: Context,
        streams: dict[PortRef, TensorStatistics],
        row_values: dict[PortRef, RowValues],
    ) -> None:
        self.graph, self.options, self.context = graph, options, context
        self.streams, self.row_values = streams, row_values
        self.nodes: dict[str, Node] = {}
        self.weights: dict[str, Weight] = {}
        self.rows: list[Row] = []
        self._scales: dict[Any, str] = {}

    def fit(self, node: Node, port: str) -> None:
        """Fit one port, if it has values."""
        import torch

        if weight_at(node, port, self.graph) is not None:
            x = self._stored(node, port)
            found = TensorStatistics.empty(self.context.seed, _needs_histogram(self.options))
            found.add(rows_of(x, None))
        elif (node.id, port) in self.row_values:
            values = self.row_values[node.id, port]
            x, found = values.sample(), values.statistics
        elif (node.id, port) in self.streams:
            found = self.streams[node.id, port]
            x = torch.from_numpy(found.sample.rows)
        else:
            return
        if not found.moments.count:
            text = f"{node.id}.{port} has no finite value to calibrate to."
            raise PassError(text, "Look at its statistics, or leave it out of the selection.", node.id)
        self._fit(node, port, x, found)

    def _stored(self, node: Node, port: str) -> Tensor:
        """The stored tensors that take their format from the port; several of them in a row."""
        import torch

        stored = [p for p in operands(node, port) if weight_at(node, p, self.graph) is not None]
        found = [weight_in_view(node, p, self.graph, self.context.store) for p in stored]
        return found[0] if len(found) == 1 else torch.cat([x.reshape(-1) for x in found])

    def _fit(self, node: Node, port: str, x: Tensor, found: TensorStatistics) -> None:
        before = node.precision[port]
        after = self._chosen(node, port, x, found)
        now = self.nodes.get(node.id, node)
        self.nodes[node.id] = replace(now, precision={**now.precision, port: after})
        was, is_ = self._error(before, x), self._error(after, x)
        low, high = (None, None) if after.format.rowwise else ends(after.format)
        self.rows.append({
            "node": node.id, "port": port, "format": after.label, "parameter": after.format.shift or "scale",
            "before": _value(before), "after": _value(after),
            "sqnr_before_db": was.sqnr_db, "sqnr_db": is_.sqnr_db,
            "max_error_before": was.max_error, "max_error": is_.max_error,
            "saturated_before": was.saturated, "saturated": is_.saturated,
            "underflow_before": was.underflow, "underflow": is_.underflow,
            "min": found.moments.low, "max": found.moments.high, "low": low, "high": high,
            "elements": found.moments.count,
        })  # fmt: skip

    def _error(self, precision: Precision, x: Tensor) -> Difference:
        known = self.graph.with_weights(self.weights)
        return compare(precision.format, x, stored_scale(precision, known, self.context.store))

    def _chosen(self, node: Node, port: str, x: Tensor, found: TensorStatistics) -> Precision:
        held, method, percentile = node.precision[port], self.options.method, self.options.percentile
        if not isinstance(held.format, ScaledFormat):
            return replace(held, format=chosen_shift(held.format, found, method, percentile))
        if weight_at(node, port, self.graph) is not None or (node.id, port) in self.row_values:
            scale = weight_scale(held.format, x, method, percentile)
        else:
            scale = activation_scale(held.format, found, method, percentile)
        return replace(held, scale=self._kept(node, port, scale))

    def _kept(self, node: Node, port: str, scale: Tensor) -> str:
        """The name under which the scale is a weight of the graph; uses of one tensor in one format share it."""
        from espalier.model.torch.tensors import to_numpy

        pruned = node.sparsity.get(port)
        source = weight_at(node, port, self.graph) or (node.target if self.graph.runs == "module" else node.id, port)
        use = source, str(node.precision[port].format), pruned.mask if pruned else None
        if use not in self._scales:
            known = {**self.graph.weights, **self.weights}
            self._scales[use] = node.precision[port].scale or scale_name(node, port, known)
        value = to_numpy(scale.clone())
        key = self.context.store.hold(value)
        self.weights[self._scales[use]] = Weight(key, value.shape, value.dtype, "buffer", False)
        return self._scales[use]


def _value(precision: Precision) -> int | str:
    """The shift in force, or the name of the scale; `own` where the tensor gives it."""
    return precision.scale or "own" if precision.format.shift is None else shift_of(precision.format)
