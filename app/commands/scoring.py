"""Scores for the commands: measured if there is data, and their text."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from espalier.app.commands.command import Arguments, Parser
from espalier.app.commands.console import Console, big, count, size
from espalier.app.commands.opening import Target
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.figures.curves import figure_text, figure_title
from espalier.app.number_text import change_text, dominant_text, noise_text
from espalier.model.data.base import CLASSIFICATION
from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.passes.base import run_step
from espalier.passes.dominant import Dominant, dominant_fields
from espalier.passes.figure import OPENED, START, change_of, main_figure
from espalier.passes.plugins.kept_scores import FROM_CACHE, kept_score
from espalier.passes.running.data_fit import truncation_note
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import static_score
from espalier.passes.tasks.base import TASKS, all_metrics
from espalier.passes.uncounted import uncounted_fields
from espalier.passes.unpruned import unpruned_fields

OF_TOKENS = {"perplexity": "perplexity", "bits_per_byte": "bits per byte"}


def add_data(parser: Parser) -> None:
    """Add --data and its options."""
    add_options(parser.add_argument_group("data"), EvaluateOptions)


def data_options(args: Arguments, target: Target) -> EvaluateOptions | None:
    """Data options: --data, else the source's data, else None."""
    data = args.data or target.project.source.data
    return read_options(EvaluateOptions, args, data=data) if data else None


def score(graph: Graph, target: Target, options: EvaluateOptions | None) -> dict[str, Any]:
    """The score; metrics and loss are None without data."""
    if options is None:
        return asdict(static_score(graph)) | graph_fields(graph)
    step = Step("evaluate", options, target.context.seed)
    return dict(run_step(graph, step, target.context).report.summary) | graph_fields(graph)


def baseline_score(graph: Graph, target: Target, options: EvaluateOptions | None) -> dict[str, Any]:
    """As `score`, from the cache if the graph was measured on the same samples before."""
    if options is None:
        return score(graph, target, options)
    return kept_score(graph, options, target.context) | graph_fields(graph)


def graph_fields(graph: Graph) -> dict[str, Any]:
    """What a score says of its graph besides figures: dominant bits, nodes without a count, weights without a mask."""
    return dominant_fields(graph) | uncounted_fields(graph) | unpruned_fields(graph)


def age_text(score_: dict[str, Any], name: str) -> str:
    """Note on the date of a cached score; empty for a new measurement."""
    when = score_.get(FROM_CACHE)
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(when)) if when else ""
    return f"{name}: score from the cache of {date}; --no-cache measures it again" if date else ""


def state_name(target: Target) -> str:
    """Name of the project's present state as a baseline."""
    return START if target.project.recipe.active else OPENED


def changed(before: dict[str, Any], after: dict[str, Any], baseline: str) -> dict[str, Any]:
    """Change of the main metric: {accuracy: {baseline, value, test, within_noise}}; empty without data."""
    now, reference = main_figure(after), main_figure(before)
    same = now is not None and reference is not None and now.name == reference.name
    return {now.name: now.against(reference, baseline).to_json()} if now and reference and same else {}


def bit_lines(score_: dict[str, Any], whose: str = "") -> Iterable[str]:
    """Line on the tensor that dominates the average of stored bits, if any; `whose`: such as ` of the best`."""
    if dominant := score_.get("dominant"):
        yield f"weight bits{whose}: {dominant_text(Dominant(**dominant))}"


def noise_lines(score_: dict[str, Any], change: dict[str, Any]) -> Iterable[str]:
    """Lines below a table: dominant bits, notes on nodes, noise and change of the main metric, task, truncations."""
    yield from bit_lines(score_)
    for key in ("uncounted", "unpruned"):
        if key in score_:
            yield f"note: {score_[key]}"
    if now := main_figure(score_):
        yield f"{figure_title(now.name)}: {noise_text(now)}"
        if now.name in change:
            yield f"{figure_title(now.name)}: {change_text(change_of(change[now.name]))}"
    yield from _task_lines(score_)
    if text := truncation_note(score_):
        yield f"texts: {text}"


def _task_lines(score_: dict[str, Any]) -> Iterable[str]:
    """The task if it is no classification, and the intervals of its further metrics."""
    name = score_.get("task", CLASSIFICATION)
    if name != CLASSIFICATION:
        loss = TASKS.get(name).loss_text
        size = f", in batches of {score_['batch_size']}" if "batch_size" in score_ else ""
        yield f"task: {name}; the loss is the {loss}{size}"
    for key, ends in score_.get("intervals", {}).items():
        if key not in ("loss", score_.get("metric")):
            low, high = (figure_text(key, end) for end in ends)
            yield f"{figure_title(key)}: 95\u2009% interval {low} to {high}"


def plain(score_: dict[str, Any]) -> dict[str, Any]:
    """A score without the values of each sample."""
    return {k: v for k, v in score_.items() if k not in ("hits", "errors")}


def print_warning(score_: dict[str, Any], console: Console) -> None:
    """Print a score's warning about the data."""
    if score_.get("warning"):
        console.note(str(score_["warning"]))


def figures(score_: dict[str, Any]) -> dict[str, str]:
    """Name → formatted metric."""
    return (
        _metrics(score_)
        | of_tokens(score_)
        | {
            "size": size(score_["size_bytes"]),
            "weight bits": f"{score_['weight_bits']:.2f}",
            "activation bits": f"{score_['activation_bits']:.2f}",
            "sparsity": f"{score_['sparsity']:.1%}",
            "activation sparsity": f"{score_.get('activation_sparsity', 0.0):.1%}",
            "BitOPs": big(score_["bitops"]),
            "memory density": f"{score_['memory_density']:.2f}",
        }
        | ({score_.get("unit", "samples"): count(score_["n"])} if "n" in score_ else {})
    )


def _metrics(score_: dict[str, Any]) -> dict[str, str]:
    """Title → the metrics of the task, the main one first; accuracy and loss of a score that is not measured."""
    main = str(score_.get("metric", "accuracy"))
    known = [n for n in all_metrics() if n in score_ and (n != "accuracy" or score_[n] is not None)]
    further = (n for n in known if n not in (main, "loss", *OF_TOKENS))
    names = [main, *further, *(["loss"] if main == "accuracy" or score_.get("loss") != score_.get(main) else [])]
    values = {figure_title(n): score_.get(n) for n in names}
    return {title: "–" if value is None else f"{value:.4f}" for title, value in values.items()}


def of_tokens(score_: dict[str, Any]) -> dict[str, str]:
    """Name → formatted metric of a language model; empty for others."""
    windows = (
        {"windows": f"{count(score_['windows'])} of {count(score_['window'])} tokens"} if "windows" in score_ else {}
    )
    return {name: f"{score_[key]:.4g}" for key, name in OF_TOKENS.items() if score_.get(key) is not None} | windows
