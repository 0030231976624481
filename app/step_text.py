"""Texts about a step of the recipe: title, options, result. Free of Qt."""

from __future__ import annotations

import contextlib
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from espalier.app.number_text import cell, percent, plural
from espalier.app.translation import message, tr
from espalier.model.document.recipe import Raw, Step
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.model.sources.info import SourceInfo
from espalier.passes.base import Report
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.edits.base import Edit
from espalier.passes.recipes.offered import typed
from espalier.passes.saved import saved_in
from espalier.passes.select import Select
from espalier.passes.transform.edit_graph import EditGraphOptions
from espalier.passes.transform.load_adapter import LoadAdapterOptions
from espalier.passes.transform.take_weights import TakeWeightsOptions


def title(step: Step) -> str:
    """The pass's title; its name if it is not installed."""
    known = step.pass_name in PASSES
    return tr(PASSES.get(step.pass_name).title) if known else tr("{} (not available)", step.pass_name)


def summary(step: Step, graph: Graph | None = None) -> str:
    """The options in one line; with `graph`, nodes are shown by name."""
    match step.options:
        case QuantizeOptions(rules=rules):
            return "; ".join(_rule(r, graph) for r in rules) or tr("no rule yet")
        case PruneOptions() as o:
            return " · ".join((selection(o.select, graph), o.method, *_pruned(o)))
        case PruneActivationsOptions() as o:
            parts = (selection(o.select, graph), o.method, o.pattern.replace("_", "-"), percent(o.sparsity, 0))
            return " · ".join(parts)
        case PruneStructuredOptions() as o:
            much = tr("{} of each", o.count) if o.count else percent(o.ratio, 0)
            return " · ".join((o.what, selection(o.select, graph), o.score, o.scope, much))
        case EditGraphOptions(edits=edits):
            return "; ".join(_edit(e, graph) for e in edits) or tr("no edit yet")
        case LoraOptions() | LoadAdapterOptions() | TakeWeightsOptions() | FreezeOptions() as o:
            return _adapting(o, graph)
        case Raw(data=data):
            return _raw(step.pass_name, data)
        case options:
            return _generic(options, graph)


def _pruned(options: PruneOptions) -> tuple[str, ...]:
    """Scope and sparsity of a pruning; only the pattern for n:m."""
    if options.pattern == "n:m" and options.sparsity:
        return (f"{options.n}:{options.m}",)
    blocks = (tr("{}×{} blocks", options.rows, options.columns),) if options.pattern == "block" else ()
    return (*blocks, options.scope, percent(options.sparsity, 0))


def _adapting(
    options: LoraOptions | LoadAdapterOptions | TakeWeightsOptions | FreezeOptions, graph: Graph | None
) -> str:
    match options:
        case LoraOptions() as o:
            more = [
                *([tr("dropout {:g}", o.dropout)] if o.dropout else []),
                *([tr("head trains")] if o.train_head else []),
            ]
            ranks = tr("rank {}", o.rank) + (tr(" and others") if o.ranks else "")
            words = (ranks, tr("alpha {:g}", o.alpha), *more) if o.rank else (tr("taken out"),)
            return " · ".join((selection(o.select, graph), *words))
        case LoadAdapterOptions(folder=folder) | TakeWeightsOptions(source=folder):
            return folder.rstrip("/").rpartition("/")[2]
        case FreezeOptions(select=select, part=part):
            return " · ".join((selection(select, graph), *([] if part in ("all", "own") else [part])))


def selection(select: Select, graph: Graph | None = None) -> str:
    """`type linear`; `intermediate.dense`; `3 nodes`; `saved selection "queries" (3 nodes)`; `all nodes`."""
    if select.by == "all":
        return tr("all nodes")
    if select.by == "name":
        many = plural(len(select.values), "node")
        return _name(select.values[0], graph) if len(select.values) == 1 else many
    if select.by == "saved" and select.nodes is not None:
        return f"{select.names} ({plural(len(select.nodes), 'node')})"
    return select.describe()


def _name(value: str, graph: Graph | None) -> str:
    node = graph.nodes.get(value) if graph else None
    path = node.target if node and node.call == "call_module" else value
    return ".".join(path.split(".")[-2:])


def _edit(edit: Edit, graph: Graph | None) -> str:
    """`gelu → relu`; `3 nodes bypass`."""
    target = selection(edit.select, graph) if edit.select else _name(edit.node, graph) if edit.node else edit.title
    return f"{target} {edit.describe()}"


