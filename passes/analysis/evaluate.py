"""Measure accuracy and loss of the graph as it is, on data."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.model.errors import DataError, GraphError
from espalier.model.graph import Graph
from espalier.model.ops import floating
from espalier.model.source import first_line
from espalier.passes.analysis.arrange import arranged, order_of
from espalier.passes.base import Context, Report, analysis
from espalier.passes.data_fit import TextLimit, fitted, text_facts, text_limit, wanted_image
from espalier.passes.figure import Figure, accuracy_of, hits_of, wilson
from espalier.passes.score import static_score

if TYPE_CHECKING:
    from torch import Tensor, nn

    from espalier.model.data.base import LoadOptions, Split, TaskData
    from espalier.model.reading import Reading
    from espalier.passes.analysis.beside import Beside


SPLITS = "test, train, validation or all; default: all rows of a lone file, else test, else validation"
_TRAIN = "train"

_WHICH = ("data", "text", "label", "tokenizer", "max_length")


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """Which data, how much of it."""

    data: str = field(default="", metadata={"help": "demo:NAME, hub:NAME, a file or a folder", "edit": "data"})
    split: str = field(default="", metadata={"help": SPLITS, "edit": "split"})
    limit: int = field(default=0, metadata={"min": 0, "help": "at most so many samples; 0 = all"})
    batch_size: int = field(default=64, metadata={"min": 1, "max": 4096})
    text: str = field(default="", metadata={"help": "name of the text column", "edit": "text"})
    label: str = field(default="", metadata={"help": "name of the label column", "edit": "label"})
    tokenizer: str = field(default="", metadata={"help": "folder of the tokenizer; default: the source's"})
    max_length: int = field(
        default=0, metadata={"min": 0, "help": "longest text in tokens; 0 = what model and tokenizer take"}
    )

    @property
    def which(self) -> dict[str, Any]:
        """Those of the options that say which data, and how it is read."""
        return {name: getattr(self, name) for name in _WHICH}


@analysis("evaluate", "Evaluate", EvaluateOptions)
def evaluate(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Accuracy and mean cross-entropy of the graph on the data, with its static score."""
    from espalier.model.build import build

    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(data, options.split, options.limit)
    module = build(graph, context.store, context.callables, packed=True)
    beside, correct = _beside(options, context), list[bool]()
    accuracy, loss = measure(module, graph, split, options.batch_size, context, beside, correct)
    score = static_score(graph).measured(accuracy, loss)
    summary: dict[str, Any] = {f: getattr(score, f) for f in score.__dataclass_fields__}
    summary |= noise_of(accuracy, correct, split, graph)
    summary |= _compared(summary, beside, split, graph) if beside else {}
    summary |= text_facts(split, length_of(options, context))
    return graph, Report("evaluate", (), {**summary, **_warning(data, options, context)})


def _compared(summary: dict[str, Any], beside: Beside, split: Split, graph: Graph) -> dict[str, Any]:
    """The divergence from the baseline, and how far the accuracy is from its own, sample by sample."""
    told, now = beside.figures(), accuracy_of(summary)
    if now is None or not beside.right:
        return told
    own = sum(beside.right) / len(beside.right)
    before = Figure(own, len(split), str(noise_of(own, beside.right, split, graph)["hits"]))
    return {**told, "baseline_accuracy": own, "change": {"accuracy": now.against(before, told["baseline"]).to_json()}}


def noise_of(accuracy: float, correct: Sequence[bool], split: Split, graph: Graph) -> dict[str, Any]:
    """What an accuracy is told with: n, Wilson's interval, the share of the most frequent class, which were right.

    `correct`: of each sample, in the order in which `arranged` gives them; `hits` has them in that of the data.
    """
    labels = split.labels[split.labels >= 0]
    rows = np.empty(len(split), bool)
    rows[order_of(split, graph)] = correct
    guessing = float(np.bincount(labels).max() / len(split)) if len(labels) else None
    return {"n": len(split), "interval": list(wilson(accuracy, len(split))), "guessing": guessing,
            "hits": hits_of(rows.tolist())}  # fmt: skip


def _beside(options: EvaluateOptions, context: Context) -> Beside | None:
    """What tells the divergence from the baseline, where that is wanted."""
    from espalier.passes.analysis.beside import Beside, BesideOptions

    return Beside(context.base, options, context) if isinstance(options, BesideOptions) and context.base else None


