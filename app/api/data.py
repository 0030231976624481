"""Converts Python data (arrays, datasets, loaders, generators) to the form that passes read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from espalier.app.api.captions import captions_of
from espalier.app.api.sounds import sounds_of
from espalier.app.api.text_pairs import pairs_of
from espalier.model.data.base import ALL, CLASSIFICATION, NEXT_TOKEN, Split, TaskData, join
from espalier.model.data.memory import Held, hold
from espalier.model.data.npz import as_floats
from espalier.model.data.rows import SPLIT_NAMES
from espalier.model.errors import DataError, nearest
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import floating
from espalier.model.sources.reading import Limits, Reading
from espalier.passes.base import Context, fill_limits
from espalier.passes.running.data_fit import text_limit
from espalier.passes.tasks.base import TASKS, Task, recognised, task_of
from espalier.passes.tasks.own import ANY, Functions
from espalier.passes.tasks.unfit_labels import unfit_labels

if TYPE_CHECKING:
    from torch import Tensor

# Types of `data=`: a name as on the command line, arrays (x, y) or {name: array}, a torch Dataset or DataLoader,
# any iterable of (x, y) or dicts, or a dict of these by split.
Data: TypeAlias = Any
Array: TypeAlias = NDArray[Any]
LABELS = ("labels", "label", "y", "target", "targets")
TEXTS = ("text", "sentence")
MASK = "attention_mask"
SHAPES = "Give (x, y), a dict of arrays, a Dataset, a DataLoader or a generator; the first axis is the sample."


@dataclass(frozen=True, slots=True)
class Given:
    """Name of data for options, and the handle that keeps in-memory arrays alive."""

    spec: str
    held: Held | None = None


def given(data: Data, graph: Graph, context: Context, limit: int = 0, functions: Functions | None = None) -> Given:
    """Name `data` for options, registering arrays under a generated name. Raises DataError.

    `functions`: of a task that may take labels of any kind.
    """
    if isinstance(data, str | os.PathLike):
        return Given(os.fspath(data))
    fill_limits(context, graph)
    texts = _texts(data) if _predicts_tokens(context) else {}
    rows = pairs_of(data, context.reading) or captions_of(data, context.reading) or sounds_of(data, context.reading)
    if rows is not None:
        held = hold(rows)
    elif texts:
        held = hold(TaskData(f"{type(data).__name__} in Python", "text", (), {}, texts))
    else:
        splits = splits_of(data, graph, context, limit)
        held = hold(_task(type(data).__name__, splits, context.reading, functions))
    return Given(held.name, held)


def _predicts_tokens(context: Context) -> bool:
    name = recognised(context.reading.limits)
    return bool(name) and TASKS.get(name).windows


def _texts(data: Data) -> dict[str, tuple[str, ...]]:
    """The texts of a list, or of a dict of lists by split; empty for other data."""
    if isinstance(data, Mapping):
        named = cast("Mapping[str, Data]", data)
        parts = {SPLIT_NAMES[k]: _texts(v).get(ALL, ()) for k, v in named.items() if k in SPLIT_NAMES}
        return parts if len(parts) == len(named) and all(parts.values()) else {}
    listed = [_text_of(item) for item in cast("Sequence[Any]", data)] if isinstance(data, list | tuple) else []
    return {ALL: tuple(map(str, listed))} if listed and None not in listed else {}


def _text_of(item: Any) -> str | None:
    """The text of `text`, `(text, label)` or `{"text": …}`; None for others."""
    if isinstance(item, Mapping):
        values = cast("Mapping[str, Any]", item)
        item = next((values[key] for key in TEXTS if key in values), None)
    elif isinstance(item, tuple) and item:
        item = cast("tuple[Any, ...]", item)[0]
    return item if isinstance(item, str) else None


def splits_of(data: Data, graph: Graph, context: Context, limit: int = 0) -> dict[str, Split]:
    """Samples by split (`all` if none is named), checked against the model's inputs; raises DataError.

    `limit`: maximum of samples read from an iterable, 0 for all.
    """
    fill_limits(context, graph)
    if isinstance(data, Mapping) and data and all(isinstance(k, str) and k in SPLIT_NAMES for k in data):
        named = cast("Mapping[str, Data]", data)
        splits = {SPLIT_NAMES[k]: _split(v, graph, context, limit) for k, v in named.items()}
    else:
        splits = {ALL: _split(data, graph, context, limit)}
    return {name: _completed(split, context.reading) for name, split in splits.items()}


def _completed(split: Split, reading: Reading) -> Split:
    """With the inputs that follow from labels of the task of the model's head."""
    head, limits = recognised(reading.limits), reading.limits or Limits()
    if not head or split.labels.dtype == _NONE or not TASKS.get(head).takes(split.labels, split.inputs, limits):
        return split
    return replace(split, inputs=TASKS.get(head).completed(split.inputs, split.labels, limits))


