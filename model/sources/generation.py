"""What the generation settings of a transformers model say of the texts that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Settings that are applied, or that an option of the analysis stands for.
_APPLIED = frozenset({"decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "eos_token_id",
                      "max_length", "max_new_tokens"})  # fmt: skip
# Settings that choose no token: of padding, starts without a prompt, caches, compilation, and what is returned.
_WITHOUT_EFFECT = frozenset({
    "bos_token_id", "pad_token_id", "use_cache", "cache_implementation", "cache_config", "max_cache_len",
    "compile_config", "disable_compile", "low_memory", "prefill_chunk_size", "continuous_batching_config",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate",
    "transformers_version", "is_assistant",
})  # fmt: skip


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
    """Each setting with another value than transformers' default, which no setting above stands for."""
    from transformers import GenerationConfig

    plain = GenerationConfig().to_dict()
    # From version 5 on, an unset value is None, and the value used for it is given apart.
    used: dict[str, Any] = getattr(GenerationConfig, "_get_default_generation_params", dict)()
    return [f"{name}={value}" if isinstance(value, int | float | str) else name
            for name, value in settings.to_dict().items()
            if name not in _APPLIED | _WITHOUT_EFFECT and not name.startswith("_")
            and value and value not in (plain.get(name), used.get(name))]  # fmt: skip
