"""Sounds of a folder, an array or a hub's data set, as waveforms or as the features of a model's extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espalier.model.data.base import ALL, Array, Inputs, LoadOptions, Split, TaskData
from espalier.model.data.extractors import FILE, MASK, Extractor, find_extractor
from espalier.model.data.rows import Rows, arrange, class_targets
from espalier.model.data.wav import AUDIO, Source, Wave, name_of, read_wave, resampled
from espalier.model.errors import DataError
from espalier.model.memory import free

WAVEFORM = "x"
DECODING = 15  # bytes of memory for a byte of a file of 8 bits: it, its numbers, float64 and float32


def sound_data(name: str, splits: Mapping[str, Rows], options: LoadOptions) -> TaskData:
    """Sounds in the model's shape, float32; the samples are Paths or Sounds. Raises DataError.

    A waveform is the mean of its channels at the extractor's sampling rate, cut or padded with zeros at its end.
    Without an extractor all sounds must have one rate. `attention_mask` int64 [n, samples]: 0 where padded, if the
    model takes it and the extractor makes it. The notes name each conversion.
    """
    classes, labels = (options.form.targets or class_targets)(splits, name)
    order = arrange({split: len(some.labels) for split, some in splits.items()}, options, name)
    rows = {split: splits[of].at(at.tolist()) for split, (of, at) in order.items()}
    inputs, notes = read_sounds(rows, name, options)
    made = {split: Split(inputs[split], labels[of][at], task=options.task) for split, (of, at) in order.items()}
    return TaskData(name, AUDIO, classes, made, {}, notes=notes[ALL], split_notes=notes, task=options.task)


def read_sounds(
    rows: Mapping[str, Rows], name: str, options: LoadOptions
) -> tuple[dict[str, Inputs], dict[str, tuple[str, ...]]]:
    """(inputs by split; notes of its rows and conversions in a sentence each, by split and of ALL)."""
    extractor, sources = find_extractor(options.tokenizer), {split: some.samples for split, some in rows.items()}
    read = {split: [_read(source) for source in some] for split, some in sources.items()}
    first = _one_rate(sources, read) if extractor is None else None
    rate = extractor.rate if extractor else first or 0
    even = {split: [resampled(wave, rate, name_of(source)).samples for source, wave in zip(some, read[split],
            strict=True)] for split, some in sources.items()}  # fmt: skip
    lengths = {split: np.array([len(wave) for wave in some], np.int64) for split, some in even.items()}
    target = _Target.of(options, extractor, max((int(some.max(initial=0)) for some in lengths.values()), default=0))
    target.check(sum(map(len, lengths.values())), name)
    inputs = {split: target.inputs(some, name) for split, some in even.items()}
    limit = target.length if target.extractor is None or target.extractor.waves else target.extractor.longest

    def notes(*of: str) -> tuple[str, ...]:
        waves, sizes = [wave for split in of for wave in read[split]], np.concatenate([lengths[split] for split in of])
        said = dict.fromkeys(note for split in of for note in rows[split].notes)
        return (*said, *_notes(waves, sizes, rate, limit, extractor is None))

    return inputs, {split: notes(split) for split in rows} | {ALL: notes(*rows)}


def _read(source: Source) -> Wave:
    """Read a sound; raises DataError where the memory that others leave is too small for its decoding."""
    if isinstance(source, Path) and source.is_file() and DECODING * source.stat().st_size > free():
        raise DataError(f"Not enough memory is free to read {name_of(source)}.", "Give fewer or shorter sounds.")
    return read_wave(source)


@dataclass(frozen=True, slots=True)
class _Target:
    """What a model takes. length: samples of a waveform; shape: of a sample, 0 for a dynamic size; empty if unknown."""

    extractor: Extractor | None
    length: int
    shape: tuple[int, ...]
    masked: bool

    @staticmethod
    def of(options: LoadOptions, extractor: Extractor | None, longest: int) -> _Target:
        """Raises DataError if the model takes no waveform and no extractor makes its features."""
        shape = options.signal or ()
        waves = not shape or len(shape) == 1 or (len(shape) == 2 and shape[0] == 1)
        if not waves and (extractor is None or extractor.waves):
            text = " × ".join(str(size or "any") for size in shape)
            raise DataError(f"The model takes {text} values a sample, not a waveform of one channel.",
                            f"Name a folder with {FILE} of its features (--tokenizer), or give arrays.")  # fmt: skip
        return _Target(extractor, (shape[-1] if waves and shape else 0) or longest, shape, options.masked)

    def check(self, count: int, name: str) -> None:
        """Raise DataError for more values than fit into the free memory."""
        size = 4 * count * max(int(np.prod([n for n in self.shape if n] or [1])), self.length)
        if size > free():
            raise DataError(f"The sounds of {name} take {size / 2**30:.1f} GiB, more than the free memory.",
                            "Give fewer sounds, or a model with a smaller input.")  # fmt: skip

    def inputs(self, waves: Sequence[Array], name: str) -> Inputs:
        """The inputs of all sounds of a split."""
        if self.extractor is None:
            return {WAVEFORM: self._shaped(_padded(waves, self.length))}
        made = [self.extractor.inputs(wave, self.length) for wave in waves]
        keys = [key for key in made[0] if key != MASK or self.masked] if made else []
        shapes = {key: {features[key].shape for features in made} for key in keys}
        if wrong := next((key for key in keys if len(shapes[key]) > 1), None):
            raise DataError(f"The features {wrong} of {name} differ in size.",
                            "Use an extractor that pads them to one size.")  # fmt: skip
        arrays = {key: np.concatenate([features[key] for features in made]) for key in keys}
        return {key: array if key == MASK else self._shaped(array, name) for key, array in arrays.items()}

    def _shaped(self, array: Array, name: str = "") -> Array:
        """With an axis of one channel where the model has it; raises DataError for another shape."""
        if len(self.shape) == array.ndim and self.shape[0] == 1:
            array = array[:, None]
        own = array.shape[1:]
        if self.shape and (len(own) != len(self.shape) or any(
            want not in (0, size) for want, size in zip(self.shape, own, strict=True)
        )):  # fmt: skip
            wanted = " × ".join(str(size or "any") for size in self.shape)
            raise DataError(f"The features of {name} are {' × '.join(map(str, own))}, the model takes {wanted}.",
                            "Use the model's feature extractor (--tokenizer).")  # fmt: skip
        return array


def _one_rate(sources: Mapping[str, Sequence[Source]], read: Mapping[str, Sequence[Wave]]) -> int | None:
    """The rate of all sounds; raises DataError if they differ."""
    first: dict[int, str] = {}
    for split, some in sources.items():
        for source, wave in zip(some, read[split], strict=True):
            first.setdefault(wave.rate, name_of(source))
    if len(first) > 1:
        (a, one), (b, other) = list(first.items())[:2]
        raise DataError(f"Sounds differ in their sampling rate: {one} has {a:,} Hz, {other} {b:,} Hz.",
                        f"Resample them, or name a folder with {FILE} of the model's rate (--tokenizer).")  # fmt: skip
    return next(iter(first), None)


def _padded(waves: Sequence[Array], length: int) -> Array:
    """float32 [n, length]: cut, or padded with zeros, at the end."""
    result = np.zeros((len(waves), length), np.float32)
    for at, wave in enumerate(waves):
        result[at, : len(wave)] = wave[:length]
    return result


def _notes(waves: Sequence[Wave], lengths: Array, rate: int, limit: int | None, rateless: bool) -> tuple[str, ...]:
    """Conversions of the sounds, one sentence each; lengths: samples at the model's rate."""
    count, notes = len(waves), list[str]()
    if rateless and count:
        notes.append(f"The model names no sampling rate; that of the sounds is {rate:,} Hz.")
    mixed = [wave for wave in waves if wave.channels > 1]
    if mixed:
        notes.append(f"{len(mixed)} of {count} sounds are mixed down from {mixed[0].channels} channels to one.")
    other = [wave for wave in waves if wave.rate != rate]
    if other:
        notes.append(f"{len(other)} of {count} sounds are resampled to {rate:,} Hz, the first from {other[0].rate:,}.")
    if limit is not None and rate:
        size = f"{limit / rate:.3g} s ({limit:,} samples)"
        cut, short = int((lengths > limit).sum()), int((lengths < limit).sum())
        if cut:
            longest = lengths.max() / rate
            notes.append(f"{cut} of {count} sounds are cut to {size}; the longest has {longest:.3g} s.")
        notes += [f"{short} of {count} sounds are padded with zeros to {size}."] if short else []
    return tuple(notes)