def _split(data: Data, graph: Graph, context: Context, limit: int) -> Split:
    if isinstance(data, Split):
        return data
    reader = _Reader(graph, context)
    whole = _whole(data)
    parts = [reader.part(data, batched=True)] if whole else reader.parts(_items(data), limit)
    parts = [p for p in parts if len(p)]
    if not parts:
        raise DataError("The data hold no samples.", SHAPES)
    if len({p.labels.dtype == _NONE for p in parts}) > 1:
        raise DataError("Some samples have labels, others have none.", "Give all of them labels, or none.")
    if len(parts) == 1:
        return parts[0].take(limit or None)
    joined = join(parts) if parts[0].labels.ndim == 1 and parts[0].labels.dtype.kind in "iu" else _stacked(parts)
    return joined.take(limit or None)


_NONE = np.dtype(bool)  # dtype that marks missing labels


def _stacked(parts: Sequence[Split]) -> Split:
    """As `join`, for labels that are not classes."""
    labels = [p.labels for p in parts]
    blank = [Split(p.inputs, np.zeros(len(p), np.int64), p.lengths) for p in parts]
    inputs = join(blank)
    return Split(inputs.inputs, np.concatenate(labels), inputs.lengths)


def _whole(data: Data) -> bool:
    """Whether data contains all samples at once, rather than being an iterable of samples or batches."""
    if isinstance(data, Mapping):
        return True
    if isinstance(data, tuple) and data and all(map(_is_array, cast("tuple[Any, ...]", data))):
        return True
    return _is_array(data) and not isinstance(data, list)


def _is_array(value: Any) -> bool:
    """Whether a value is an array of samples; a list counts unless its items are pairs or dicts."""
    if isinstance(value, list):
        return bool(value) and not isinstance(value[0], tuple | dict)
    return hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0


def _items(data: Data) -> Iterator[Any]:
    """Iterate over samples or batches; a map-style Dataset by its length, since its iterator may not end."""
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return (data[i] for i in range(len(data)))
    if isinstance(data, Iterable):
        return iter(cast("Iterable[Any]", data))
    raise DataError(f"{type(data).__name__} is not a supported type of data.", SHAPES)


