"""WAV files against Python's own reader, resampling against analytic tones, and damaged files."""

from __future__ import annotations

import io
import random
import wave
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from espalier.model.data import sounds
from espalier.model.data.base import LoadOptions
from espalier.model.data.rows import Rows
from espalier.model.data.wav import Sound, Wave, decoded, of_array, read_wave, resampled
from espalier.model.errors import DataError
from tests.audio_models import float_wav, read_wav, write_wav


def _rf64(values: np.ndarray, size: int | None = None) -> bytes:  # type: ignore[type-arg]
    """float32 samples as RF64; size: of the samples as the header says."""
    plain = float_wav(values)
    count = len(plain) - 44 if size is None else size
    long = np.array([len(plain) + 28 if size is None else size, count, len(values)], "<u8").tobytes() + bytes(4)
    body = b"ds64" + np.array([28], "<u4").tobytes() + long + plain[12:40] + b"\xff\xff\xff\xff" + plain[44:]
    return b"RF64\xff\xff\xff\xffWAVE" + body


def _encoded(tag: int) -> bytes:
    """A file of another encoding, with a chunk between the format and the samples as tools write it."""
    form = np.array([tag, 1], "<u2").tobytes() + np.array([8_000, 8_000], "<u4").tobytes()
    form += np.array([1, 8, 0], "<u2").tobytes()
    body = b"WAVEfmt " + np.array([18], "<u4").tobytes() + form
    body += b"fact\x04\0\0\0\x28\0\0\0data\x28\0\0\0" + bytes(40)
    return b"RIFF" + np.array([len(body)], "<u4").tobytes() + body


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_samples_are_those_of_the_standard_library(tmp_path: Path, width: int, channels: int) -> None:
    """Odd lengths, so that chunks are padded; the extremes of the range are in."""
    rng = np.random.default_rng(width)
    values = rng.uniform(-1, 1, (37, channels))
    values[:2] = [[-1.0], [1.0]]
    path = write_wav(tmp_path / "a.wav", values if channels > 1 else values[:, 0], 11_025, width)
    rate, wanted = read_wav(path)
    found = read_wave(path)
    assert (found.rate, found.channels) == (rate, channels) == (11_025, channels)
    assert found.samples.dtype == np.float32
    assert np.abs(found.samples - wanted.mean(1)).max() <= 1e-7
    assert np.abs(found.samples - values.mean(1)).max() <= 2 ** (1 - 8 * width) + 1e-7


def test_floats_and_extensible_headers() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 50).astype(np.float32)
    assert (decoded(float_wav(values, 8_000)).samples == values).all()
    buffer = io.BytesIO()
    wavfile.write(buffer, 8_000, values.astype(np.float64))
    assert (decoded(buffer.getvalue()).samples == values).all()
    whole = (values * 32767).astype("<i2").tobytes()
    sub_format = b"\x01\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    form = np.array([0xFFFE, 1], "<u2").tobytes() + np.array([8_000, 16_000], "<u4").tobytes()
    form += np.array([2, 16, 22, 16], "<u2").tobytes() + np.array([4], "<u4").tobytes() + sub_format
    body = b"WAVE" + b"fmt " + np.array([len(form)], "<u4").tobytes() + form
    body += b"LIST" + np.array([4], "<u4").tobytes() + b"INFO" + b"data" + np.array([len(whole)], "<u4").tobytes()
    data = b"RIFF" + np.array([len(body) + len(whole)], "<u4").tobytes() + body + whole
    assert np.abs(decoded(data).samples - values).max() < 2**-14


def test_a_stream_without_a_known_size_is_read_to_its_end() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 50).astype(np.float32)
    data = float_wav(values)
    assert (decoded(data[:40] + b"\xff\xff\xff\xff" + data[44:]).samples == values).all()


