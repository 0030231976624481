"""Real data as people have them: the treebank's header-less TSV files and an extract of the IMDb reviews."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.data.loading import load_data


@pytest.fixture(scope="module")
def real(shared: Path) -> Path:
    folder = shared / "data"
    if not (folder / "SST2").is_dir():
        pytest.skip("the real data are not there")
    return folder


def test_sst2(real: Path) -> None:
    data = load_data(str(real / "SST2"), tokenizer=real / "wordpiece", max_length=48)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 6920, "validation": 872, "test": 1821}
    assert data.classes == ("0", "1")
    lines = (real / "SST2" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    wanted = sorted(tuple(line.rsplit("\t", 1)) for line in lines)
    labels = data.split("validation").labels.tolist()
    assert sorted((t, str(y)) for t, y in zip(data.texts["validation"], labels, strict=True)) == wanted
    assert data.split("train").inputs["input_ids"].shape == (6920, 48)


@pytest.mark.slow
def test_imdb(real: Path) -> None:
    data = load_data(str(real / "IMDB3k"), tokenizer=real / "wordpiece", limit=200)
    assert data.classes == ("negative", "positive") and set(data.splits) == {"train", "validation", "test"}
    assert 60 < int(data.split("train").labels.sum()) < 140
    assert data.split("train").inputs["input_ids"].shape == (200, 512)