def _rule(rule: Rule, graph: Graph | None) -> str:
    by_label: dict[str, list[str]] = {}
    for port, fmt in rule.formats.items():
        by_label.setdefault(fmt.label if fmt else "float", []).append(port)
    if len(by_label) == 1 and len(rule.formats) > 2:
        parts = [next(iter(by_label))]
    else:
        parts = [", ".join(f"{', '.join(p)} {label}" for label, p in by_label.items())]
    parts += [tr("gradient {}", rule.gradient)] if rule.gradient != "range" else []
    return " · ".join((selection(rule.select, graph), *parts))


def _generic(options: Any, graph: Graph | None) -> str:
    if not is_dataclass(options):
        return ""
    parts: list[str] = []
    for f in fields(options):
        value = getattr(options, f.name)
        default = (
            f.default if f.default is not MISSING else f.default_factory() if f.default_factory is not MISSING else None
        )
        if value != default:
            text = selection(value, graph) if isinstance(value, Select) else cell(value)
            parts.append(f"{f.name.replace('_', ' ')} {text}")
    return " · ".join(parts)


def _raw(name: str, data: Any) -> str:
    """The options of a plug-in's pass: those that differ from the defaults; all if the pass is not installed."""
    if name in PASSES:
        with contextlib.suppress(EspalierError):
            return _generic(typed(name, Raw(data)), None)
    items = data.items() if isinstance(data, dict) else ()
    return " · ".join(f"{str(k).replace('_', ' ')} {cell(v)}" for k, v in items)


def result(report: Report | None, step: Step | None = None) -> str:
    """The result of a step: `14 nodes`, `9 830 of 32 768 zeros`; no count of nodes if the options name each of them."""
    if report is None:
        return ""
    figures = report.summary
    if step is not None and figures.get("warning") and any(saved_in(step.options)):
        return message(str(figures["warning"]))
    if "adapters" in figures and "added" in figures:
        share = percent(figures["trainable_share"])
        return (
            tr("{} parameters added · {} train", cell(figures["added"]), share)
            if figures["adapters"]
            else tr("no adapters left")
        )
    if "fused" in figures:
        texts = {"fused": tr("{} fused"), "skipped": tr("{} skipped"), "untied": tr("{} untied")}
        return " · ".join(t.format(figures[k]) for k, t in texts.items() if figures.get(k))
    if "nodes_added" in figures:
        nodes, parameters = figures["nodes_added"], figures["parameters_added"]
        counts = ((nodes, plural(abs(nodes), "node")), (parameters, plural(abs(parameters), "parameter")))
        return " · ".join(f"{'+' if n > 0 else '−'}{text}" for n, text in counts if n)
    if "removed" in figures:
        return _removed(report)
    if "zeros" in figures and "elements" in figures:
        nodes = _node_count(len(report.rows), step)
        return " · ".join(
            t for t in (nodes, tr("{} of {} zeros", cell(figures["zeros"]), cell(figures["elements"]))) if t
        )
    if "nodes" in figures:
        return _node_count(int(figures["nodes"]), step)
    return ""


def _removed(report: Report) -> str:
    """The number of removed units and branches; the report's warning instead, if it has one."""
    figures = report.summary
    if warning := figures.get("warning"):
        return message(str(warning))
    branches = sum(r.get("kind") == "branch" for r in report.rows)
    match report.pass_name:
        case "remove_pruned":
            units = plural(int(figures["removed"]), "unit")
        case "remove_layers":
            units = plural(int(figures["removed"]), "layer")
        case _:
            units = plural(int(figures["removed"]), "node")
    parts = [units] if figures["removed"] or not branches else []
    parts += [plural(branches, "branch", "branches")] if branches else []
    return tr("{} removed", tr(" and ").join(parts))


def _node_count(nodes: int, step: Step | None) -> str:
    """`3 nodes`; empty if the step selects as many nodes by name."""
    match step.options if step else None:
        case PruneOptions(select=select) | PruneActivationsOptions(select=select):
            selects = [select]
        case QuantizeOptions(rules=rules):
            selects = [r.select for r in rules]
        case _:
            selects = []
    named = selects and all(s.listed for s in selects) and len({v for s in selects for v in s.listed}) == nodes
    return "" if named else plural(nodes, "node")


def origin(source: SourceInfo) -> str:
    """The model's source and the names of its traced inputs."""
    name = source.spec if len(source.spec) < 32 else source.name
    return f"{name} · {', '.join(source.inputs)}" if source.inputs else name