@pytest.mark.parametrize("size", [None, (1 << 32) - 1, (1 << 64) - 1])
def test_rf64_is_read_to_its_end(size: int | None) -> None:
    """EBU Tech 3306: sizes of 64 bits in the chunk ds64; all ones where a recorder did not know them yet."""
    values = np.random.default_rng(0).uniform(-1, 1, 50).astype(np.float32)
    assert (decoded(_rf64(values, size)).samples == values).all()


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (8_000, 16_000), (48_000, 44_100), (16_000, 15_999)])
def test_a_resampled_tone_is_the_tone_at_the_new_rate(old: int, new: int) -> None:
    """Within 2e-3 of the sine itself, apart from the ends; a tone above half the new rate is removed."""

    def tone(rate: int, pitch: float) -> np.ndarray:  # type: ignore[type-arg]
        return np.sin(2 * np.pi * pitch * np.arange(rate // 4) / rate)

    found = resampled(Wave(tone(old, 440.0).astype(np.float32), old), new, "a").samples
    wanted = tone(new, 440.0)
    inner = slice(new // 50, min(len(found), len(wanted)) - new // 50)
    assert abs(len(found) - len(wanted)) <= 1
    assert np.abs(found[inner] - wanted[inner]).max() < 2e-3
    if new < 0.9 * old:
        above = resampled(Wave(tone(old, 0.45 * old).astype(np.float32), old), new, "a").samples
        assert np.abs(above[inner]).max() < 2e-2


def test_ratios_that_need_a_large_filter_are_refused() -> None:
    with pytest.raises(DataError, match="Resample the sounds to 16,001 Hz"):
        resampled(Wave(np.zeros(9, np.float32), 96_000), 16_001, "a.wav")


def test_equal_rates_change_nothing() -> None:
    wave_ = Wave(np.ones(3, np.float32), 8_000)
    assert resampled(wave_, 8_000, "a") is wave_


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is empty"),
        (b"ID3\x04 no wave at all", "its content is MP3, not WAV"),
        (b"fLaC\0\0\0\x22", "its content is FLAC, not WAV"),
        (b"no wave at all", "it is no WAV file"),
        (b"RIFF\0\0\0\0AVI LIST", "it is no WAV file"),
        (b"RIFF\x24\0\0\0WAVE", "is not a readable WAV file"),
        (float_wav(np.zeros(20))[:-7], "it is cut: its header names 80 bytes of samples, and 73 are there"),
        (float_wav(np.zeros(20))[:-8], "it is cut"),
        (float_wav(np.zeros(20))[:30], "is not a readable WAV file"),
        (float_wav(np.zeros(0)), "holds no samples"),
        (_rf64(np.zeros(20))[:-7], "it is cut: its header names 80 bytes of samples, and 73 are there"),
        (_rf64(np.zeros(20), 5 << 30), "it is cut: its header names 5,368,709,120 bytes of samples, and 80 are there"),
        (_encoded(7), "its samples are encoded as µ-law, not as PCM or floats"),
        (_encoded(6), "its samples are encoded as A-law"),
        (_encoded(0x11), "its samples are encoded as IMA ADPCM"),
        (_encoded(0x1234), "its samples are encoded as format 0x1234"),
        (float_wav(np.array([0.0, np.nan])), "not finite"),
        (float_wav(np.zeros(3), 7), "sampling rate 7 Hz"),
    ],
)
def test_damaged_files_are_one_error_with_their_name(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "cat" / "b.wav"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"^cat/b\.wav .*{told}"):
        read_wave(path)


def test_mutants_are_read_or_refused() -> None:
    """600 files with changed, removed or repeated bytes: a DataError or finite numbers, never another exception."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(3)
        file.setframerate(16_000)
        file.writeframes(bytes(range(240)))
    whole, drawn, refused = buffer.getvalue(), random.Random(0), 0
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            at = drawn.randrange(min(len(data), 60) if drawn.random() < 0.8 else len(data))
            kind = drawn.random()
            if kind < 0.6:
                data[at] = drawn.choice([0, 1, 255, drawn.randrange(256)])
            elif kind < 0.8:
                del data[at : at + drawn.randint(1, 30)]
            else:
                data[at:at] = data[at : at + drawn.randint(1, 8)]
        try:
            found = read_wave(Sound("mutant", lambda data=bytes(data): decoded(data)))
            assert np.isfinite(found.samples).all() and len(found.samples) <= len(data)
        except DataError as error:
            refused += 1
            assert error.message.startswith("mutant") and error.hint
    assert 50 < refused < 600


def test_long_sounds_are_refused_before_they_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "cat" / f"{at}.wav" for at in range(3)]
    files[0].parent.mkdir()
    for file in files:
        file.write_bytes(float_wav(np.zeros(100)))
    room = iter([10_000, 10_000, 1000])
    monkeypatch.setattr(sounds, "free", lambda: next(room))
    with pytest.raises(DataError, match=r"Not enough memory is free to read cat/2\.wav"):
        sounds.read_sounds({"all": Rows(tuple(files), ())}, "cat", LoadOptions())


def test_arrays() -> None:
    both = np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    assert (of_array(both, 8_000).samples == [0.5, 0.5, 0.5]).all()
    assert of_array(np.array([-32768, 16384], np.int16), 8_000).samples.tolist() == [-1.0, 0.5]
    for dtype in (np.int64, np.uint16):  # a list of Python's numbers is int64
        with pytest.raises(DataError, match=f"{np.dtype(dtype)}, of an unknown range"):
            read_wave(Sound("a", lambda dtype=dtype: of_array(np.array([1200, 300], dtype), 8_000)))
    with pytest.raises(DataError, match="3 axes"):
        read_wave(Sound("a", lambda: of_array(np.zeros((1, 2, 3)), 8_000)))