def _warning(data: TaskData, options: EvaluateOptions, context: Context) -> dict[str, str]:
    """As `data_warning`, and that it was measured on a part of them."""
    found = data_warning(data, context, options.split)
    if options.split or not _only_trains(data):
        return found
    text = f"{data.name} has training samples alone: the tenth that a training with validation holds out is measured."
    return {"warning": " ".join((*found.values(), text))}


def data_warning(data: TaskData, context: Context, split: str = "") -> dict[str, str]:
    """What of the data is likely not as it was meant, under `warning`: strange labels, a split without rows."""
    from espalier.model.data.naming import misnamed

    empty = [f"{files} holds no rows and is left out." for files in data.empty.values() if not split]
    words = " ".join(w for w in (*misnamed(data.classes, context.reading.classes), *empty, *data.notes) if w)
    return {"warning": words} if words else {}


def load_split(options: EvaluateOptions, context: Context) -> Split:
    """The chosen split of the data; raises DataError."""
    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    return choose_split(data, options.split, options.limit)


def load_task(options: EvaluateOptions, reading: Reading, *, whole: bool) -> TaskData:
    """All splits as the model takes them, classes in its order; a lone file stays whole where `whole`.

    What the options leave open is as the project reads its data. Raises DataError.
    """
    from espalier.model.data.base import LoadOptions
    from espalier.model.data.naming import in_order_of

    if not options.data:
        raise DataError("There is no data to measure on.", "Name it: demo:NAME, hub:NAME, a file or a folder.")
    tokenizer = options.tokenizer or reading.tokenizer
    wish = LoadOptions(
        tokenizer=tokenizer,
        text=options.text or None,
        label=options.label or None,
        max_length=text_limit(options.max_length, reading, tokenizer).tokens,
        whole=whole,  # never seeded by the pass: a file's split must be the one that training saw
        image=wanted_image(reading),
    )
    return in_order_of(fitted(_with_columns(options.data, wish, reading), reading), reading.classes)


def _with_columns(spec: str, wish: LoadOptions, reading: Reading) -> TaskData:
    """The data by the project's own columns; those that it has not, or that are named, are found as always."""
    from espalier.model.data.columns import ColumnError
    from espalier.model.data.recent import load_recent

    usual = replace(wish, text=wish.text or reading.text or None, label=wish.label or reading.label or None)
    try:
        return load_recent(spec, usual)
    except ColumnError:
        if usual == wish:
            raise
        return load_recent(spec, wish)


def length_of(options: EvaluateOptions, context: Context) -> TextLimit:
    """How many tokens of a text are used; raises DataError."""
    return text_limit(options.max_length, context.reading, options.tokenizer or context.reading.tokenizer)


def choose_split(data: TaskData, name: str, limit: int) -> Split:
    """Split `name`, or all of lone rows, or test, or validation, or the only one; first `limit` samples (0 = all)."""
    wish = name or next((s for s in ("all", "test", "validation") if s in data.splits), next(iter(data.splits)))
    split = data.split(wish)
    # Hub test sets hide their labels as −1 (GLUE); fall back on the validation set.
    if not name and bool((split.labels < 0).any()) and "validation" in data.splits:
        split = data.split("validation")
    return split.take(limit) if limit else split


def measured_split(data: TaskData, name: str, limit: int) -> Split:
    """As `choose_split`; of data that only train, the samples that a training holds out: the others are known to it."""
    if name or not _only_trains(data):
        return choose_split(data, name, limit)
    from espalier.passes.training.held_out import held_out

    whole = data.split(_TRAIN)
    return whole.rows(held_out(whole)).take(limit or None)


def _only_trains(data: TaskData) -> bool:
    return list(data.splits) == [_TRAIN] and len(data.splits[_TRAIN]) > 1


