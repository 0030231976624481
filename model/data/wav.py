"""WAV files of integers (8, 16, 24 or 32 bits) or floats, as numbers in −1 … 1 of one channel, at a wanted rate."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from espalier.model.borders import read_bytes, reading
from espalier.model.data.base import Array
from espalier.model.errors import Damage, DataError

AUDIO = "audio"  # kind of data
SUFFIXES = (".wav", ".wave")
COMPRESSED = (".mp3", ".flac", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".wma", ".aif", ".aiff", ".au", ".webm")
CONVERT = "Convert sounds to WAV, for example with ffmpeg -i NAME.mp3 NAME.wav."  # or others that are not WAV
LARGEST = 1 << 30  # bytes of a file
RATES = (1_000, 768_000)  # Hz
WHOLE = ("uint8", "int8", "int16", "int32")  # types of samples
STREAMED = 0x7FFF_F000  # bytes of samples from which a size stands for one that was not known yet
MOST_PHASES = 50_000  # of a resampling filter, which has 20 times as many coefficients
HINT = "Give WAV files of 8, 16, 24 or 32 bits (ffmpeg -i NAME OUT.wav converts others), or remove it."
OTHERS = {
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"\xff\xfb": "MP3",
    b"\xff\xf3": "MP3",
    b"FORM": "AIFF",
    b".snd": "AU",
}  # by their first bytes
PCM, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE  # numbers of encodings
ENCODINGS = {2: "ADPCM", 6: "A-law", 7: "µ-law", 0x11: "IMA ADPCM", 0x31: "GSM", 0x50: "MPEG", 0x55: "MP3"}
OPEN = (1 << 32) - 1, (1 << 64) - 1  # sizes of RF64's samples that were not known yet


@dataclass(frozen=True, slots=True)
class Wave:
    """float32 [samples] in −1 … 1; rate: in Hz; channels: of the file, of which the mean is taken."""

    samples: Array
    rate: int
    channels: int = 1


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound without a file of its own."""

    name: str
    open: Callable[[], Wave]


Source = Path | Sound


def name_of(source: Source) -> str:
    """The name of a sound in messages."""
    return source.name if isinstance(source, Sound) else f"{source.parent.name}/{source.name}"


def read_wave(source: Source) -> Wave:
    """Read a sound; raises DataError for other files, damaged and empty ones."""
    name = name_of(source)
    with reading(name, DataError, "is not a readable WAV file", HINT):
        wave = source.open() if isinstance(source, Sound) else decoded(read_bytes(source, LARGEST))
    if not len(wave.samples):
        raise DataError(f"{name} holds no samples.", "Remove it.")
    if not bool(np.isfinite(wave.samples).all()):
        raise DataError(f"{name} holds values that are not finite.", "Remove it.")
    if not RATES[0] <= wave.rate <= RATES[1]:
        raise DataError(f"{name} has the sampling rate {wave.rate:,} Hz.",
                        f"Give sounds of {RATES[0]:,} to {RATES[1]:,} Hz.")  # fmt: skip
    return wave


def decoded(data: bytes) -> Wave:
    """The sound in the bytes of a WAV file; raises Damage, ValueError and others of SciPy's reader.

    Integers are divided by half their range, as in libsndfile; those of 8 bits are unsigned
    (https://www.mmsp.ece.mcgill.ca/Documents/AudioFormats/WAVE/WAVE.html).
    """
    from scipy.io import wavfile

    if not data:
        raise Damage("it is empty")
    if data[:4] not in (b"RIFF", b"RIFX", b"RF64") or data[8:12] != b"WAVE":
        kind = next((kind for start, kind in OTHERS.items() if data.startswith(start)), "")
        raise Damage(f"its content is {kind}, not WAV" if kind else "it is no WAV file")
    _check_encoding(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chunks that hold no samples
        rate, values = wavfile.read(io.BytesIO(_whole(data)))
    values = np.asarray(values)
    channels = values.shape[1] if values.ndim == 2 else 1
    return Wave(_mono(_scaled(values)), int(rate), channels)


def _chunks(data: bytes) -> Generator[tuple[bytes, int, int]]:
    """(name, begin of the content, size as the header says) of each chunk; of RF64's samples the size of its `ds64`."""
    at, order, long = 12, _order(data), None
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], order)
        if name == b"ds64" and data[:4] == b"RF64":
            long = int.from_bytes(data[at + 16 : at + 24], order)
        size = long if name == b"data" and long is not None else size
        yield name, at + 8, size
        at += 8 + size + size % 2


