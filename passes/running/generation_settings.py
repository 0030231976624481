"""How a model's own generation settings bear on the texts that analyses write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from espalier.model.data.tokens import Codec, open_codec

if TYPE_CHECKING:
    from espalier.passes.base import Context


def codec_of(context: Context, tokenizer: str) -> Codec:
    """A tokenizer with the tokens that end texts of the model, or else those of the tokenizer; raises DataError."""
    codec, limits = open_codec(tokenizer), context.reading.limits
    return replace(codec, ends=frozenset(limits.ends)) if limits is not None and limits.ends else codec


def forced_first(context: Context) -> int | None:
    """The token that a target must begin with."""
    return None if context.reading.limits is None else context.reading.limits.forced


def forced_last(context: Context) -> int | None:
    """The token that the last one at the length limit must be, as of transformers' ForcedEOSTokenLogitsProcessor."""
    return None if context.reading.limits is None else context.reading.limits.last


def settings_note(context: Context, *, greedy: bool = True) -> dict[str, str]:
    """`note` on generation settings that are not applied, for the summary of a report; empty if there are none."""
    others = () if context.reading.limits is None else context.reading.limits.generation
    if not greedy:  # then it is drawn, by the options of the analysis
        others = tuple(o for o in others if o != "do_sample=True")
    if not others:
        return {}
    how = "greedy decoding was used" if greedy else "each token was drawn by itself"
    return {"note": f"Not applied of generation_config.json: {', '.join(others)}; {how}."}
