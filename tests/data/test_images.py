"""Folders of images by class; these need Pillow, and say so where it is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.model.data import images
from espalier.model.data.loading import load_data
from espalier.model.errors import DataError


def _paint(folder: Path, mode: str = "L", size: tuple[int, int] = (8, 6)) -> None:
    Image = pytest.importorskip("PIL.Image", reason="no Pillow")
    for name, level in (("dark", 0), ("light", 255)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(10):
            color = level if mode == "L" else (level, 0, 0)
            Image.new(mode, size, color).save(folder / name / f"{mode}{size[0]}-{number}.png")


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_arrays(tmp_path: Path, mode: str, channels: int) -> None:
    _paint(tmp_path, mode)
    data = load_data(str(tmp_path))
    assert data.kind == "image" and data.classes == ("dark", "light")
    split = data.split("train")
    assert split.inputs["x"].shape == (16, channels, 6, 8) and split.inputs["x"].dtype == np.float32
    assert np.array_equal(split.inputs["x"][:, 0, 0, 0], split.labels)


def test_grey_and_coloured_become_coloured(tmp_path: Path) -> None:
    _paint(tmp_path / "train", "L")
    _paint(tmp_path / "train", "RGB")
    assert load_data(str(tmp_path)).split("train").inputs["x"].shape == (40, 3, 6, 8)


def test_conversions_are_counted_for_each_split(tmp_path: Path) -> None:
    _paint(tmp_path / "train", "L")
    _paint(tmp_path / "test", "RGB")
    data = load_data(str(tmp_path))
    assert data.notes_of("train") == ("20 of 20 images are repeated from grey to three channels.",)
    assert data.notes_of("test") == () and data.only("test").notes == ()
    assert data.notes_of("all") == ("20 of 40 images are repeated from grey to three channels.",)


def test_sizes_must_agree(tmp_path: Path) -> None:
    _paint(tmp_path)
    _paint(tmp_path, size=(9, 9))
    with pytest.raises(DataError, match=r"\(width × height\): .*(8 × 6.*9 × 9|9 × 9.*8 × 6)"):
        load_data(str(tmp_path))


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    _paint(tmp_path)
    (tmp_path / "dark" / "bad.png").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"dark/bad\.png"):
        load_data(str(tmp_path))


def test_without_pillow_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(10):
            (tmp_path / name / f"{number}.png").write_bytes(b"")
    monkeypatch.setattr(images.importlib, "import_module", missing)
    with pytest.raises(DataError) as error:
        load_data(str(tmp_path))
    assert "pip install pillow" in error.value.hint
