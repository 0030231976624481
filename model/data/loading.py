"""`load_data`, the only entry point to data: it chooses the reader by the source (demo, hub, plug-in, file, folder)."""

from __future__ import annotations

from pathlib import Path

from espalier.model.data.base import USUAL_LENGTH, LoadOptions, TaskData, sound, source_of
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
    """Load `demo:reviews`, `demo:digits`, `hub:NAME[:CONFIG]`, a plug-in's source, or a file or folder.

    tokenizer: Hugging Face folder or name, required for texts except the demo's. text, label: column names, guessed
    from common names if None. max_length: texts are truncated to so many tokens. limit: samples of each split, chosen
    by seed. seed: also of the 80/10/10 split of a single file. splits: the ones to load, all if None. whole: load a
    single file as the split `all`, without dividing it.
    Raises DataError for everything that the user can correct.
    """
    return load_with(spec, LoadOptions(tokenizer, text, label, max_length, limit, seed, splits, whole))


def load_with(spec: str, options: LoadOptions) -> TaskData:
    """`load_data` with its options as one object."""
    _check(options)
    source, name = source_of(spec)
    if options.form.load is not None:
        return options.form.load(spec, options)
    if source is not None:
        return sound(spec.partition(":")[0], source.load(name, options))
    from espalier.model.data.local import load_local

    return load_local(Path(spec).expanduser(), options)


def _check(options: LoadOptions) -> None:
    if options.max_length < 2:
        raise DataError(f"A length of {options.max_length} tokens holds no text.", "Use at least 2.")
    if options.limit is not None and options.limit < 1:
        raise DataError(f"A limit of {options.limit} leaves no samples.", "Use at least 1, or none.")
