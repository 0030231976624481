"""Where data meet a model: how long its texts may be, whether their tokens are in its vocabulary, what is cut.

The only place that decides it; whoever reads data for a model comes through `load_task`, which asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.sources.reading import PLAIN, Limits, Reading

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData

TEXT_FACTS = ("max_length", "length_from", "longest", "texts_cut", "tokens_lost")  # of a score measured on texts


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The most tokens of a text, and what says so."""

    tokens: int
    source: str


def text_limit(asked: int, reading: Reading, tokenizer: str | None) -> TextLimit:
    """How many tokens of a text are kept; `asked` is the user's wish, 0 for none. Raises DataError.

    A wish may go beyond what the tokenizer says and beyond the context length of computed positions, never beyond
    the positions that the model holds.
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
    told = longest(tokenizer) if tokenizer else None
    soft += [TextLimit(told, "the tokenizer's model_max_length")] if told else []
    usual = TextLimit(USUAL_LENGTH, "default; neither model nor tokenizer names a limit")
    return min([*hard, *soft] or [usual], key=_tokens)


def _tokens(limit: TextLimit) -> int:
    return limit.tokens


def text_facts(split: Split, limit: TextLimit) -> dict[str, Any]:
    """What a score says of its texts: tokens used, why, the longest, share of texts cut and of tokens lost."""
    if split.lengths is None or not len(split):
        return {}
    cut, whole = split.lengths > limit.tokens, int(split.lengths.sum())
    lost = int((split.lengths[cut] - limit.tokens).sum())
    values = (limit.tokens, limit.source, int(split.lengths.max()), float(cut.mean()), lost / max(whole, 1))
    return dict(zip(TEXT_FACTS, values, strict=True))


def text_words(found: Mapping[str, Any]) -> str:
    """What of the texts a score was measured on, from its facts; empty for other data."""
    if "max_length" not in found:
        return ""
    head = f"up to {found['max_length']:,} tokens ({found['length_from']})"
    if not found["texts_cut"]:
        return f"{head}: none is cut, the longest has {found['longest']:,}"
    return f"{head}: {found['texts_cut']:.1%} are cut, {found['tokens_lost']:.1%} of all tokens lost"


def fitted(data: TaskData, reading: Reading) -> TaskData:
    """The data as the model takes them; raises DataError for tokens or images that it cannot take."""
    limits = reading.limits or Limits()
    for split in data.splits.values():
        _check_vocabulary(data.name, split, limits.vocabulary)
        _check_image(data.name, split, limits.image)
    if limits.length is None or data.kind != "text":
        return data
    from espalier.model.data.base import padded_to

    return replace(data, splits={name: padded_to(split, limits.length) for name, split in data.splits.items()})


def _check_vocabulary(name: str, split: Split, size: int | None) -> None:
    ids = split.inputs.get("input_ids")
    if size is None or ids is None or not ids.size or int(ids.max()) < size:
        return
    share = float((ids >= size).any(axis=1).mean())
    raise DataError(
        f"The tokenizer gives token ids up to {int(ids.max()):,} in {share:.0%} of the texts of {name}; "
        f"the model's vocabulary has {size:,}.",
        "Name the tokenizer that belongs to the model with --tokenizer, or use a model with a larger vocabulary.",
    )


def _check_image(name: str, split: Split, wish: tuple[int, int, int] | None) -> None:
    images = next((a for a in split.inputs.values() if a.ndim == 4), None)
    if wish is None or images is None:
        return
    own = images.shape[1:]
    if any(want not in (0, size) for want, size in zip(wish, own, strict=True)):
        taken = " × ".join(str(size or "any") for size in wish)
        raise DataError(
            f"The images of {name} are {' × '.join(map(str, own))} (channels first); the model takes {taken}.",
            "Use images of that size, or a model for theirs.",
        )


def wanted_image(reading: Reading = PLAIN) -> tuple[int, int, int] | None:
    """The size that pictures are brought to when they are read; channels other than 1 and 3 are no picture's."""
    image = reading.limits.image if reading.limits else None
    return image if image and image[0] in (0, 1, 3) else None
