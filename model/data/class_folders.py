"""Folders of classes: texts, images or sounds with a folder for each class, with or without splits above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from espalier.model.data.images import IMAGE_SUFFIXES
from espalier.model.data.wav import AUDIO, COMPRESSED, CONVERT
from espalier.model.data.wav import SUFFIXES as WAV_SUFFIXES
from espalier.model.errors import DataError

LONE = ""  # split name of files outside any split
KINDS = {"text": (".txt",), "image": IMAGE_SUFFIXES, AUDIO: WAV_SUFFIXES}
OTHER_IMAGES = (".tif", ".tiff", ".heic", ".heif", ".avif", ".jxl", ".ppm", ".pgm", ".svg")  # which are not read
NAMED = 4  # endings in a warning
Files = tuple[tuple[Path, str], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Data files at a path. files: by split, each with its class if the folder names it.

    notes: by split, on files that are not read, a sentence each.
    """

    kind: str  # table, text, image, audio, mask: images with masks, arrays, or plain: a text without labels
    files: dict[str, Files]
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def paths(self) -> list[Path]:
        """All files, in order."""
        return [path for files in self.files.values() for path, _ in files]


def find_classes(folder: Path, split_of: Callable[[str], str | None]) -> Found | None:
    """The files of each class; None if there are none. Raises DataError for mixed kinds, and sounds of other kinds."""
    inside = _inside(folder, split_of)
    files = {split: tuple(at for at in some if at[0].suffix.lower() in _READ) for split, some in inside.items()}
    suffixes = {path.suffix.lower() for group in files.values() for path, _ in group}
    kinds = [kind for kind, own in KINDS.items() if suffixes & {*own}]
    if len(kinds) > 1:
        raise DataError(f"The folder {folder.name} mixes {' and '.join(map(_plural, kinds))}.", "Keep one kind.")
    if not kinds:
        return None
    files = {split: some for split, some in files.items() if some}
    if kinds[0] == AUDIO:
        _check_classes(folder.name, [at for split in files for at in inside[split]])
    others = {split: [path for path, _ in inside[split] if path.suffix.lower() not in _READ] for split in files}
    return Found(kinds[0], files, {split: (_note(kinds[0], some),) for split, some in others.items() if some})


def refuse_compressed(folder: Path) -> None:
    """Raise DataError if a folder without readable files, its classes or splits hold sounds that are not WAV files."""
    every = (path for pattern in ("*", "*/*", "*/*/*") for path in folder.glob(pattern))
    if sounds := [path for path in every if path.suffix.lower() in COMPRESSED]:
        raise DataError(f"The folder {folder.name} holds {_counted(sounds)} files, which are not read.", CONVERT)


_READ = frozenset(end for ends in KINDS.values() for end in ends)


def _inside(folder: Path, split_of: Callable[[str], str | None]) -> dict[str, Files]:
    """Split → all files of its classes; of the folder itself where no split holds files that are read."""
    inner = {split_of(sub.name): sub for sub in sorted(folder.iterdir()) if sub.is_dir()}
    splits = {split: _class_files(sub) for split, sub in inner.items() if split}
    read = {split: some for split, some in splits.items() if any(path.suffix.lower() in _READ for path, _ in some)}
    return read or {LONE: _class_files(folder)}


def _class_files(folder: Path) -> Files:
    # `unsup` is the folder of unlabelled texts in the Large Movie Review data set.
    classes = [sub for sub in sorted(folder.iterdir()) if sub.is_dir() and sub.name != "unsup"]
    return tuple((path, sub.name) for sub in classes for path in sorted(sub.iterdir())
                 if path.suffix.lower() in _READ or (path.is_file() and not path.name.startswith(".")))  # fmt: skip


def _check_classes(name: str, files: Iterable[tuple[Path, str]]) -> None:
    """Raise DataError for a class whose sounds are all of a kind that is not read: it would be missing."""
    by_class: dict[str, list[Path]] = {}
    for path, label in files:
        by_class.setdefault(label, []).append(path)
    for label, some in by_class.items():
        sounds = [path for path in some if path.suffix.lower() in COMPRESSED]
        if sounds and not any(path.suffix.lower() in _READ for path in some):
            text = f"The class {label} of {name} has no .wav file, but {_counted(sounds)} files, which are not read."
            raise DataError(text, CONVERT)


def _note(kind: str, left: list[Path]) -> str:
    """The files that are left out, and what to do about those of this kind of data."""
    endings = {path.suffix.lower() for path in left}
    hint = f" {CONVERT}" if kind == AUDIO and endings & {*COMPRESSED} else ""
    hint = " Convert images to PNG or JPEG." if kind == "image" and endings & {*OTHER_IMAGES} else hint
    verb = "file is" if len(left) == 1 else "files are"
    return f"{len(left)} {verb} left out, as {_plural(kind)} are read from {', '.join(KINDS[kind])}: " \
           f"{_counted(left)}.{hint}"  # fmt: skip


def _counted(paths: Iterable[Path]) -> str:
    """`12 .mp3, 3 .md`, the most frequent first."""
    counts = Counter(path.suffix.lower() or "without an ending" for path in paths).most_common()
    shown = [f"{count:,} {ending}" for ending, count in counts[:NAMED]]
    rest = sum(count for _, count in counts[NAMED:])
    return ", ".join([*shown, *([f"{rest:,} others"] if rest else [])])


def _plural(kind: str) -> str:
    return "sounds" if kind == AUDIO else f"{kind}s"
