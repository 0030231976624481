"""Fits data to a model: maximum text length, vocabulary and image checks, statistics of truncated texts.

All data for a model are loaded through `load_task`, which uses this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.sources.reading import PLAIN, Limits, Reading
from espalier.passes.tasks.base import TASKS, task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData

TEXT_FACTS = ("max_length", "length_from", "longest", "texts_cut", "tokens_lost")  # of a score measured on texts


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The maximum tokens of a text, and the source of the limit."""

    tokens: int
    source: str


def text_limit(asked: int, reading: Reading, tokenizer: str | None, task: str = "") -> TextLimit:
    """Maximum tokens of a text, or of a window; `asked`: the user's max_length, 0 for none. Raises DataError.

    `asked` may exceed the tokenizer's limit and the context length of computed positions, but not the model's position
    embeddings.
    """
    from espalier.model.data.base import USUAL_LENGTH
    from espalier.model.data.tokens import longest

    taken = reading.limits or Limits()
    if taken.length is not None:
        return TextLimit(taken.length, "the model was captured with texts of this length alone")
    hard = [TextLimit(taken.tokens, f"the model has {taken.tokens:,} positions")] if taken.tokens else []
    if asked:
        return min([TextLimit(asked, "max_length"), *hard], key=_tokens)
    soft = [TextLimit(taken.context, "the configuration's context length")] if taken.context else []
    of_tokenizer = longest(tokenizer) if tokenizer else None
    soft += [TextLimit(of_tokenizer, "the tokenizer's model_max_length")] if of_tokenizer else []
    if task and TASKS.get(task).windows:  # long contexts take memory and time with the square of their length
        return min([*hard, *soft, TextLimit(USUAL_LENGTH, "default length of a window")], key=_tokens)
    usual = TextLimit(USUAL_LENGTH, "default; neither model nor tokenizer sets a limit")
    return min([*hard, *soft] or [usual], key=_tokens)


def _tokens(limit: TextLimit) -> int:
    return limit.tokens


def text_facts(split: Split, limit: TextLimit) -> dict[str, Any]:
    """Text statistics of a score: token limit, its source, longest text, share of truncated texts and lost tokens."""
    if task_of(split).windows:
        return {"max_length": limit.tokens, "length_from": limit.source}
    if split.lengths is None or not len(split):
        return {}
    cut, total = split.lengths > limit.tokens, int(split.lengths.sum())
    lost = int((split.lengths[cut] - limit.tokens).sum())
    values = (limit.tokens, limit.source, int(split.lengths.max()), float(cut.mean()), lost / max(total, 1))
    return dict(zip(TEXT_FACTS, values, strict=True))


def truncation_note(facts: Mapping[str, Any]) -> str:
    """Sentence on the text statistics of a score; empty for other data."""
    if "max_length" not in facts:
        return ""
    head = f"up to {facts['max_length']:,} tokens ({facts['length_from']})"
    if "texts_cut" not in facts:
        return f"windows of {head.removeprefix('up to ')}"
    if not facts["texts_cut"]:
        return f"{head}: none is truncated, the longest has {facts['longest']:,}"
    return f"{head}: {facts['texts_cut']:.1%} are truncated, {facts['tokens_lost']:.1%} of all tokens lost"


def fitted(data: TaskData, reading: Reading) -> TaskData:
    """The data padded to the model's fixed length; raises DataError for unfit tokens or images."""
    limits = reading.limits or Limits()
    for split in data.splits.values():
        _check_vocabulary(data.name, split, limits.vocabulary)
        _check_image(data.name, split, limits.image)
        _check_signal(data.name, split, limits.signal)
    if limits.length is None or data.kind != "text":
        return data
    from espalier.model.data.base import padded_to

    if TASKS.get(data.task).windows:
        _check_windows(data, limits.length)
        return data
    return replace(data, splits={name: padded_to(split, limits.length) for name, split in data.splits.items()})


def _check_windows(data: TaskData, length: int) -> None:
    short = next((s for s in data.splits.values() if s.labels.shape[-1] < length), None)
    if short is not None:
        raise DataError(
            f"The text of {data.name} has {short.labels.shape[-1] + 1} tokens; the model takes {length} alone.",
            "Give a longer text, or open the model with a shorter example.",
        )


def _check_vocabulary(name: str, split: Split, size: int | None) -> None:
    ids = split.inputs.get("input_ids")
    if size is None or ids is None or not ids.size or int(ids.max()) < size:
        return
    share = float((ids >= size).any(axis=1).mean())
    raise DataError(
        f"{share:.0%} of the texts of {name} have token ids up to {int(ids.max()):,}; "
        f"the model's vocabulary has {size:,}.",
        "Use the model's tokenizer (--tokenizer), or a model with a larger vocabulary.",
    )


def _check_image(name: str, split: Split, expected: tuple[int, int, int] | None) -> None:
    images = next((a for a in split.inputs.values() if a.ndim == 4), None)
    if expected is None or images is None:
        return
    own = images.shape[1:]
    if any(want not in (0, size) for want, size in zip(expected, own, strict=True)):
        shape = " × ".join(str(size or "any") for size in expected)
        raise DataError(
            f"The images of {name} are {' × '.join(map(str, own))} (channels × height × width); "
            f"the model takes {shape}.",
            "Use images of that size, or a model for these.",
        )


def _check_signal(name: str, split: Split, expected: tuple[int, ...] | None) -> None:
    """Raise DataError for waveforms, spectrograms or rows of numbers of another shape than the model's."""
    arrays = [a for a in split.inputs.values() if a.dtype.kind == "f" and a.ndim in (2, 3)]
    if expected is None or len(arrays) != 1:
        return
    own = arrays[0].shape[1:]
    if len(own) != len(expected) or any(want not in (0, size) for want, size in zip(expected, own, strict=True)):
        shape = " × ".join(str(size or "any") for size in expected)
        raise DataError(
            f"The samples of {name} are {' × '.join(map(str, own))}; the model takes {shape}.",
            "Use samples of that size, a model for these, or for waveforms a file with their rate.",
        )


def wanted_image(reading: Reading = PLAIN) -> tuple[int, int, int] | None:
    """The shape to which images are converted; None for channels other than 1 and 3."""
    image = reading.limits.image if reading.limits else None
    return image if image and image[0] in (0, 1, 3) else None