class _Reader:
    """Reads samples and batches for the inputs of a graph."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self.context = context
        self.inputs = {n.target: n for n in graph.placeholders if n.target != "labels"}

    def parts(self, items: Iterator[Any], limit: int) -> list[Split]:
        """Each item as a split; texts as one split, since they are tokenised together."""
        first = next(items, None)
        if first is None:
            return []
        items = itertools.chain([first], items)
        if self._texts(first) is not None:
            rows = list(itertools.islice(items, limit or None))
            texts = [self._texts(row) for row in rows]
            return [self.part(({"text": texts}, [self._pair(row)[1] for row in rows]), batched=True)]
        splits: list[Split] = []
        for item in items:
            splits.append(self.part(item))
            if limit and sum(map(len, splits)) >= limit:
                break
        return splits

    def part(self, item: Any, batched: bool | None = None) -> Split:
        """The samples of an item; `batched`: whether it is a batch, None: decide by the number of axes."""
        values, labels = self._pair(item)
        texts = values.get("text") if "text" not in self.inputs else None
        arrays = self._encoded(texts) if texts is not None else {k: _array(k, v) for k, v in values.items()}
        inputs = {k: v for k, v in self._named(arrays).items() if k in self.inputs}
        name = next(iter(inputs))
        if batched is None:
            batched = inputs[name].ndim != self._rank(name) - 1
        if not batched:
            inputs = {k: v[None] for k, v in inputs.items()}
        inputs = {k: _fitted(k, v, self.inputs[k]) for k, v in inputs.items()}
        count = len(inputs[name])
        targets = _labels(labels, self.context.reading.classes, batched, count)
        for what, size in (*((k, len(v)) for k, v in inputs.items()), ("labels", len(targets))):
            if size != count:
                raise DataError(f"{name} has {count} samples, {what} has {size}.", "Give equal numbers.")
        mask = inputs.get(MASK)
        return Split(inputs, targets, None if mask is None else mask.sum(1).astype(np.int64))

    def _pair(self, item: Any) -> tuple[dict[str, Any], Any]:
        """(inputs by name, labels or None) of `x`, `(x, y)`, `(x1, x2, …, y)` or a dict."""
        if isinstance(item, tuple | list) and len(cast("Sequence[Any]", item)) > 1:
            *values, labels = cast("Sequence[Any]", item)
            if len(values) == 1 and isinstance(values[0], Mapping):
                return dict(cast("Mapping[str, Any]", values[0])), labels
            if len(values) == 1 and _is_text(values[0]):
                return {"text": values[0]}, labels
            if len(values) > len(self.inputs):
                raise DataError(f"A sample has {len(values)} inputs; the model takes {', '.join(self.inputs)}.", SHAPES)
            return dict(zip(self.inputs, values, strict=False)), labels
        if isinstance(item, Mapping):
            values_ = dict(cast("Mapping[str, Any]", item))
            key = next((k for k in LABELS if k in values_), None)
            labels = values_.pop(key) if key else None
            text = next((k for k in (self.context.reading.text, *TEXTS) if k in values_ and k not in self.inputs), None)
            return ({"text": values_[text]} if text else values_), labels
        return ({"text": item} if _is_text(item) else {next(iter(self.inputs)): item}), None

    def _texts(self, item: Any) -> str | None:
        """The text of a sample, or None."""
        if isinstance(item, Mapping | tuple | list | str):
            text = self._pair(item)[0].get("text")
            return text if isinstance(text, str) else None
        return None

    def _named(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Map arrays to the model's input names; a single array goes to a single input."""
        if len(self.inputs) == 1 and len(arrays) == 1:
            return {next(iter(self.inputs)): next(iter(arrays.values()))}
        if not set(arrays) & set(self.inputs):
            names = ", ".join(self.inputs)
            hint = nearest(next(iter(arrays), ""), self.inputs)
            raise DataError(f"The model takes {names}; the data hold {', '.join(arrays) or 'nothing'}.", hint)
        return arrays

    def _rank(self, name: str) -> int:
        out = self.inputs[name].out
        return len(out.shape) if out else 1

    def _encoded(self, texts: Any) -> dict[str, Array]:
        from espalier.model.data.tokens import open_tokenizer

        reading = self.context.reading
        if not reading.tokenizer:
            raise DataError("These are texts, and the model has no tokenizer.", "Give input_ids and attention_mask.")
        limit = text_limit(0, reading, reading.tokenizer).tokens
        listed = [texts] if isinstance(texts, str) else [str(t) for t in texts]
        return open_tokenizer(reading.tokenizer)(listed, limit)[0]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))


def _array(name: str, value: Any) -> Array:
    """A numpy array of numbers; raises DataError."""
    if hasattr(value, "detach"):
        tensor = cast("Tensor", value).detach().cpu()
        value = tensor.float() if str(tensor.dtype) in ("torch.bfloat16", "torch.float16") else tensor
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{name} cannot be converted to an array: {error}.", "Give arrays of equal sizes.") from error
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds {type(value).__name__}, not numbers.", "Give an array or a tensor.")
    return array