def _order(data: bytes) -> Literal["big", "little"]:
    return "big" if data[:4] == b"RIFX" else "little"


def _check_encoding(data: bytes) -> None:
    """Raise Damage for samples that are neither whole numbers nor floats."""
    at = next((at for name, at, size in _chunks(data) if name == b"fmt " and size >= 16), len(data))
    tag = int.from_bytes(data[at : at + 2], _order(data))
    tag = int.from_bytes(data[at + 24 : at + 26], _order(data)) if tag == EXTENSIBLE else tag  # its sub-format
    if at + 16 <= len(data) and tag not in (PCM, FLOATS):
        raise Damage(f"its samples are encoded as {ENCODINGS.get(tag, f'format {tag:#06x}')}, not as PCM or floats")


def _whole(data: bytes) -> bytes:
    """The file with the size of its samples where a stream left it open; raises Damage if it was cut.

    SciPy reads what is there of a file that was cut.
    """
    for name, at, size in _chunks(data):
        left = len(data) - at
        if name != b"data" or size <= left:
            continue
        order, long = _order(data), data[:4] == b"RF64"
        if size not in OPEN if long else size < STREAMED:
            raise Damage(f"it is cut: its header names {size:,} bytes of samples, and {left:,} are there")
        if long:  # SciPy takes both sizes of `ds64`, its first chunk
            return data[:20] + (len(data) - 8).to_bytes(8, order) + left.to_bytes(8, order) + data[36:]
        return data[: at - 4] + left.to_bytes(4, order) + data[at:]
    return data


def of_array(values: Array, rate: int) -> Wave:
    """A sound of an array [samples], [1, samples] or [channels, samples] of numbers; raises Damage.

    Whole numbers are those of a file: uint8, int8, int16 or int32.
    """
    values = np.asarray(values)
    if values.dtype.kind in "iu" and values.dtype.name not in WHOLE:
        raise Damage(f"its numbers are {values.dtype}, of an unknown range, not {' or '.join(WHOLE)} or float")
    if values.dtype.kind not in "iuf" or values.ndim not in (1, 2):
        raise Damage(f"it is an array of {values.dtype} with {values.ndim} axes")
    return Wave(_mono(_scaled(values.T)), int(rate), 1 if values.ndim == 1 else len(values))


def _scaled(values: Array) -> Array:
    """float32 in −1 … 1 of whole numbers; floats as they are."""
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    bits, middle = 8 * values.dtype.itemsize, 128 if values.dtype == np.uint8 else 0
    return ((values.astype(np.float64) - middle) / 2 ** (bits - 1)).astype(np.float32)


def _mono(values: Array) -> Array:
    """The mean of the channels [samples, channels]."""
    return values if values.ndim == 1 else values.mean(1, dtype=np.float64).astype(np.float32)


def resampled(wave: Wave, rate: int, name: str) -> Wave:
    """The sound at another rate, by SciPy's polyphase filter (`resample_poly`); raises DataError for odd ratios."""
    if wave.rate == rate:
        return wave
    from scipy.signal import resample_poly

    common = math.gcd(wave.rate, rate)
    up, down = rate // common, wave.rate // common
    if max(up, down) > MOST_PHASES:
        raise DataError(f"{name} has the sampling rate {wave.rate:,} Hz, the model {rate:,} Hz.",
                        f"Resample the sounds to {rate:,} Hz.")  # fmt: skip
    samples: Array = resample_poly(wave.samples.astype(np.float64), up, down)
    return Wave(samples.astype(np.float32), rate, wave.channels)
