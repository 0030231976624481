"""Small models of sounds, and made sounds whose class is known: tones, rising and falling chirps, and noise."""

from __future__ import annotations

import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch

RATE, LENGTH = 4_000, 800  # Hz; samples that models are captured with
CLASSES = ("fall", "noise", "rise", "tone")
NOISE = 0.6  # standard deviation, beside an amplitude of 0.5
CNN = f'''
import torch
from torch import nn


class Net(nn.Module):
    """A student's own network of one channel."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, 8, 33, stride=4, padding=16), nn.BatchNorm1d(8), nn.ReLU(),
            nn.Conv1d(8, 16, 9, stride=4), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 4))

    def forward(self, wave):
        return self.body(wave)


def make_model():
    torch.manual_seed(0)
    return Net(), {{"wave": torch.randn(2, 1, {LENGTH})}}
'''


def sounds(count: int, seed: int = 0, rate: int = RATE) -> tuple[list[np.ndarray[Any, Any]], list[int]]:
    """(float64 [samples] each, classes): 0.1 to 0.25 s, of a random pitch, with noise."""
    rng = np.random.default_rng(seed)
    found, labels = list[np.ndarray[Any, Any]](), list[int]()
    for at in range(count):
        t = np.arange(int(rate * rng.uniform(0.1, 0.25))) / rate
        low, high = rng.uniform(200, 500), rng.uniform(700, 1200)
        slope = (high - low) / t[-1]
        phase = {0: high * t - slope * t**2 / 2, 1: None, 2: low * t + slope * t**2 / 2, 3: (low + high) / 2 * t}[
            at % 4
        ]
        clean = 0 * t if phase is None else 0.5 * np.sin(2 * np.pi * phase)
        found.append(np.clip(clean + NOISE / 4 * rng.normal(size=len(t)), -1, 1))
        labels.append(at % 4)
    return found, labels


def write_wav(path: Path, samples: np.ndarray[Any, Any], rate: int = RATE, width: int = 2) -> Path:
    """A PCM file of `width` bytes a sample by Python's own writer; samples [n] or [n, channels] in −1 … 1."""
    top = 2 ** (8 * width - 1)
    whole = np.clip(np.round(np.asarray(samples) * top), -top, top - 1).astype(np.int64)
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if whole.ndim == 1 else whole.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        flat = whole.reshape(-1)
        file.writeframes((flat + 128).astype(np.uint8).tobytes() if width == 1 else _little(flat, width))
    return path


def _little(values: np.ndarray[Any, Any], width: int) -> bytes:
    """Little-endian integers of `width` bytes."""
    return values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def read_wav(path: Path) -> tuple[int, np.ndarray[Any, Any]]:
    """(rate, float64 [n, channels]) by Python's own reader: the reference of ours."""
    with wave.open(str(path), "rb") as file:
        width, count, data = file.getsampwidth(), file.getnchannels(), file.readframes(file.getnframes())
        rate = file.getframerate()
    if width == 1:
        whole = [byte - 128 for byte in data]
    else:
        whole = [int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)]
    return rate, np.array(whole, np.float64).reshape(-1, count) / 2 ** (8 * width - 1)


def float_wav(samples: np.ndarray[Any, Any], rate: int = RATE) -> bytes:
    """The bytes of a file of 32-bit floats."""
    data = samples.astype("<f4").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32,
                       b"data", len(data))  # fmt: skip
    return head + data


def write_sounds(folder: Path, count: int = 40, seed: int = 0, rate: int = RATE) -> Path:
    """A folder of each class of WAV files of 16 bits."""
    for at, (samples, label) in enumerate(zip(*sounds(count, seed, rate), strict=True)):
        write_wav(folder / CLASSES[label] / f"{at:04}.wav", samples, rate)
    return folder


def extractor(**options: Any) -> Any:
    """A feature extractor of waveforms at RATE."""
    from transformers import Wav2Vec2FeatureExtractor

    return Wav2Vec2FeatureExtractor(**{"sampling_rate": RATE, "return_attention_mask": False, **options})


def wav2vec2(**options: Any) -> Any:
    """A random Wav2Vec2 classifier."""
    import transformers as hf

    config = hf.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=[16, 16, 16],
        conv_stride=[4, 4, 2], conv_kernel=[33, 9, 3], num_feat_extract_layers=3, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, classifier_proj_size=16, vocab_size=8, id2label=dict(enumerate(CLASSES)),
        label2id={name: at for at, name in enumerate(CLASSES)}, hidden_dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, feat_proj_dropout=0.0, final_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0,
        apply_spec_augment=False, audio_length=LENGTH, **options)  # fmt: skip
    return hf.Wav2Vec2ForSequenceClassification(config).eval()


def batch_of(waves: list[Any], labels: list[int], made: Any, length: int = LENGTH) -> dict[str, Any]:
    """Inputs and labels as transformers takes them."""
    inputs = made([np.asarray(w, np.float32) for w in waves], sampling_rate=RATE, padding="max_length",
                  max_length=length, truncation=True, return_tensors="pt")  # fmt: skip
    return {**inputs, "labels": torch.tensor(labels)}


def write_wav2vec2(folder: Path, count: int = 400, steps: int = 150, seed: int = 0, **options: Any) -> Any:
    """A model trained for `steps` with transformers' own loss, its extractor, `data/train` and `data/test`."""
    torch.manual_seed(seed)
    made = extractor(**options)
    made.save_pretrained(folder)
    for name, number, of in (("train", count, seed), ("test", 200, seed + 1)):
        write_sounds(folder / "data" / name, number, of)
    waves, labels = sounds(count, seed)
    model = wav2vec2()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, max(steps, 1))
    drawn = np.random.default_rng(seed)
    model.train()
    for _ in range(steps):
        rows = [int(i) for i in drawn.choice(count, 16)]
        model(**batch_of([waves[i] for i in rows], [labels[i] for i in rows], made)).loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval().save_pretrained(folder)
    return model
