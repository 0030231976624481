"""Quantises Linears by a preset that is known by its name."""

from __future__ import annotations

from espalier.model.errors import PassError
from espalier.model.formats.base import Format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import offered
from espalier.model.graph.ports import weight_at
from espalier.passes.base import Context, Report, Row, transform
from espalier.passes.choices.presets import (
    PRESETS,
    QuantizePresetOptions,
    by_channel,
    group_of,
    in_dtype,
    in_group,
)
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.heads import output_layers
from espalier.passes.left_float import left_float
from espalier.passes.select import Select, chosen
from espalier.passes.transform.quantize import quantize


@transform("quantize_preset", "Quantise by preset", QuantizePresetOptions, instant=True)
def quantize_preset(graph: Graph, options: QuantizePresetOptions, context: Context) -> tuple[Graph, Report]:
    """Set the formats of a preset for weights and inputs of Linears; the output layer of a language model stays float.

    Names and schemes are those of compressed-tensors and llm-compressor: `w4a16_g128` is W4A16, `w8a8_dynamic` W8A8,
    with a scale of each token from the data. As there, Linears are modules: experts that are fused in one parameter and
    routers that are functions of one stay float, unless they are selected; `float` in the report says how much. Scales
    are stored in the weight's own type. For a group size that does not divide a row, an error names the layer, or with
    `uneven = "channel"` the row has one scale.
    """
    able = chosen(graph, options.select, lambda n: n.op == "linear" and "weight" in offered(n), "quantised by a preset")
    heads = frozenset[str]() if options.head else output_layers(graph)
    others = any(n.call == "call_module" for n in able) and options.select == Select()
    rows: list[Row] = []
    rules: dict[tuple[tuple[str, Format], ...], list[str]] = {}
    uneven: list[tuple[Node, int]] = []
    for node in able:
        name = weight_at(node, "weight", graph)
        why = _excluded(node, name, heads, others)
        if why or name is None:
            rows.append({"node": node.id, "skipped": why})
            continue
        formats, columns = _formats(node, name, graph, options)
        if columns:
            uneven.append((node, columns))
        rules.setdefault(tuple(formats.items()), []).append(node.id)
    _check(rules, uneven, options, able[0].id)
    named = tuple(Rule(Select("name", tuple(ids)), dict(formats)) for formats, ids in rules.items())
    after, report = quantize(graph, QuantizeOptions(named), context)
    summary: Row = {"preset": options.preset, **report.summary, "skipped": len(rows)}
    if uneven:
        summary["by_channel"] = len(uneven)
    if text := left_float(after):
        summary["float"] = text
    return after, Report("quantize_preset", (*report.rows, *rows), summary)


def _excluded(node: Node, name: str | None, heads: frozenset[str], layers: bool) -> str:
    """Why a Linear stays float; empty for one that does not. `layers`: the model's Linears are modules."""
    if name is None:
        return "its weight is computed"
    if node.id in heads:
        return "the output layer of a language model"
    return "a function of a parameter, such as a router, not a Linear" if layers and node.call != "call_module" else ""


def _formats(node: Node, name: str, graph: Graph, options: QuantizePresetOptions) -> tuple[dict[str, Format], int]:
    """(port → format, length of a row that groups do not divide, else 0)."""
    preset, stored = PRESETS[options.preset], graph.weights[name]
    weight = in_dtype(in_group(preset.weight, options.group), stored.dtype)
    columns = stored.shape[0] if node.attrs.get("class") == "Conv1D" else stored.shape[-1]
    group = group_of(weight)
    divided = group is None or not columns % group
    formats: dict[str, Format] = {"weight": weight if divided else by_channel(weight)}
    if preset.data_in is not None:
        formats["data_in"] = in_dtype(preset.data_in, node.ports["data_in"].dtype)
    return formats, 0 if divided else columns


def _check(
    rules: dict[tuple[tuple[str, Format], ...], list[str]],
    uneven: list[tuple[Node, int]],
    options: QuantizePresetOptions,
    first: str,
) -> None:
    if not rules:
        raise PassError("Only the output layer was selected, which presets leave in float.", "Set head = true.", first)
    if uneven and options.uneven == "error":
        node, columns = uneven[0]
        group = options.group or group_of(PRESETS[options.preset].weight)
        more = f" (and {len(uneven) - 1} more layers)" if len(uneven) > 1 else ""
        raise PassError(
            f"Groups of {group} do not divide the {columns} inputs of {node.id}{more}.",
            f"Choose another group{_divisor([c for _, c in uneven], group or 0)}, or one scale for such rows: "
            'uneven = "channel" (--uneven channel).',
            node.id,
        )


def _divisor(columns: list[int], below: int) -> str:
    """The largest power of two below the group that divides all rows."""
    powers = [1 << k for k in range(3, 13) if 1 << k < below and not any(c % (1 << k) for c in columns)]
    return f", such as {powers[-1]}" if powers else ""
