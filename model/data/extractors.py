"""Feature extractors of transformers for sounds: their sampling rate, and a model's inputs of a waveform."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from espalier.model.borders import read_json, reading
from espalier.model.data.base import Array, Inputs
from espalier.model.data.class_names import local_file
from espalier.model.data.wav import RATES
from espalier.model.errors import Damage, DataError

FILE = "preprocessor_config.json"
MASK = "attention_mask"
LONGEST = 3600  # seconds of the features of a fixed length, which are computed of sounds of any length
WINDOW, STEP = 0.025, 0.01  # seconds of a frame, and between frames, of AST's features


@dataclass(frozen=True, slots=True)
class Extractor:
    """A feature extractor. waves: its features are waveforms, cut or padded to a length that is asked for."""

    name: str
    rate: int
    waves: bool
    inner: Any

    def inputs(self, wave: Array, length: int) -> Inputs:
        """Features [1, …] by the model's names, of a waveform at `rate`; raises DataError. length: of waveforms."""
        fixed = {"padding": "max_length", "max_length": length, "truncation": True} if self.waves else {}
        hint = "Give an intact folder of a feature extractor with --tokenizer."
        with reading(f"The feature extractor {self.name}", DataError, "fails on these sounds", hint):
            made: Any = self.inner(wave, sampling_rate=self.rate, return_tensors="np", **fixed)
            return {str(name): _plain(array) for name, array in made.items()}

    @property
    def longest(self) -> int | None:
        """Samples after which a sound is cut, of features of a fixed length; None if unknown."""
        if (samples := getattr(self.inner, "n_samples", None)) is not None:
            return int(samples)
        frames = getattr(self.inner, "max_length", None)
        return None if frames is None else int(WINDOW * self.rate) + (int(frames) - 1) * int(STEP * self.rate)


def _plain(array: Any) -> Array:
    """float32, or int64 of a mask."""
    return array.astype("float32") if array.dtype.kind == "f" else array.astype("int64")


def find_extractor(source: str | Path | None) -> Extractor | None:
    """The feature extractor of a folder or of a cached model of the hub; None if it has none for sounds.

    Raises DataError for one that transformers cannot load.
    """
    file = local_file(str(source), FILE) if source else None
    return None if file is None else _opened(str(source), file, file.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _opened(source: str, file: Path, changed: int) -> Extractor | None:
    name = Path(source).name
    with reading(f"The feature extractor of {name}", DataError, "cannot be loaded", f"Give an intact {FILE}."), \
         warnings.catch_warnings():  # fmt: skip
        facts = read_json(file)
        if not isinstance(facts, dict) or "sampling_rate" not in facts:
            return None  # of images
        from transformers import AutoFeatureExtractor

        warnings.simplefilter("ignore")  # of mel filters without a frequency
        # The file alone, without code of the folder.
        inner: Any = AutoFeatureExtractor.from_pretrained(file.parent, trust_remote_code=False, local_files_only=True)
        names = list(inner.model_input_names)
        waves = names[:1] == ["input_values"] and not hasattr(inner, "num_mel_bins")
        made = Extractor(name, int(inner.sampling_rate), waves, inner)
        if not RATES[0] <= made.rate <= RATES[1]:
            raise Damage(f"its sampling rate is {made.rate:,} Hz")
        if (made.longest or 0) > LONGEST * made.rate:
            raise Damage(f"its features are of more than {LONGEST:,} s")
        return made
