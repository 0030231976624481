"""Feature extractors and image processors of a stranger's folder: sizes that fill the memory are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from espalier.model.data.extractors import find_extractor
from espalier.model.data.image_processors import find_processor
from espalier.model.errors import DataError

WAVES = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16_000}
WHISPER = {"feature_extractor_type": "WhisperFeatureExtractor", "sampling_rate": 16_000, "feature_size": 8}
AST = {"feature_extractor_type": "ASTFeatureExtractor", "sampling_rate": 16_000, "num_mel_bins": 8}
CLIP = {"image_processor_type": "CLIPImageProcessor"}


def write(folder: Path, settings: dict[str, Any]) -> str:
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return str(folder)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (WAVES | {"sampling_rate": 0}, "its sampling rate is 0 Hz"),
        (WAVES | {"sampling_rate": 800_000_000}, "its sampling rate is 800,000,000 Hz"),
        (WHISPER | {"chunk_length": 1_000_000}, "its features are of more than 3,600 s"),
        (AST | {"max_length": 10**9}, "its features are of more than 3,600 s"),
    ],
)
def test_impossible_extractors_are_refused(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        find_extractor(write(tmp_path, settings))


@pytest.mark.parametrize("settings", [WAVES, WHISPER | {"chunk_length": 30}, AST | {"max_length": 1024}])
def test_usual_extractors_are_taken(tmp_path: Path, settings: dict[str, Any]) -> None:
    found = find_extractor(write(tmp_path, settings))
    assert found is not None and found.rate == 16_000


@pytest.mark.parametrize(
    "size", [{"size": {"height": 10**6, "width": 10**6}}, {"crop_size": {"height": 10**6, "width": 10**6}},
             {"size": {"shortest_edge": 10**6}}]
)  # fmt: skip
def test_images_of_any_size_are_not_made(tmp_path: Path, size: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="it makes images of 1,000,000 pixels a side"):
        find_processor(write(tmp_path, CLIP | size))


def test_a_line_of_pixels_is_no_image(tmp_path: Path) -> None:
    """The shorter side is resized to 24 pixels, so the other would have 240,000."""
    from PIL import Image

    process = find_processor(write(tmp_path, CLIP | {"size": {"shortest_edge": 24}, "crop_size": 24}))
    assert process is not None and process(Image.new("RGB", (100, 10))).shape == (3, 24, 24)
    with pytest.raises(ValueError, match="10000 × 1 pixels"):
        process(Image.fromarray(np.zeros((1, 10_000, 3), np.uint8)))