def _fitted(name: str, array: Array, node: Node) -> Array:
    """Convert to the dtype of the model's input; raises DataError if the shape differs."""
    out = node.out
    if out is None:
        return array
    expected, actual = out.shape, array.shape
    fits = len(expected) == len(actual) and all(
        isinstance(w, str) or w == s for w, s in zip(expected[1:], actual[1:], strict=True)
    )
    if not fits:
        text = " × ".join(str(w) for w in expected)
        raise DataError(f"{name} is {' × '.join(map(str, actual))}; the model takes {text}.", SHAPES)
    if floating(out):
        return np.ascontiguousarray(as_floats(array))
    if array.dtype.kind == "f":
        if not (array == np.floor(array)).all():
            raise DataError(f"{name} holds fractions; the model takes {out.dtype}.", "Give whole numbers.")
        array = array.astype(np.int64)
    return np.ascontiguousarray(array, np.bool_ if out.dtype == "bool" else np.int64)


def _labels(labels: Any, classes: Sequence[str], batched: bool, count: int) -> Array:
    """Labels with a sample axis; class names become numbers. Missing labels have dtype `_NONE`."""
    if labels is None or (isinstance(labels, list) and labels and all(v is None for v in labels)):
        return np.zeros(count, _NONE)
    if _is_text(labels):
        labels = [_class(name, classes) for name in ([labels] if isinstance(labels, str) else labels)]
        batched = True
    if _are_sets(labels):
        labels, batched = _indicators(labels if batched is not False else [labels], classes), True
    array = _array("labels", labels)
    array = array.astype(np.int64) if array.dtype.kind in "bu" else array
    array = array if batched else array[None]
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind == "i" else array


def _are_sets(labels: Any) -> bool:
    """Whether labels are a list of class names for each sample, some of which may be empty."""
    if not isinstance(labels, list | tuple) or not labels:
        return False
    rows = [v for v in labels if isinstance(v, list | tuple)]
    return len(rows) == len(labels) and any(isinstance(name, str) for row in rows for name in row)


def _indicators(rows: Sequence[Sequence[str]], classes: Sequence[str]) -> Array:
    """float32 [samples, classes], 1 for each class of a sample."""
    result = np.zeros((len(rows), len(classes)), np.float32)
    for at, row in enumerate(rows):
        for name in row:
            result[at, _class(name, classes)] = 1
    return result


def _class(name: str, classes: Sequence[str]) -> int:
    names = [c.strip().casefold() for c in classes]
    if name.strip().casefold() not in names:
        raise DataError(
            f"{name!r} is not a class of the model.", nearest(name, classes) if classes else "Give numbers."
        )
    return names.index(name.strip().casefold())


def _task(name: str, splits: Mapping[str, Split], reading: Reading, functions: Functions | None = None) -> TaskData:
    """A data set of splits; labels of no task are replaced with −1, with a note, unless functions take them."""
    names = reading.classes
    if functions is not None and _any_labels(splits, reading, functions):
        return _free(name, splits)
    if (task := _taken(splits, reading, functions.labels if functions else "")) is not None:
        kind = _kind(splits)
        tags = names if task.positions and not task.windows else ()
        own = {k: replace(s, labels=task.targets(s.labels), task=task.name, classes=tags) for k, s in splits.items()}
        count = max(_width(task, s.labels, names) for s in own.values())
        classes = (names if len(names) == count else tuple(map(str, range(count)))) if count else ()
        return TaskData(f"{name} in Python", kind, tags or classes, own, {}, task=task.name)
    if splits and all(_are_windows(split) for split in splits.values()):
        _check_next(splits)
        windows = {key: replace(s, inputs={MASK: np.ones_like(s.labels), **s.inputs}) for key, s in splits.items()}
        return TaskData(f"{name} in Python", "text", (), windows, {}, task=NEXT_TOKEN)
    by_split: dict[str, Split] = {}
    notes: dict[str, None] = {}
    for key, split in splits.items():
        labels = split.labels
        if labels.dtype.kind == "i" and labels.ndim == 1:
            by_split[key] = Split(split.inputs, labels.astype(np.int64), split.lengths)
            continue
        if labels.dtype != _NONE:
            shape = " × ".join(map(str, labels.shape))
            notes[f"The labels are {labels.dtype} of shape {shape}, not a class number a sample."] = None
        by_split[key] = Split(split.inputs, np.full(len(split), -1, np.int64), split.lengths)
    count = max((int(s.labels.max()) + 1 for s in by_split.values()), default=0)
    classes = tuple(names) if len(names) >= count else tuple(map(str, range(count)))
    kind = _kind(by_split)
    return TaskData(f"{name} in Python", kind, classes, by_split, {}, notes=tuple(notes))


