"""The score as the commands show it: measured where there is data, figures in a row."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from espalier.app.commands.command import Arguments, Parser
from espalier.app.commands.console import Console, big, count, size
from espalier.app.commands.opening import Target
from espalier.app.commands.option_flags import add_options, read_options
from espalier.app.words import change_words, dominant_words, noise_words
from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.passes.base import run_step
from espalier.passes.dominant import Dominant, dominant_fields
from espalier.passes.figure import OPENED, START, accuracy_of, change_of
from espalier.passes.plugins.kept_scores import FROM_CACHE, kept_score
from espalier.passes.running.data_fit import text_words
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import static_score


def add_data(parser: Parser) -> None:
    """--data and what belongs to it."""
    add_options(parser, EvaluateOptions)


def data_options(found: Arguments, target: Target) -> EvaluateOptions | None:
    """What to measure on: --data, or the data that a demo was trained on, or None."""
    data = found.data or target.project.source.data
    return read_options(EvaluateOptions, found, data=data) if data else None


def score(graph: Graph, target: Target, options: EvaluateOptions | None) -> dict[str, Any]:
    """The score's figures; accuracy and loss are None without data."""
    if options is None:
        return asdict(static_score(graph)) | dominant_fields(graph)
    step = Step("evaluate", options, target.context.seed)
    return dict(run_step(graph, step, target.context).report.summary) | dominant_fields(graph)


def baseline_score(graph: Graph, target: Target, options: EvaluateOptions | None) -> dict[str, Any]:
    """As `score`, from the cache where the same graph was measured on the same samples before."""
    if options is None:
        return score(graph, target, options)
    return kept_score(graph, options, target.context) | dominant_fields(graph)


def age_words(found: dict[str, Any], name: str) -> str:
    """When a score from the cache was measured; empty for one that was measured now."""
    when = found.get(FROM_CACHE)
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(when)) if when else ""
    return f"{name}: score from the cache of {date}; --no-cache measures it again" if date else ""


def state_name(target: Target) -> str:
    """The name of the project as it is: a baseline of what begins there."""
    return START if target.project.recipe.active else OPENED


def changed(before: dict[str, Any], after: dict[str, Any], baseline: str) -> dict[str, Any]:
    """How far an accuracy is from another: {accuracy: {baseline, value, test, within_noise}}; empty without data."""
    now, held = accuracy_of(after), accuracy_of(before)
    return {"accuracy": now.against(held, baseline).to_json()} if now and held else {}


def bit_lines(found: dict[str, Any], whose: str = "") -> Iterable[str]:
    """What holds the average of stored bits up, where something does; `whose`: such as ` of the best`."""
    if held := found.get("dominant"):
        yield f"weight bits{whose}: {dominant_words(Dominant(**held))}"


def noise_lines(found: dict[str, Any], change: dict[str, Any]) -> Iterable[str]:
    """Below a table: what holds the bits, the accuracy's noise and change from the baseline, what was cut."""
    yield from bit_lines(found)
    if now := accuracy_of(found):
        yield f"accuracy: {noise_words(now)}"
    if told := change.get("accuracy"):
        yield f"accuracy: {change_words(change_of(told))}"
    if words := text_words(found):
        yield f"texts: {words}"


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """A score as people and files want it: without which sample was right."""
    return {k: v for k, v in found.items() if k != "hits"}


def tell_warning(found: dict[str, Any], console: Console) -> None:
    """Say what of the data is likely not as it was meant: a score of it means little."""
    if found.get("warning"):
        console.note(str(found["warning"]))


def figures(found: dict[str, Any]) -> dict[str, str]:
    """Name → figure with its unit."""
    accuracy, loss = found["accuracy"], found["loss"]
    return {
        "accuracy": "–" if accuracy is None else f"{accuracy:.4f}",
        "loss": "–" if loss is None else f"{loss:.4f}",
        "size": size(found["size_bytes"]),
        "weight bits": f"{found['weight_bits']:.2f}",
        "activation bits": f"{found['activation_bits']:.2f}",
        "sparsity": f"{found['sparsity']:.1%}",
        "activation sparsity": f"{found.get('activation_sparsity', 0.0):.1%}",
        "BitOPs": big(found["bitops"]),
        "memory density": f"{found['memory_density']:.2f}",
    } | ({"samples": count(found["n"])} if "n" in found else {})
