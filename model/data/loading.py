"""`load_data` is the one door to data: where the rows come from (demo, hub, file, folder) is decided here alone."""

from __future__ import annotations

from pathlib import Path

from espalier.model.data.base import USUAL_LENGTH, LoadOptions, TaskData
from espalier.model.errors import DataError


def load_data(
    spec: str,
    *,
    tokenizer: str | Path | None = None,
    text: str | None = None,
    label: str | None = None,
    max_length: int = USUAL_LENGTH,
    limit: int | None = None,
    seed: int = 0,
    splits: tuple[str, ...] | None = None,
    whole: bool = False,
) -> TaskData:
    """Loads `demo:reviews`, `demo:digits`, `hub:NAME[:CONFIG]`, or a file or folder of the user's.

    tokenizer: Hugging Face folder or name, needed for texts but the demo's. text, label: column names, guessed
    from common ones where None. max_length: tokens kept of a text. limit: samples of each split, chosen by
    seed. seed: also how a lone file is split 80/10/10. splits: the ones to load, all for None. whole: leave a lone
    file in one piece, the split `all`; what comes in splits keeps them.
    Raises DataError for everything that the user can mend.
    """
    return load_with(spec, LoadOptions(tokenizer, text, label, max_length, limit, seed, splits, whole))


def load_with(spec: str, options: LoadOptions) -> TaskData:
    """`load_data` with its options in one value."""
    _check(options)
    if spec.startswith("demo:"):
        from espalier.model.data.demo import load_demo_data

        return load_demo_data(spec.removeprefix("demo:"), options)
    if spec.startswith("hub:"):
        from espalier.model.data.hub import load_hub

        return load_hub(spec.removeprefix("hub:"), options)
    if spec.startswith("memory:"):
        from espalier.model.data.memory import load_memory

        return load_memory(spec, options)
    from espalier.model.data.local import load_local

    return load_local(Path(spec).expanduser(), options)


def _check(options: LoadOptions) -> None:
    if options.max_length < 2:
        raise DataError(f"A length of {options.max_length} tokens holds no text.", "Use at least 2.")
    if options.limit is not None and options.limit < 1:
        raise DataError(f"A limit of {options.limit} leaves no samples.", "Use at least 1, or none.")
