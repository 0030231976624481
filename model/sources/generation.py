"""What the generation settings of a transformers model say of the texts that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Settings that change greedy decoding, with the values at which they do nothing.
OTHERS: dict[str, Any] = {
    "num_beams": 1, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0, "min_length": 0, "min_new_tokens": 0, "suppress_tokens": (),
    "begin_suppress_tokens": (), "bad_words_ids": (), "sequence_bias": (), "exponential_decay_length_penalty": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generation:
    """Token ids: the start of a target, the first token after it, the last one at the length limit, and the ends of
    texts; and settings that are not applied, as text.
    """

    start: int | None = None
    forced: int | None = None
    last: int | None = None
    ends: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


def generation_of(model: Any) -> Generation:
    """The settings of a transformers model: those of `generation_config`, which transformers itself generates by, with
    ends of its configuration where that names none. Tokens beyond the vocabulary count as none.
    """
    config, own = getattr(model, "config", None), getattr(model, "generation_config", None)
    if config is None or own is None:
        return Generation(ends=_tokens(config, "eos_token_id", config))
    start, forced = (next(iter(_tokens(own, f"{name}_token_id", config)), None)
                     for name in ("decoder_start", "forced_bos"))  # fmt: skip
    ends = _tokens(own, "eos_token_id", config) or _tokens(config, "eos_token_id", config)
    # Of several, transformers gives all the same score, and the lowest one wins.
    last = min(_tokens(own, "forced_eos_token_id", config), default=None)
    return Generation(start, forced, last, ends, tuple(_others(own)))


def _tokens(settings: Any, name: str, config: Any) -> tuple[int, ...]:
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    size, found = getattr(inner, "vocab_size", None), getattr(settings, name, None)
    listed: list[Any] = found if isinstance(found, list) else [found]
    whole = [t for t in listed if isinstance(t, int) and not isinstance(t, bool) and t >= 0]
    return tuple(t for t in whole if not isinstance(size, int) or t < size)


def _others(settings: Any) -> list[str]:
    found = {name: getattr(settings, name, None) for name in OTHERS}
    return [f"{name}={value}" if isinstance(value, int | float) else name
            for name, value in found.items() if value and value != OTHERS[name]]  # fmt: skip