def _kind(splits: Mapping[str, Split]) -> str:
    """The kind of the samples."""
    inputs = [s.inputs for s in splits.values()]
    if any("input_ids" in named for named in inputs):
        return "text"
    return "image" if any(array.ndim == 4 for named in inputs for array in named.values()) else "array"


def _width(task: Task, labels: Array, names: Sequence[str]) -> int:
    """Number of classes that labels tell: the columns of sets, or those of pixels, at least the names; 0 for others."""
    if task.positions or labels.ndim < 2:
        return 0
    return labels.shape[1] if labels.ndim == 2 else max(int(labels.max(initial=-1)) + 1, len(names))


def _any_labels(splits: Mapping[str, Split], reading: Reading, functions: Functions) -> bool:
    """Whether the labels are those of no task, or are to be taken as such."""
    if functions.labels:
        return functions.labels == ANY
    if any(s.labels.dtype == _NONE for s in splits.values()) or _taken(splits, reading) is not None:
        return False
    classes = all(s.labels.ndim == 1 and s.labels.dtype.kind == "i" for s in splits.values())
    return not classes and not all(map(_are_windows, splits.values()))


def _free(name: str, splits: Mapping[str, Split]) -> TaskData:
    """A data set with labels of any kind, numbers as float32, the type of outputs."""
    kind = _kind(splits)
    own = {k: replace(s, labels=s.labels.astype(np.float32) if s.labels.dtype.kind == "f" else s.labels, task=ANY)
           for k, s in splits.items()}  # fmt: skip
    return TaskData(f"{name} in Python", kind, (), own, {}, task=ANY)


def _taken(splits: Mapping[str, Split], reading: Reading, asked: str = "") -> Task | None:
    """The task that takes the labels of all splits, first that of the model's head; None for classes and windows.

    `asked`: the task that is named.
    """
    limits, head = reading.limits or Limits(), recognised(reading.limits)
    labelled = [s for s in splits.values() if s.labels.dtype != _NONE]
    if len(labelled) < len(splits) or not splits:
        return None
    if asked not in ("", CLASSIFICATION, NEXT_TOKEN):
        return TASKS.get(asked)
    for _, task in sorted(TASKS.items(), key=lambda item: item[0] != head):
        if all(task.takes(s.labels, s.inputs, limits) for s in labelled):
            return task
    return None


def _are_windows(split: Split) -> bool:
    """Whether each position of an integer input has a label: the next token."""
    labels = split.labels
    same = any(a.shape == labels.shape and a.dtype.kind == "i" for a in split.inputs.values())
    return labels.ndim == 2 and labels.dtype.kind == "i" and same


def _check_next(splits: Mapping[str, Split]) -> None:
    """Raise DataError for labels of windows that cannot be the next tokens."""
    for split in splits.values():
        if bool((split.labels < 0).any()):
            text = "Some positions have no label (−1 or −100), but each position of a window needs its next token."
            raise DataError(text, "Give windows without padding, or the texts.")
        if any(np.array_equal(values, split.labels) for values in split.inputs.values()):
            text = (
                "The labels are the tokens themselves, which transformers' models shift; here they are the next tokens."
            )
            raise DataError(text, "Give (ids[:, :-1], ids[:, 1:]), or the texts.")


def check_labels(data: Given) -> None:
    """Raise DataError for arrays without class numbers."""
    task = data.held.data if data.held is not None else None
    if task is None:
        return
    for split in task.splits.values():
        if task_of(split).hides(split.labels):
            if (error := unfit_labels(split.labels)) is not None:
                raise error
            message = task.notes[0] if task.notes else "The data have no labels to compare with."
            raise DataError(message, "Give (x, y) with class numbers, or evaluate with a metric of your own.")
