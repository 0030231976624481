"""Data sets of the Hugging Face hub, from its cache or online. Code from the hub is never run."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from model.data.base import LoadOptions, TaskData
from model.data.columns import choose_columns
from model.data.prepare import text_data
from model.data.rows import SPLIT_NAMES, Rows, label_name
from model.data.tables import rows_of
from model.errors import DataError

LOCAL = "Download it where there is a network and give the folder or file, or use demo:reviews."


def load_hub(name: str, options: LoadOptions) -> TaskData:
    """`NAME` or `NAME:CONFIG`; raises DataError if it cannot be reached, or lacks the columns."""
    repository, _, config = name.partition(":")
    parts = _download(repository, config or None)
    rows = {SPLIT_NAMES[split]: _rows(part, name, options) for split, part in parts.items() if split in SPLIT_NAMES}
    labelled = {split: some for split, some in rows.items() if some.labels and set(some.labels) != {"-1"}}
    if not labelled:
        raise DataError(f"hub:{name} has no split with labels.", f"Its splits: {', '.join(parts) or 'none'}.")
    return text_data(f"hub:{name}", labelled, options)


def _download(repository: str, config: str | None) -> dict[str, Any]:
    datasets: Any = importlib.import_module("datasets")
    try:
        with _offline_if_unreachable(datasets.config):
            loaded = datasets.load_dataset(repository, config)
    except (ConnectionError, OSError) as error:
        raise DataError(f"hub:{repository} is neither in the cache nor can it be reached.", LOCAL) from error
    except (ValueError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0]
        raise DataError(f"hub:{repository} cannot be loaded: {first}", LOCAL) from error
    return {str(split): part for split, part in loaded.items()}


@contextmanager
def _offline_if_unreachable(config: Any) -> Generator[None]:
    """Without a network the hub's client retries for 20 s before it looks into its cache; this spares them."""
    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = before or not _reachable(config.HF_ENDPOINT)
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before


def _reachable(endpoint: str) -> bool:
    if any(name in os.environ for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    try:
        socket.getaddrinfo(endpoint.split("://")[-1].split("/")[0].split(":")[0], 443)
    except OSError:
        return False
    return True


def _rows(part: Any, name: str, options: LoadOptions) -> Rows:
    _, label = choose_columns(part.column_names, options.text, options.label, f"hub:{name}")
    rows = rows_of(part.to_pandas(), f"hub:{name}", options)
    names = getattr(part.features[label], "names", None)
    if not names:
        return rows
    return Rows(rows.samples, tuple(names[int(at)] if int(at) >= 0 else label_name(at) for at in rows.labels))