def measure(
    module: nn.Module, graph: Graph, split: Split, batch_size: int, context: Context, beside: Beside | None = None,
    right: list[bool] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """(accuracy, mean cross-entropy) of a built module; `beside` hears what it makes of each batch, `right` of each
    sample whether its class was.
    """
    import torch
    import torch.nn.functional as F

    from espalier.model.unheard import unheard

    correct, loss, seen = 0, 0.0, 0
    context.progress(0, len(split), "evaluating")
    with unheard(module), torch.no_grad():
        for inputs, labels in arranged(split, graph, batch_size):
            result = _run(module, inputs)
            logits = logits_of(result, graph)
            fit(logits, labels)
            hits = logits.argmax(-1) == labels
            correct += int(hits.sum())
            if right is not None:
                right += hits.tolist()
            loss += float(F.cross_entropy(logits.float(), labels, reduction="sum"))
            seen += len(labels)
            if beside is not None:
                beside.hear(inputs, result, labels)
            context.progress(seen, len(split), "evaluating")
    return correct / max(seen, 1), loss / max(seen, 1)


def _run(module: nn.Module, inputs: dict[str, Tensor]) -> Any:
    with fit_error(inputs):
        return module(**inputs)


@contextlib.contextmanager
def fit_error(inputs: dict[str, Tensor]) -> Generator[None]:
    """Data that the model cannot take is a DataError."""
    try:
        yield
    # Sizes that do not fit, token ids past the vocabulary: torch tells them so.
    except (RuntimeError, IndexError) as error:
        shapes = ", ".join(f"{k} {' × '.join(map(str, v.shape))}" for k, v in inputs.items())
        message = f"The model cannot take this data ({shapes}): {first_line(error).rstrip('.')}."
        longer = ", or lower max_length to what it takes" if "input_ids" in inputs else ""
        raise DataError(message, f"Choose data of the model's kind and size{longer}.") from error


def batches(split: Split, graph: Graph, size: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """(inputs by the graph's names, labels) of `size` samples each; `labels` among them where the graph takes them."""
    import torch

    names = [n.target for n in graph.placeholders]
    extra = "labels" in names
    given = match_inputs(names, split)
    for inputs, labels in split.batches(size):
        tensors = in_its_kind({given[k]: torch.from_numpy(v) for k, v in inputs.items() if k in given}, graph)
        target = torch.from_numpy(labels).long()
        yield tensors | ({"labels": target} if extra else {}), target


def in_its_kind(tensors: dict[str, Tensor], graph: Graph) -> dict[str, Tensor]:
    """Images and other real numbers in the float that the graph's inputs are in: a model in bfloat16 takes no other."""
    import torch

    kinds = {n.target: n.out.dtype for n in graph.placeholders if floating(n.out) and n.out}
    return {k: v.to(getattr(torch, kinds[k])) if k in kinds and v.is_floating_point() else v
            for k, v in tensors.items()}  # fmt: skip


def match_inputs(names: list[str], split: Split) -> dict[str, str]:
    """Data's input name → graph's; raises DataError when the graph needs one that the data lacks.

    A model with one input takes data with one input, whatever they are called.
    """
    needed = [n for n in names if n != "labels"]
    if len(needed) == 1 and len(split.inputs) == 1:
        return {next(iter(split.inputs)): needed[0]}
    optional = ("token_type_ids", "attention_mask", "use_cache")
    missing = [n for n in needed if n not in split.inputs and n not in optional]
    if missing or (needed and not set(needed) & set(split.inputs)):
        given = ", ".join(split.inputs)
        message = f"The model needs the input {', '.join(missing or needed)}; the data gives {given}."
        raise DataError(message, "Choose data of the model's kind.")
    return {n: n for n in needed if n in split.inputs}


def logits_of(result: Any, graph: Graph) -> Tensor:
    """The class scores among a module's results: `logits`, or the first that is a matrix."""
    if isinstance(result, dict) and "logits" in result:
        return result["logits"]
    values = (
        list(result.values()) if isinstance(result, dict) else list(result) if isinstance(result, tuple) else [result]
    )
    found = [v for v in values if getattr(v, "dim", lambda: 0)() == 2]
    if not found:
        raise GraphError("The model gives no class scores, so its accuracy cannot be measured.",
                         "Open it with a classification head (task=sequence-classification).")  # fmt: skip
    return found[0]


def fit(logits: Tensor, labels: Tensor) -> None:
    """Raise DataError where the labels name classes that the scores do not have."""
    if logits.dim() != 2 or int(labels.max()) >= logits.shape[-1]:
        raise DataError(f"The data has classes up to {int(labels.max())}; the model tells {logits.shape[-1]} apart.",
                        "Use a model with as many labels as the data.")  # fmt: skip
