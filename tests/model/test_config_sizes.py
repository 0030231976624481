"""Configurations that ask for more than any model has are refused before anything is built."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from espalier.model.errors import SourceError
from espalier.model.opening import open_any
from espalier.model.sources.config_sizes import check_sizes
from espalier.model.trust import Origin

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("more", "told"),
    [({"n_layer": 2**63}, "n_layer"), ({"n_layer": 20_000}, "n_layer = 20000"), ({"num_labels": 2**31}, "num_labels"),
     ({"n_positions": 2**62}, "n_positions"), ({"text_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers")],
)  # fmt: skip
def test_a_folder_that_asks_for_too_much_is_refused_at_once(more: dict[str, Any], told: str, tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, n_positions=32, vocab_size=40)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    begun = time.process_time()
    with pytest.raises(SourceError, match=told):
        open_any(str(tmp_path / "m"), tmp_path / "work", origin=Origin.TYPED)
    assert time.process_time() - begun < 10


def test_a_described_model_that_asks_for_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="num_hidden_layers = 1000000"):
        open_any("config:bert?num_hidden_layers=1000000", tmp_path, origin=Origin.TYPED)


@pytest.mark.parametrize("key", ["inner_group_num", "num_hidden_groups"])
def test_layers_by_other_names_count(key: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=key):
        open_any(f"config:albert?{key}=100000000", tmp_path, origin=Origin.TYPED)


def test_numbers_of_layers_are_no_sizes() -> None:
    check_sizes({"mlp_only_layers": list(range(160)), "depths": [2, 2, 18, 2], "stages": [[1, 2], {"num_blocks": 4}]})
    with pytest.raises(SourceError, match="num_blocks"):
        check_sizes({"stages": [[1, 2], {"num_blocks": 40_000}]})


@pytest.mark.slow
def test_real_configurations_pass() -> None:
    """Of each type that transformers has, by its own defaults."""
    refused = []
    for kind, cls in transformers.CONFIG_MAPPING.items():
        try:
            config = cls().to_dict()
        except Exception:  # noqa: BLE001  # some have no defaults, or need other packages
            continue
        try:
            check_sizes(config)
        except SourceError as error:
            refused.append((kind, error.message))
    assert not refused
