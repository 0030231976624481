"""Files of other endings in folders of classes: how many are left out and which, and what to do about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.data.loading import load_data
from espalier.model.errors import DataError
from tests.audio_models import CLASSES, write_sounds


def _others(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"ID3")


def test_sounds_of_other_endings_are_counted(tmp_path: Path) -> None:
    write_sounds(tmp_path, 40)
    _others(tmp_path, "fall/a.mp3", "fall/b.MP3", "rise/c.flac", "rise/notes", "tone/.DS_Store")
    notes = load_data(str(tmp_path)).notes
    said = "4 files are left out, as sounds are read from .wav, .wave: 2 .mp3, 1 .flac, 1 without an ending. Convert"
    assert notes[0].startswith(said) and "ffmpeg" in notes[0] and len(notes[0].splitlines()) == 1


def test_they_are_counted_for_each_split(tmp_path: Path) -> None:
    for split, count in (("train", 24), ("test", 16)):
        write_sounds(tmp_path / split, count)
    _others(tmp_path, "train/fall/a.txt.bak", "test/docs/a.md", "test/docs/b.md", "readme.md")
    data = load_data(str(tmp_path))
    train, test = (data.notes_of(split)[0] for split in ("train", "test"))
    assert train == "1 file is left out, as sounds are read from .wav, .wave: 1 .bak."
    assert test == "2 files are left out, as sounds are read from .wav, .wave: 2 .md."
    assert data.notes[:2] == (train, test) and data.classes == CLASSES


def test_nothing_is_said_of_whole_folders(tmp_path: Path) -> None:
    write_sounds(tmp_path, 40)
    assert not [note for note in load_data(str(tmp_path)).notes if "left out" in note]


def test_a_class_of_other_sounds_alone_is_an_error(tmp_path: Path) -> None:
    write_sounds(tmp_path, 40)
    _others(tmp_path, "hum/a.ogg", "hum/b.ogg")
    with pytest.raises(DataError, match=r"The class hum of .* has no \.wav file, but 2 \.ogg files") as error:
        load_data(str(tmp_path))
    assert "WAV" in error.value.hint


@pytest.mark.parametrize("names", [("a/1.mp3", "b/2.mp3"), ("1.mp3", "2.mp3"), ("train/a/1.mp3", "train/b/2.mp3")])
def test_folders_of_other_sounds_alone_are_an_error(tmp_path: Path, names: tuple[str, ...]) -> None:
    _others(tmp_path, *names)
    with pytest.raises(DataError, match=r"holds 2 \.mp3 files, which are not read") as error:
        load_data(str(tmp_path))
    assert "Convert sounds to WAV" in error.value.hint


def test_images_and_texts(tmp_path: Path, tokenizer: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="no Pillow")
    for at in range(10):
        for label in "ab":
            for kind in ("images", "texts"):
                (tmp_path / kind / label).mkdir(parents=True, exist_ok=True)
            image.new("L", (4, 4)).save(tmp_path / "images" / label / f"{at}.png")
            (tmp_path / "texts" / label / f"{at}.txt").write_text(f"text {at} of {label}")
    _others(tmp_path, "images/a/0.tif", "texts/a/0.md")
    said = load_data(str(tmp_path / "images")).notes
    assert said == ("1 file is left out, as images are read from .png, .jpg, .jpeg, .bmp, .gif, .webp: 1 .tif. "
                    "Convert images to PNG or JPEG.",)  # fmt: skip
    for _ in range(2):  # the second time of the cache
        said = load_data(str(tmp_path / "texts"), tokenizer=tokenizer).notes
        assert said == ("1 file is left out, as texts are read from .txt: 1 .md.",)
    _others(tmp_path, "texts/b/0.md")
    assert load_data(str(tmp_path / "texts"), tokenizer=tokenizer).notes[0].startswith("2 files are left out")
